# SPDX-License-Identifier: Apache-2.0
"""Files that many nodes need, passed on between them: who takes what from whom, and how."""
