#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Collect on a node what somebody needs who was not there, without secrets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: support_bundle
short_description: Write one archive with logs, manifests and readings, without secrets
description:
  - Collects unit and environment, the journal of the last starts, the kernel's log, the releases'
    manifests and package versions, the host, C(nvidia-smi) where it is, what the engine says of
    itself, and what explains the last death.
  - Secrets that the node keeps (credentials, environment, the engine's process) are removed
    wherever they stand, and whatever stands where a secret usually stands.
    C(/etc/sglang/secrets.yaml) is read for that and not collected.
  - What cannot be had (no engine, no journal, no driver) is named in C(problems.txt).
options:
  dest:
    description: The archive to write, on the node.
    type: path
    required: true
  root:
    description: The product's folder.
    type: path
    default: /opt/sglang
  unit:
    description: The engine's unit.
    type: str
    default: sglang.service
  url:
    description: Where the engine answers on the node; empty not to ask it.
    type: str
    default: ""
  api_key:
    description: The engine's API key.
    type: str
    default: ""
  secrets:
    description: Further values to remove.
    type: list
    elements: str
    default: []
  given:
    description: Further parts, name to text; they are cleaned like the others.
    type: dict
    default: {}
  lines:
    description: Lines of each journal, the last ones.
    type: int
    default: 5000
  max_mib:
    description: Bound on all parts together, uncompressed.
    type: int
    default: 32
attributes:
  check_mode:
    description: Nothing is collected in check mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Collect
  sm120.sglang.support_bundle:
    dest: /run/support.tar.gz
    api_key: "{{ engine_api_key }}"
    given:
      plan.json: "{{ plan | to_nice_json }}"
  become: true
"""

RETURN = r"""
dest:
  description: The archive.
  returned: always
  type: str
size:
  description: Its size in bytes, 0 in check mode.
  returned: always
  type: int
parts:
  description: Names of what is in it.
  returned: always
  type: list
  elements: str
problems:
  description: What could not be had.
  returned: always
  type: list
  elements: str
"""

import platform
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _priority
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.archive import write
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.collect import Wanted, collect

_MIB = 1 << 20


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "root": {"type": "path", "default": "/opt/sglang"},
            "unit": {"type": "str", "default": "sglang.service"},
            "url": {"type": "str", "default": ""},
            "api_key": {"type": "str", "default": "", "no_log": True},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            "given": {"type": "dict", "default": {}},
            "lines": {"type": "int", "default": 5000},
            "max_mib": {"type": "int", "default": 32},
        },
        supports_check_mode=True,
    )
    asked = module.params
    dest = Path(asked["dest"])
    if module.check_mode:
        module.exit_json(changed=False, dest=str(dest), size=0, parts=[], problems=[])
    limit = max(1, asked["max_mib"]) * _MIB
    found = collect(
        Wanted(
            root=asked["root"],
            unit=asked["unit"],
            lines=asked["lines"],
            limit=limit // 4,
            given={str(name): str(text) for name, text in asked["given"].items()},
            url=asked["url"],
            api_key=asked["api_key"],
        ),
        asked["secrets"],
    )
    folder = dest.name.partition(".")[0] or platform.node()
    try:
        size = write(found.parts, dest, folder, limit, time.time())
    except OSError as error:
        module.fail_json(
            msg=f"{dest}: {error.strerror}. Free space there, or choose another folder"
        )
    module.exit_json(
        changed=False,
        dest=str(dest),
        size=size,
        parts=sorted(found.parts),
        problems=found.problems,
    )


if __name__ == "__main__":
    _priority.give_way()
    main()
