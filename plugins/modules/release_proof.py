#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Prove that a built release works on this node, before anything else is done with it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_proof
short_description: Compare a release with its lock, import it, use its GPUs once
description:
  - Runs once, as the engine's user, with the release's own interpreter. What is installed (by
    C(importlib.metadata)) is compared with the release's lock; the compiled packages are imported;
    with O(gpu) torch must have code for each GPU, all GPUs compute at the same time, and Triton
    compiles and runs a kernel. A GPU with less than 2048 MiB free is left out with a warning, since
    what serves there may need them.
  - An undefined symbol or a missing library is named as the two packages that do not fit.
  - The proof is recorded with the boot and the driver that it was made on
    (C(proofs/RELEASE.json)).
options:
  modules:
    description: Python modules to import, torch first.
    type: list
    elements: str
    default: [torch]
  gpu:
    description: Whether the stack is for GPUs.
    type: bool
    default: true
  deadline:
    description: Seconds after which the proof is stopped and has failed.
    type: float
    default: 300
extends_documentation_fragment: [sm120.sglang.release, sm120.sglang.account]
attributes:
  check_mode:
    description: The proof is made where there is a tree; nothing is recorded.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Prove the release
  sm120.sglang.release_proof:
    root: /opt/sglang
    release: sglang-0.5.12.post1-0123456789ab
    user: sglang
    modules: [torch, sgl_kernel, flashinfer]
"""

RETURN = r"""
proved:
  description: Whether there was a tree and all is well.
  type: bool
  returned: always
imports:
  description: Module, version and seconds of each import.
  type: list
  elements: dict
  returned: when there is a tree
gpus:
  description: Number, name and capability of each GPU that computed rightly.
  type: list
  elements: dict
  returned: when there is a tree
left_out:
  description: A sentence for each GPU that had no room for the proof; it is to be made again.
  type: list
  elements: str
  returned: when there is a tree
seconds:
  description: How long the proof took.
  type: float
  returned: when there is a tree
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _priority,
    _release,
    _stack,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import account
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record, release


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "modules": {"type": "list", "elements": "str", "default": ["torch"]},
            "gpu": {"type": "bool", "default": True},
            "deadline": {"type": "float", "default": 300},
        },
        supports_check_mode=True,
    )
    asked = module.params
    paths = _release.Paths(Path(asked["root"]), asked["release"])
    tree = paths.building if paths.building.is_dir() else paths.final
    if not tree.is_dir():
        if module.check_mode:
            module.exit_json(changed=False, proved=False)
        module.fail_json(msg=f"release {paths.release} is not on this node; run the deployment")
    try:
        result = release.prove(
            paths.root,
            paths.release,
            tree,
            release.Asked(
                asked["user"],
                asked["environment"],
                asked["modules"],
                asked["gpu"],
                asked["deadline"],
            ),
        )
    except release.ReleaseProofError as error:
        module.fail_json(msg=str(error), problems=error.problems, proved=False)
    except (OSError, _stack.StackError, account.AccountError) as error:
        module.fail_json(msg=f"{tree}: {error}")
    for said in result["left_out"]:
        module.warn(said)
    if not module.check_mode:
        record.write(paths.root, paths.release, "imports", record.stamp(), result)
    module.exit_json(changed=False, proved=True, **result)


if __name__ == "__main__":
    _priority.give_way()
    main()
