#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Prove that a CUDA compiler makes kernels for the cards, as the engine's user."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_compile_proof
short_description: Prove that a CUDA compiler makes kernels for the cards
description:
  - Runs nvcc as the engine's user, checks its version, compiles a small kernel for one
    architecture, and reads with cuobjdump that the kernel is in the result.
  - Works in a temporary folder of its own and leaves nothing; needs no GPU.
options:
  nvcc:
    description: The compiler.
    type: path
    required: true
  cuobjdump:
    description: The program that lists kernels; beside nvcc when empty.
    type: str
    default: ""
  version:
    description: Wanted version, as many parts as matter, like C(13) or C(13.0).
    type: str
    required: true
  architecture:
    description: Architecture to compile for.
    type: str
    default: sm_120
  user:
    description: User to run as; the one that runs the module when empty.
    type: str
    default: ""
  environment:
    description: Further environment variables.
    type: dict
    default: {}
  timeout:
    description: Seconds that each program may take.
    type: int
    default: 120
attributes:
  check_mode:
    description: The same in check mode.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Prove the compiler
  sm120.sglang.cuda_compile_proof:
    nvcc: /usr/local/cuda-13.0/bin/nvcc
    version: "13.0"
    user: sglang
"""

RETURN = r"""
version:
  description: The compiler's full version.
  type: str
  returned: success
elf:
  description: Kernels that cuobjdump sees.
  type: list
  elements: str
  returned: success
seconds:
  description: Seconds that the compilation took.
  type: float
  returned: success
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _command,
    _priority,
)
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import proof
from ansible_collections.sm120.sglang.plugins.module_utils._node import account


def _environment(asked: dict[str, Any], home: str) -> dict[str, str]:
    nvcc = Path(asked["nvcc"])
    return {
        "PATH": f"{nvcc.parent}:/usr/local/bin:/usr/bin:/bin",
        "CUDA_HOME": str(nvcc.parent.parent),
        "HOME": home,
        "TMPDIR": home,
        "LC_ALL": "C.UTF-8",
        **{name: str(value) for name, value in asked["environment"].items()},
    }


def _prove(asked: dict[str, Any], folder: str) -> tuple[dict[str, Any], list[str]]:
    identity = account.become(asked["user"])[1] if asked["user"] else {}
    if identity:
        os.chown(folder, identity["user"], identity["group"])
    environment = _environment(asked, folder)

    def run(*command: str) -> proof.Ran:
        seconds = asked["timeout"]
        return proof.Ran(*_command.run(command, seconds, cwd=folder, env=environment, **identity))

    source = Path(folder) / "kernel.cu"
    source.write_text(proof.KERNEL)
    source.chmod(0o644)
    version = run(asked["nvcc"], "--version")
    compiled = listed = None
    started = time.monotonic()
    if proof.version_fits(proof.parse_nvcc_version(version.output), asked["version"]):
        option = proof.gencode(asked["architecture"])
        compiled = run(asked["nvcc"], "-gencode", option, "-c", "kernel.cu", "-o", "kernel.o")
    seconds = time.monotonic() - started
    if compiled is not None and compiled.code == 0:
        listed = run(asked["cuobjdump"], "--list-elf", "kernel.o")
    result = {
        "version": proof.parse_nvcc_version(version.output),
        "elf": proof.parse_list_elf(listed.output) if listed else [],
        "seconds": round(seconds, 2),
    }
    return result, proof.judge(asked, version, compiled, listed)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nvcc": {"type": "path", "required": True},
            "cuobjdump": {"type": "str", "default": ""},
            "version": {"type": "str", "required": True},
            "architecture": {"type": "str", "default": "sm_120"},
            "user": {"type": "str", "default": ""},
            "environment": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    asked = dict(module.params)
    asked["cuobjdump"] = asked["cuobjdump"] or str(Path(asked["nvcc"]).parent / "cuobjdump")
    try:
        proof.gencode(asked["architecture"])
        with tempfile.TemporaryDirectory(prefix="cuda-proof-") as folder:
            result, problems = _prove(asked, folder)
    except (ValueError, account.AccountError) as error:
        module.fail_json(msg=str(error))
    if problems:
        module.fail_json(msg=problems[0])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    _priority.give_way()
    main()
