#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Install and lock NVIDIA's driver, or a CUDA toolkit beside others."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_packages
short_description: Install and lock NVIDIA's driver, or a CUDA toolkit beside others
description:
  - Finishes what an interrupted dpkg left, fetches the lists of one repository, and refuses before
    dpkg starts whatever can be refused, version, downgrade, other packages that would change,
    space, and a download that fails.
  - The driver is installed in one version as a whole, held, and pinned by APT preferences. Holds
    are lifted for the change alone and are back after it, also when it fails.
  - A toolkit does not touch C(/usr/local/cuda).
options:
  driver:
    description:
      - The driver to install, with C(packages), C(extra), C(version), C(branch), C(pinning),
        C(remove) and C(allow_downgrade), as the filter C(cuda_plan) gives it.
    type: dict
    default: {}
  toolkit:
    description: The toolkit to install, with C(packages) and C(home).
    type: dict
    default: {}
  hold:
    description: Driver packages to hold, when nothing else is to be done.
    type: list
    elements: str
    default: []
  source:
    description: The repository's source file, whose package lists are fetched.
    type: path
    required: true
  lock_seconds:
    description: Seconds to wait for somebody else's work with apt.
    type: int
    default: 60
attributes:
  check_mode:
    description: Asks apt what it would do, with the package lists that are there.
    support: full
  diff_mode:
    description: Shows package versions before and after.
    support: full
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Install the driver
  sm120.sglang.cuda_packages:
    source: /etc/apt/sources.list.d/sglang-nvidia.sources
    driver:
      packages: [nvidia-driver-cuda, nvidia-kernel-open-dkms, nvidia-persistenced]
      extra: []
      version: 580.95.05
      branch: 580
      pinning: ""
      remove: []
      allow_downgrade: false
"""

RETURN = r"""
version:
  description: The driver's package version.
  type: str
  returned: when a driver was asked for
installed:
  description: Package to version, of all that apt installs or moves.
  type: dict
  returned: always
removed:
  description: Packages that apt removes.
  type: list
  elements: str
  returned: always
repaired:
  description: Packages that an interrupted dpkg had left half done.
  type: list
  elements: str
  returned: always
alternatives:
  description: Choices that the toolkit's packages had registered, and that were taken out again.
  type: list
  elements: str
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import (
    names,
    toolkit,
    transaction,
)


def _work(asked: dict[str, Any], check: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"installed": {}, "removed": [], "repaired": [], "alternatives": []}
    if not check:
        transaction.wait_unlocked(asked["lock_seconds"])
        result["repaired"] = transaction.repair()
        if asked["driver"] or asked["toolkit"]:
            transaction.update(asked["source"])
    if asked["driver"]:
        done = transaction.install_driver(asked["driver"], check)
        result.update(done)
    elif asked["hold"] and not check:
        transaction.hold(asked["hold"])
    if asked["toolkit"]:
        done = toolkit.install(asked["toolkit"], check)
        result["installed"] = {**result["installed"], **done["installed"]}
        result["alternatives"] = done["alternatives"]
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "driver": {"type": "dict", "default": {}},
            "toolkit": {"type": "dict", "default": {}},
            "hold": {"type": "list", "elements": "str", "default": []},
            "source": {"type": "path", "required": True},
            "lock_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    asked = module.params
    before = transaction.read_packages()
    try:
        result = _work(asked, module.check_mode)
    except names.CudaError as error:
        module.fail_json(msg=str(error))
    changed = bool(result["installed"] or result["removed"] or result["repaired"] or asked["hold"])
    module.exit_json(
        changed=changed,
        diff={
            "before": "".join(
                f"{name} {before['driver'][name]}\n"
                for name in sorted(result["installed"])
                if name in before["driver"]
            ),
            "after": "".join(f"{n} {v}\n" for n, v in sorted(result["installed"].items())),
        },
        **result,
    )


if __name__ == "__main__":
    main()
