# SPDX-License-Identifier: Apache-2.0
"""Options of every module that talks to an engine on its node."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that ansible-doc puts into each module that extends `sm120.sglang.engine`."""

    DOCUMENTATION = r"""
options:
  unit:
    description: The engine's systemd unit.
    type: str
    default: sglang.service
  host:
    description: The address that the engine binds on its node.
    type: str
    default: 127.0.0.1
  port:
    description: The port that the engine listens on.
    type: int
    default: 30000
  api_key:
    description: The engine's API key, where it has one.
    type: str
  release:
    description:
      - The SGLang release that runs there. Faults that only other releases have are then told last.
    type: str
    default: ""
  remedies:
    description:
      - What to tell the operator for a cause that matches, before the built-in table is asked.
    type: list
    elements: dict
    default: []
    suboptions:
      pattern:
        description: A regular expression, searched in the cause.
        type: str
        required: true
      remedy:
        description: What to do about it.
        type: str
        required: true
attributes:
  check_mode:
    support: full
    description: The engine is not asked in check mode; the task is skipped and says so.
notes:
  - Needs C(paramiko) and C(requests) on the controller, systemd 248 or newer on the node.
"""
