#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Build a release's virtual environment from verified wheels, offline."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_build
short_description: Build a release beside the serving one
description:
  - Installs exactly the given wheels with uv, without any index or network, into
    C(releases/.building-ID). M(sm120.sglang.release_seal) makes it complete.
  - Leftovers of interrupted runs are removed in any case; a complete release is not touched unless
    O(drift) says that somebody else did.
extends_documentation_fragment: sm120.sglang.release
options:
  python:
    description: Interpreter on the node.
    type: path
    required: true
  wheels:
    description: Folder with the verified wheels.
    type: path
    required: true
  requirements:
    description: Requirements with one digest each, as M(sm120.sglang.wheelhouse) returns them.
    type: str
    required: true
  uv_wheel:
    description: File name of uv's own wheel in O(wheels).
    type: str
    required: true
  drift:
    description:
      - What was changed by hand in the complete release, as M(sm120.sglang.node_facts) gives it.
      - Modes, owners and what was added are put right in place; anything else is built anew.
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    description: Reports whether a build is needed.
    support: full
  diff_mode:
    description: A tree of thousands of files has no useful diff.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Build the release
  sm120.sglang.release_build:
    root: /opt/sglang
    release: lab-0.5.9-0123456789ab
    python: /usr/bin/python3.11
    wheels: /opt/sglang/wheels
    requirements: "{{ wheelhouse.requirements }}"
    uv_wheel: uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
"""

RETURN = r"""
path:
  description: The tree that was built, or the complete one.
  type: str
  returned: always
package:
  description: Folder of the engine's package in it.
  type: str
  returned: when there is a tree
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _os_errors,
    _release,
    _stack,
    _toolkit,
    _wheelhouse,
)


def build(module: AnsibleModule, paths: _release.Paths) -> None:
    """Make the virtual environment and compare it with the lock.

    Args:
        module: The parameters.
        paths: The release.

    Raises:
        _release.ReleaseError: uv failed, or something else than the lock was installed.
        _stack.StackError: The requirements are not pinned.
    """
    pins = _stack.parse_lock(module.params["requirements"], "requirements")
    wheels = Path(module.params["wheels"])
    cache = paths.root / "cache" / "uv"
    # What was changed in place in a release was changed in uv's cache as well.
    own = re.compile(rf"/site-packages/({'|'.join(_release.PACKAGES).replace('-', '_')})/")
    if not all(own.search(change["file"]) for change in module.params["drift"]):
        shutil.rmtree(cache, ignore_errors=True)
    uv = paths.root / "tools" / Path(module.params["uv_wheel"]).stem
    # Each time: what is there may have been changed, and its wheel was just verified.
    _built.extract_tool(wheels / module.params["uv_wheel"], "uv", uv)
    paths.building.mkdir(parents=True)
    (paths.building / "stack.lock").write_text(module.params["requirements"], encoding="utf-8")
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        # On the file system of the releases, so that files are shared by hard link.
        "UV_CACHE_DIR": str(cache),
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    venv = paths.building / "venv"
    python = str(venv / "bin" / "python")
    make = [str(uv), "venv", "--quiet", "--relocatable", "--python", module.params["python"]]
    install = [str(uv), "pip", "install", "--quiet", "--python", python, "--no-index", "--no-deps"]
    install += ["--find-links", str(wheels), "--require-hashes", "--requirements", "-"]
    # People edit the engine's files in place. Were they shared with uv's cache, such an edit
    # would be in every later release, so the engine is copied and only the rest is linked.
    engine = [pin for pin in pins if pin.name in _release.PACKAGES]
    rest = [pin for pin in pins if pin.name not in _release.PACKAGES]
    steps: list[tuple[list[str], list[_stack.Pin]]] = [([*make, str(venv)], [])]
    steps += [([*install, "--link-mode", "hardlink"], rest)] if rest else []
    steps += [([*install, "--link-mode", "copy"], engine)] if engine else []
    for command, group in steps:
        # Low priority: the serving engine's scheduler threads come first.
        done = subprocess.run(
            ["nice", "-n", "10", *command],
            input=_wheelhouse.requirements(group),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.strip()[-1500:]
            raise _release.ReleaseError(
                f"uv failed while building {paths.release}: {said}{_os_errors.of_text(said)}"
            )
    _toolkit.finish(_release.site_packages(paths.building))
    wanted = {pin.name: pin.version for pin in pins}
    problems = _built.compare_installed(
        wanted, _built.installed(_release.site_packages(paths.building))
    )
    if problems:
        raise _release.ReleaseError("; ".join(problems))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "python": {"type": "path", "required": True},
            "wheels": {"type": "path", "required": True},
            "requirements": {"type": "str", "required": True},
            "uv_wheel": {"type": "str", "required": True},
            "drift": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    paths = _release.Paths(Path(module.params["root"]), module.params["release"])

    drift = module.params["drift"]

    def wanted() -> bool:
        complete = (paths.final / _release.COMPLETE).is_file()
        return not complete or _release.needs_building(drift)

    needed = wanted()
    result: dict[str, Any] = {
        "changed": needed or bool(drift) or bool(_release.unfinished(paths.root))
    }
    try:
        if result["changed"] and not module.check_mode:
            with _release.build_lock(paths.root):
                # Whoever held the lock may have completed it.
                needed = wanted()
                # A leftover of this id must not be taken for the tree that gets sealed.
                for name in _release.unfinished(paths.root):
                    shutil.rmtree(paths.root / "releases" / name)
                if needed:
                    try:
                        build(module, paths)
                    except BaseException:
                        # What cannot be used must not fill the disk of an engine that serves.
                        shutil.rmtree(paths.building, ignore_errors=True)
                        raise
                elif drift:
                    _release.mend(paths.final, drift)
        tree = paths.building if needed else paths.final
        result["path"] = str(tree)
        if not (needed and module.check_mode):
            result["package"] = str(_release.own_package(_release.site_packages(tree)))
    except (_release.ReleaseError, _stack.StackError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        told = _os_errors.explain(error, paths.building)
        module.fail_json(msg=f"{paths.release} could not be built: {told}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
