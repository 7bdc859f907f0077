#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Build a release's virtual environment from verified wheels, offline."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_build
short_description: Build a release beside the serving one
description:
  - Installs exactly the given wheels with uv, without any index or network, into
    C(releases/.building-ID), and compiles their bytecode, since the engine's user cannot write
    there. M(sm120.sglang.release_seal) makes it complete.
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
  verify:
    description:
      - With V(quick) packages that a complete release of the node has from the same wheels are
        taken over from it, with their bytecode, where that release is as it was sealed by the size
        and time of its files. With V(full) nothing is taken over, and uv unpacks every wheel anew.
    type: str
    choices: [quick, full]
    default: quick
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
shared_with:
  description: The release that packages were taken over from; empty for none.
  type: str
  returned: when a tree was built
builder:
  description: Which run's tree it is, for M(sm120.sglang.release_seal).
  type: str
  returned: when a tree was built
shared:
  description: How many packages were taken over.
  type: int
  returned: when a tree was built
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _os_errors,
    _priority,
    _release,
    _stack,
    _takeover,
    _toolkit,
    _uv,
)


def clean(module: AnsibleModule, paths: _release.Paths) -> list[_takeover.Candidate]:
    """Read the node's complete releases, and forget what may have been changed with them.

    Args:
        module: The parameters.
        paths: The release.

    Returns:
        Those that something may be taken over from.
    """
    full = module.params["verify"] == "full"
    found, changes = ([], {}) if full else _takeover.candidates(paths.root)
    drift = module.params["drift"]
    others = {
        name: [change["file"] for change in changed if not _own(change)]
        for name, changed in changes.items()
        if name != paths.release
    }
    for name, files in others.items():
        if files:
            module.warn(
                f"release {name}: {len(files)} of its libraries' files changed by hand, such as "
                f"{files[0]}. Each build throws uv's cache away and unpacks every wheel, for as "
                f"long as that release is there. Remedy: deploy it, which builds it anew, or "
                f"remove {paths.root / 'releases' / name} when nothing goes back to it"
            )
    # What was changed in place in a release was changed in uv's cache as well.
    changed = [change for every in changes.values() for change in every] + drift
    if full or not all(map(_own, changed)):
        shutil.rmtree(_uv.Uv.cache(paths.root), ignore_errors=True)
    # What of such a drift hides behind size and time is in every tree that shares the file.
    return found if all(map(_own, drift)) else []


def _own(change: Mapping[str, Any]) -> bool:
    names = "|".join(_release.PACKAGES).replace("-", "_")
    return re.search(rf"/site-packages/({names})/", change["file"]) is not None


def build(module: AnsibleModule, paths: _release.Paths) -> dict[str, Any]:
    """Make the virtual environment with its bytecode, and compare it with the lock.

    Args:
        module: The parameters.
        paths: The release.

    Returns:
        `builder`, which run's tree it is; `shared_with`, the release that something was taken
        over from, and `shared`, how many packages that are.

    Raises:
        _release.ReleaseError: uv failed, or something else than the lock was installed.
        _stack.StackError: The requirements are not pinned.
    """
    pins = _stack.parse_lock(module.params["requirements"], "requirements")
    found = clean(module, paths)
    tree = paths.building
    tree.mkdir(parents=True)
    builder = _release.claim(paths)
    (tree / "stack.lock").write_text(module.params["requirements"], encoding="utf-8")
    uv = _uv.Uv.extract(Path(module.params["wheels"]), module.params["uv_wheel"], paths)
    uv.make(module.params["python"])
    donor = _takeover.choose(found, (tree / _takeover.CONFIGURATION).read_text("utf-8"), pins)
    taken = _takeover.take(donor, tree, pins) if donor else _takeover.Taken()
    # People edit the engine's files in place. Were they shared with uv's cache, such an edit
    # would be in every later release, so the engine is copied and only the rest is linked.
    engine = [pin for pin in pins if pin.name in _release.PACKAGES]
    rest = [pin for pin in pins if pin.name not in {*_release.PACKAGES, *taken.packages}]
    uv.install(rest, "hardlink")
    uv.install(engine, "copy")
    packages = _release.site_packages(tree)
    _toolkit.finish(packages)
    wanted = {pin.name: pin.version for pin in pins}
    problems = _built.compare_installed(wanted, _built.installed(packages))
    if problems:
        raise _release.ReleaseError("; ".join(problems))
    sources = _takeover.uncompiled(tree, taken)
    _built.compile_sources(tree, _takeover.copy_bytecode(donor, tree, sources))
    return {
        "builder": builder,
        "shared_with": donor.tree.name if donor else "",
        "shared": len(taken.packages),
    }


def main() -> None:
    """Run the module."""
    os.umask(0o022)  # the engine's user reads what root writes here
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "release": {"type": "str", "required": True},
            "python": {"type": "path", "required": True},
            "wheels": {"type": "path", "required": True},
            "requirements": {"type": "str", "required": True},
            "uv_wheel": {"type": "str", "required": True},
            "drift": {"type": "list", "elements": "dict", "default": []},
            "verify": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
        },
        supports_check_mode=True,
    )
    paths = _release.Paths(Path(module.params["root"]), module.params["release"])

    drift = module.params["drift"]

    def wanted() -> bool:
        complete = (paths.final / _release.COMPLETE).is_file()
        return not complete or _release.needs_building(drift)

    def tell(needed: bool) -> None:
        tree = paths.building if needed else paths.final
        result["path"] = str(tree)
        if not (needed and module.check_mode):
            result["package"] = str(_release.own_package(_release.site_packages(tree)))
        module.exit_json(**result)

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
                _release.sweep(paths.root)
                if needed:
                    try:
                        result |= build(module, paths)
                    except BaseException:
                        # What cannot be used must not fill the disk of an engine that serves.
                        shutil.rmtree(paths.building, ignore_errors=True)
                        raise
                elif drift:
                    _release.mend(paths.final, drift)
                # With the lock still held: whoever waits for it takes the tree's name away.
                tell(needed)
        tell(needed)
    except (_release.ReleaseError, _stack.StackError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        told = _os_errors.explain(error, paths.building)
        module.fail_json(msg=f"{paths.release} could not be built: {told}")


if __name__ == "__main__":
    _priority.give_way()
    main()
