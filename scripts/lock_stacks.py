#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile the locks of stacks and routers with uv: one lock for each and Python version.

Usage: lock_stacks.py [STACK...|router-VERSION...]

`NAME.in` is resolved with dependencies, `NAME.nodeps.in` without. `NAME.overrides.in` holds uv
overrides, and `NAME.off-index.in` exact pins that go into the lock as they are, since no index in
reach has them. A build that the main index does not have (a CPU torch) is found through uv's own
variables, UV_FIND_LINKS or UV_INDEX.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from ansible_collections.sm120.sglang.plugins.module_utils import _coherence, _stack
from packaging.markers import Marker

_ROLES = Path(__file__).resolve().parent.parent / "roles"
STACKS = _ROLES / "engine_release/files/stacks"
# The gateway's router: NAME is its version, and the Pythons are those of the supported systems.
ROUTERS = _ROLES / "gateway/files/routers"
ROUTER = "router-"
_ENTRY = re.compile(
    r"^(?P<pin>[A-Za-z0-9][^\s;\\]*==[^\s;\\]+)(?: ; (?P<marker>[^\\\n]+?))?"
    r"(?P<hashes>(?: \\\n    --hash=\S+)*)$",
    re.MULTILINE,
)


def compile_universal(
    source: Path, pythons: tuple[str, ...], dependencies: bool, overrides: Path | None = None
) -> str:
    """Resolve a requirements file for every Python of the stack on x86-64 Linux.

    Args:
        source: The requirements file.
        pythons: The stack's Python versions.
        dependencies: Whether to resolve dependencies too.
        overrides: uv's overrides, None without.

    Returns:
        uv's universal lock, markers included.
    """
    oldest = min(pythons, key=_stack.version_key)
    with tempfile.TemporaryDirectory() as folder:
        # uv takes the list of platforms from a project file in its working directory only.
        newest = _stack.version_key(max(pythons, key=_stack.version_key))
        platform = (
            "sys_platform == 'linux' and platform_machine == 'x86_64' "
            f"and python_full_version < '{newest[0]}.{newest[1] + 1}'"
        )
        Path(folder, "pyproject.toml").write_text(f'[tool.uv]\nenvironments = ["{platform}"]\n')
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"]
        command += ["--no-header", "--no-annotate", "--generate-hashes", "--only-binary", ":all:"]
        command += [
            "--python-version",
            oldest,
            str(source),
            *([] if dependencies else ["--no-deps"]),
            *(["--overrides", str(overrides)] if overrides else []),
        ]
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder
        ).stdout


def select(lock: str, python: str, unhashed: set[str]) -> str:
    """Keep the entries whose marker holds on one Python.

    Args:
        lock: A universal lock.
        python: The Python version.
        unhashed: Packages whose digests are left out (they differ from place to place).

    Returns:
        The entries without markers.

    Raises:
        SystemExit: A line is not understood, such as a package that is named by its URL.
    """
    strange = _ENTRY.sub("", lock).split()
    if strange:
        raise SystemExit(f"lock_stacks: cannot read {' '.join(strange[:6])!r} in uv's lock")
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    kept = []
    for entry in _ENTRY.finditer(lock):
        if entry["marker"] and not Marker(entry["marker"]).evaluate(environment):
            continue
        name = _stack.normalise(entry["pin"].partition("==")[0])
        kept.append(entry["pin"] + ("" if name in unhashed else entry["hashes"]))
    return "".join(f"{entry}\n" for entry in kept)


def off_index_entries(text: str) -> str:
    """Take the comments out of an off-index file.

    Args:
        text: Pins as a lock has them, with markers and digests where they are known.

    Returns:
        The entries.
    """
    return "".join(
        f"{line}\n" for line in text.splitlines() if line.strip() and not line.startswith("#")
    )


def lock_stack(name: str) -> None:
    """Write all locks of one stack.

    Args:
        name: The stack's name.

    Raises:
        SystemExit: The result disagrees with the stack file.
    """
    spec = STACKS / f"{name}.yml"
    stack = _stack.parse_stack(yaml.safe_load(spec.read_text()), spec.name)
    overrides = STACKS / f"{name}.overrides.in"
    text = compile_universal(
        STACKS / f"{name}.in",
        stack.python,
        dependencies=True,
        overrides=overrides if overrides.exists() else None,
    )
    without = STACKS / f"{name}.nodeps.in"
    if without.exists():
        text += compile_universal(without, stack.python, dependencies=False)
    off_index = STACKS / f"{name}.off-index.in"
    added = off_index_entries(off_index.read_text()) if off_index.exists() else ""
    # What is off the index for one Python may be on it, with a digest, for another.
    apart = {_stack.normalise(entry["pin"].partition("==")[0]) for entry in _ENTRY.finditer(added)}
    for python in stack.python:
        lock = select(text, python, set(stack.unhashed) - apart) + select(added, python, set())
        target = STACKS / f"{name}-py{python.replace('.', '')}.lock"
        pins = _stack.parse_lock(lock, target.name)
        problems = _stack.check_coherence(stack, pins, target.name)
        problems += _coherence.check(stack, pins, python, target.name)
        if problems:
            raise SystemExit("\n".join(problems))
        target.write_text(lock)
        print(f"{target.name}: {len(pins)} packages")


def lock_router(version: str) -> None:
    """Write all locks of one router.

    Args:
        version: The router's version.
    """
    pythons = tuple(sorted(_stack.DISTRIBUTION_PYTHONS.values(), key=_stack.version_key))
    text = compile_universal(ROUTERS / f"{version}.in", pythons, dependencies=True)
    for python in pythons:
        lock = select(text, python, set())
        target = ROUTERS / f"{version}-py{python.replace('.', '')}.lock"
        pins = _stack.parse_lock(lock, target.name)
        target.write_text(lock)
        print(f"{target.name}: {len(pins)} packages")


def main() -> None:
    """Lock the named stacks and routers, or all."""
    stacks = sorted(path.stem for path in STACKS.glob("*.yml"))
    routers = sorted(f"{ROUTER}{path.stem}" for path in ROUTERS.glob("*.in"))
    for name in sys.argv[1:] or [*stacks, *routers]:
        if name.startswith(ROUTER):
            lock_router(name.removeprefix(ROUTER))
        else:
            lock_stack(name)


if __name__ == "__main__":
    main()
