# SPDX-License-Identifier: Apache-2.0
"""One engine over several nodes: who belongs to it, how it is launched, and what its nodes say."""
