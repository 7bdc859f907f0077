# SPDX-License-Identifier: Apache-2.0
"""Options of every module that runs something as the engine would."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that ansible-doc puts into each module that extends `sm120.sglang.account`."""

    DOCUMENTATION = r"""
options:
  user:
    description: The engine's user.
    type: str
    required: true
  environment:
    description: The engine's environment.
    type: dict
    default: {}
"""
