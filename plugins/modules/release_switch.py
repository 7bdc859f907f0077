#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Make a complete release the current one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_switch
short_description: Make a complete release the current one
description:
  - Points C(current) to the release by one atomic rename, and C(previous) to the one before.
  - A running engine goes on with the files it has; restarting it is another task's decision.
extends_documentation_fragment: sm120.sglang.release
attributes:
  check_mode:
    description: Reports whether the link would change.
    support: full
  diff_mode:
    description: Shows the link before and after.
    support: full
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Switch to the release
  sm120.sglang.release_switch:
    root: /opt/sglang
    release: lab-0.5.9-0123456789ab
"""

RETURN = r"""
previous:
  description: The release that was current before, empty without one.
  type: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _release


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    root, release = Path(module.params["root"]), module.params["release"]
    old = _release.linked(root, "current")
    changed = old != release
    if changed and not module.check_mode:
        try:
            _release.switch(root, release)
        except _release.ReleaseError as error:
            module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed,
        previous=old or "",
        diff={"before": f"current -> {old or 'nothing'}\n", "after": f"current -> {release}\n"},
    )


if __name__ == "__main__":
    main()
