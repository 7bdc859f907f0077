#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Prove and complete a built release."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_seal
short_description: Prove a built release and make it complete
description:
  - Compiles what was edited since the build, imports the engine as its user while it lists all
    files with their sums, and gives the tree its name by one rename.
extends_documentation_fragment:
  - sm120.sglang.release
  - sm120.sglang.claimed
  - sm120.sglang.account
options:
  imports:
    description: Python modules that must import, where O(proof) is not asked for.
    type: list
    elements: str
    default: [sglang.srt.server_args, torch, transformers]
  proof:
    description:
      - The whole proof of M(sm120.sglang.release_proof), made and recorded here while the files
        are listed and read.
    type: dict
    suboptions:
      modules:
        description: Python modules to import, torch first.
        type: list
        elements: str
        required: true
      gpu:
        description: Whether the stack is for GPUs.
        type: bool
        required: true
      deadline:
        description: Seconds after which the proof is stopped and has failed.
        type: float
        default: 300
  proved:
    description: Whether M(sm120.sglang.release_proof) has imported this very tree.
    type: bool
    default: false
  shared_with:
    description:
      - The release that M(sm120.sglang.release_build) took packages over from. The sums of files
        that both still share are taken from it; all others are read.
    type: str
    default: ""
attributes:
  check_mode:
    description: Reports whether there is something to seal.
    support: full
  diff_mode:
    description: A tree of thousands of files has no useful diff.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Complete the release
  sm120.sglang.release_seal:
    root: /opt/sglang
    release: lab-0.5.9-0123456789ab
    user: sglang
"""

RETURN = r"""
path:
  description: The complete release.
  type: str
  returned: always
versions:
  description: Versions that the import reported.
  type: dict
  returned: when sealed without O(proof)
imports:
  description: Module, version and seconds of each import.
  type: list
  elements: dict
  returned: when sealed with O(proof)
gpus:
  description: Number, name and capability of each GPU that computed rightly.
  type: list
  elements: dict
  returned: when sealed with O(proof)
left_out:
  description: A sentence for each GPU that had no room for the proof; it is to be made again.
  type: list
  elements: str
  returned: when sealed with O(proof)
seconds:
  description: How long the proof took.
  type: float
  returned: when sealed with O(proof)
"""

import functools
import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _os_errors,
    _priority,
    _release,
    _sealed,
    _stack,
    _takeover,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import account
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record, release

_PROOF = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
tops = dict.fromkeys(name.partition(".")[0] for name in sys.argv[1:])
print(json.dumps({top: getattr(sys.modules[top], "__version__", "") for top in tops}))
"""
_ASKED = {
    "modules": {"type": "list", "elements": "str", "required": True},
    "gpu": {"type": "bool", "required": True},
    "deadline": {"type": "float", "default": 300},
}
_ENGINE = ["sglang.srt.server_args", "torch", "transformers"]


def prove(module: AnsibleModule, paths: _release.Paths) -> dict[str, Any]:
    """Prove the tree as it was asked for; nothing is written there.

    Args:
        module: The parameters.
        paths: The release.

    Returns:
        What is to be told of it.

    Raises:
        _release.ReleaseError: It was refused.
    """
    proof = module.params["proof"]
    if module.params["proved"]:
        return {}
    if proof is None:
        return {"versions": imported(module, paths.building / "venv" / "bin" / "python")}
    asked = release.Asked(
        module.params["user"],
        module.params["environment"],
        proof["modules"],
        proof["gpu"],
        proof["deadline"],
    )
    try:
        return release.prove(paths.root, paths.release, paths.building, asked)
    except (release.ReleaseProofError, _stack.StackError, account.AccountError) as error:
        raise _release.ReleaseError(str(error)) from None


def imported(module: AnsibleModule, python: Path) -> dict[str, str]:
    """Import the engine as its user.

    Args:
        module: Parameters `user`, `environment` and `imports`.
        python: The release's interpreter.

    Returns:
        Package to version.

    Raises:
        _release.ReleaseError: The import failed; with the exception's last line.
    """
    user = module.params["user"]
    # Nothing is written into the tree, whoever the user is: it is being read.
    command = [str(python), "-B", "-c", _PROOF, *module.params["imports"]]
    done = account.run_as(user, command, module.params["environment"])
    if done.returncode != 0:
        raise _release.ReleaseError(
            f"the release cannot be imported as {user}: {account.last_line(done.stderr)}. "
            "Compare the stack's versions with this node (driver, C library, Python)"
        )
    versions: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return versions


def compile_patched(tree: Path) -> None:
    """Compile what was edited since the tree was built: files of the engine's own package.

    Args:
        tree: The tree.

    Raises:
        OSError: Bytecode cannot be written.
        _release.ReleaseError: The interpreter cannot be run.
    """
    packages = _release.site_packages(tree)
    own = _release.own_package(packages).rglob("*.py")
    names = [str(path.relative_to(tree)) for path in own]
    _built.compile_sources(tree, _built.stale(tree, names, _built.cache_tag(packages)))


def known_sums(
    module: AnsibleModule, paths: _release.Paths, entries: Mapping[str, _sealed.Entry]
) -> Mapping[str, str]:
    """Sums of what the tree shares with the release that the build took packages over from.

    Args:
        module: Parameter `shared_with`.
        paths: The release.
        entries: The tree's listing.

    Returns:
        Digests by name; all other files are read.
    """
    name = module.params["shared_with"]
    if not name:
        return {}
    other = _release.Paths(paths.root, Path(name).name).final
    donor = _takeover.read(other, _release.read(other))
    return _takeover.known_sums(donor, paths.building, entries) if donor else {}


def main() -> None:
    """Run the module."""
    os.umask(0o022)  # the engine's user reads what root writes here
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "imports": {"type": "list", "elements": "str", "default": _ENGINE},
            "proof": {"type": "dict", "options": _ASKED},
            "proved": {"type": "bool", "default": False},
            "shared_with": {"type": "str", "default": ""},
            "builder": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    paths = _release.Paths(Path(module.params["root"]), module.params["release"])
    result: dict[str, Any] = {"changed": False, "path": str(paths.final)}
    if not paths.building.is_dir():
        complete = (paths.final / _release.COMPLETE).is_file()
        if not complete and not module.check_mode:
            module.fail_json(msg=f"release {paths.release} was not built; run the deployment")
        # In check mode nothing was built, but it would have been.
        result["changed"] = not complete
        module.exit_json(**result)
    result["changed"] = True
    if module.check_mode:
        module.exit_json(**result)
    try:
        with _release.build_lock(paths.root):
            _release.check_claim(paths, module.params["builder"])
            compile_patched(paths.building)
            with ThreadPoolExecutor(1) as pool:
                proving = pool.submit(prove, module, paths)
                known = functools.partial(known_sums, module, paths)
                _release.seal(paths, known, lambda: result.update(proving.result()))
        for said in result.get("left_out", []):
            module.warn(said)
        if "gpus" in result:
            proved = {name: result[name] for name in ("imports", "gpus", "seconds", "left_out")}
            record.write(paths.root, paths.release, "imports", record.stamp(), proved)
    except _release.ReleaseError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        shutil.rmtree(paths.building, ignore_errors=True)
        told = _os_errors.explain(error, paths.building)
        module.fail_json(msg=f"{paths.release} could not be completed: {told}")
    module.exit_json(**result)


if __name__ == "__main__":
    _priority.give_way()
    main()
