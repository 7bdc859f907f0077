# SPDX-License-Identifier: Apache-2.0
"""The controller's side of passing files on."""
