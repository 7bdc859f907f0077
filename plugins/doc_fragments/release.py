# SPDX-License-Identifier: Apache-2.0
"""Options of every module that works on one release on the node."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that ansible-doc puts into each module that extends `sm120.sglang.release`."""

    DOCUMENTATION = r"""
options:
  root:
    description: The product's folder.
    type: path
    required: true
  release:
    description: The release's id.
    type: str
    required: true
"""
