#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Remove old releases from the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_prune
short_description: Remove old releases, and what only they needed
description:
  - Removes release trees, their kernel caches, launch records and kept failures, and wheels that
    no remaining release needs. A release in use is refused.
options:
  root:
    description: The product's folder.
    type: path
    required: true
  config:
    description: The folder of the configuration and of the launch records.
    type: path
    default: /etc/sglang
  failures:
    description: The folder of what is kept of failed launches.
    type: path
    default: /var/lib/sglang/failures
  releases:
    description: Ids of the releases to remove.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Names exactly what would be removed.
    support: full
  diff_mode:
    description: The result names what is removed.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Remove an old release
  sm120.sglang.release_prune:
    root: /opt/sglang
    releases: [lab-0.5.9-0123456789ab]
"""

RETURN = r"""
removed:
  description: Folders, wheels and launch records that were removed.
  type: list
  elements: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _failures,
    _priority,
    _prune,
    _release,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "config": {"type": "path", "default": "/etc/sglang"},
            "failures": {"type": "path", "default": str(_failures.FOLDER)},
            "releases": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    root, config = Path(asked["root"]), Path(asked["config"])
    if module.check_mode:
        found = _prune.leftovers(root, config, asked["releases"])
        module.exit_json(changed=bool(found.names), removed=found.names)
    try:
        with _release.build_lock(root):
            found = _prune.remove(root, config, Path(asked["failures"]), asked["releases"])
    except (_release.ReleaseError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(found.names), removed=found.names)


if __name__ == "__main__":
    _priority.give_way()
    main()
