#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Wait until nobody else works with apt, and say who does."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_idle
short_description: Wait until nobody else works with apt, and say who does
description:
  - Prints a line when apt's or dpkg's lock is held, with the process that holds it, and waits for
    it. Takes no lock itself and changes nothing.
options:
  timeout:
    description: Seconds to wait.
    type: int
    default: 600
attributes:
  check_mode:
    description: The same in check mode, without waiting.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
  action:
    description: The waiting and the messages are the controller's part.
    support: full
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Wait for apt
  sm120.sglang.apt_idle:
    timeout: 600
"""

RETURN = r"""
holder:
  description: Who holds the lock, empty when nobody does.
  type: str
  returned: always
waited:
  description: Seconds that it took.
  type: float
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import transaction


def main() -> None:
    """Run the module: one look, the action plugin repeats it."""
    module = AnsibleModule(
        argument_spec={"timeout": {"type": "int", "default": 600}}, supports_check_mode=True
    )
    holder = transaction.lock_holder()
    module.exit_json(changed=False, holder=transaction.held_by(holder) if holder else "")


if __name__ == "__main__":
    main()
