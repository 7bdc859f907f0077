#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: end_failed
short_description: End a node as failed after its failure was told
description:
  - A play that goes on with other nodes rescues a node's failure, and the node would count as
    successful. This ends it as failed. The failure itself was told where it happened.
  - Its result says so with RV(told), by which a callback knows that there is nothing new to show.
    P(sm120.sglang.operator#callback) counts such a failure and shows it with C(-v) only.
  - Touches no node.
options:
  msg:
    description: What ended as failed, in a few words.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: The same in check mode.
seealso:
  - module: ansible.builtin.fail
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: End as failed
  sm120.sglang.end_failed:
    msg: "{{ inventory_hostname }}: failed, as told above"
  when: result.verdict == 'failed'
"""

RETURN = r"""
told:
  description: That the failure was told before.
  type: bool
  returned: always
  sample: true
"""
