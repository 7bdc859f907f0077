#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Prove and complete a built release."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_seal
short_description: Prove a built release and make it complete
description:
  - Compiles what was edited since the build, imports the engine as its user, lists all files with
    their sums, and gives the tree its name by one rename.
extends_documentation_fragment: [sm120.sglang.release, sm120.sglang.account]
options:
  imports:
    description:
      - Python modules that must import; by default those of the engine. None where
        M(sm120.sglang.release_proof) has imported them from this very tree.
    type: list
    elements: str
    default: [sglang.srt.server_args, torch, transformers]
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
  returned: when something was imported
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _os_errors,
    _release,
    _takeover,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import account

_PROOF = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
tops = dict.fromkeys(name.partition(".")[0] for name in sys.argv[1:])
print(json.dumps({top: getattr(sys.modules[top], "__version__", "") for top in tops}))
"""
_ENGINE = ["sglang.srt.server_args", "torch", "transformers"]


def prove(module: AnsibleModule, python: Path) -> dict[str, str]:
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
    command = [str(python), "-c", _PROOF, *module.params["imports"]]
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


def donor(module: AnsibleModule, paths: _release.Paths) -> _takeover.Donor | None:
    """The release that the build took packages over from, None without one."""
    name = module.params["shared_with"]
    if not name:
        return None
    tree = _release.Paths(paths.root, Path(name).name).final
    return _takeover.read(tree, _release.read(tree))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "imports": {"type": "list", "elements": "str", "default": _ENGINE},
            "shared_with": {"type": "str", "default": ""},
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
            # Files are read once more, beside what serves.
            os.nice(10)
            compile_patched(paths.building)
            if module.params["imports"]:
                result["versions"] = prove(module, paths.building / "venv" / "bin" / "python")
            _release.seal(paths, _takeover.known_sums(donor(module, paths), paths.building))
    except _release.ReleaseError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        shutil.rmtree(paths.building, ignore_errors=True)
        told = _os_errors.explain(error, paths.building)
        module.fail_json(msg=f"{paths.release} could not be completed: {told}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
