# SPDX-License-Identifier: Apache-2.0
"""What the builder of a release works with, and what it has installed."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._release import ReleaseError
from ansible_collections.sm120.sglang.plugins.module_utils._stack import normalise

_DIST_INFO = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)\.dist-info$")


def extract_tool(wheel: Path, script: str, target: Path) -> None:
    """Take a binary that a wheel ships out of it.

    Args:
        wheel: The wheel, such as uv's.
        script: The binary's name.
        target: Where to put it, replaced by one rename.

    Raises:
        ReleaseError: The wheel has no such binary.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(f".data/scripts/{script}")]
        if not names:
            raise ReleaseError(f"{wheel.name} holds no binary {script}")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        with archive.open(names[0]) as source, temporary.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    temporary.chmod(0o755)
    temporary.replace(target)


def installed(packages: Path) -> dict[str, str]:
    """Distributions in a site-packages folder.

    Args:
        packages: The folder.

    Returns:
        Normalised name to version.
    """
    found = {}
    for entry in packages.iterdir():
        match = _DIST_INFO.match(entry.name)
        if match:
            found[normalise(match["name"])] = match["version"]
    return found


def compare_installed(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Compare what is installed with the lock.

    Args:
        wanted: Package to version by the lock.
        found: Package to version on disk.

    Returns:
        One sentence a difference; empty when equal.
    """
    problems = [
        f"{name}: the lock says {version}, installed is {found.get(name, 'nothing')}"
        for name, version in sorted(wanted.items())
        if found.get(name) != version
    ]
    return problems + [
        f"{name} {found[name]}: installed, but not in the lock"
        for name in sorted(set(found) - set(wanted))
    ]
