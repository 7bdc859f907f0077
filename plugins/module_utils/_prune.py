# SPDX-License-Identifier: Apache-2.0
"""Remove old releases, and what only they needed: caches, wheels, records, kept failures."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _failures, _launches, _release
from ansible_collections.sm120.sglang.plugins.module_utils._proof import record
from ansible_collections.sm120.sglang.plugins.module_utils._stack import (
    StackError,
    normalise,
    parse_lock,
)

# The folder of uv's own cache, beside the caches of releases.
SHARED_CACHES = ("uv",)


def in_use(node: Mapping[str, Any], wanted: str) -> set[str]:
    """Releases that are never removed: wanted, current, previous, and those to go back to."""
    launches = node["launches"]
    named = {launches["records"].get(launches[key], {}).get("release") for key in _LINKS}
    return {wanted, node["releases"]["current"], node["releases"]["previous"], *named} - {"", None}


_LINKS = (_launches.SERVING, _launches.BEFORE)


def removable(node: Mapping[str, Any], wanted: str, keep: int) -> list[str]:
    """Decide which releases go once `wanted` serves.

    Args:
        node: The reading; its `releases.built` says when each complete release was built.
        wanted: The release that this run deploys; it need not be there yet.
        keep: How many releases stay, those in use among them.

    Returns:
        Ids, oldest first. A release that failed is as old as any other; those in use stay even
        when they are more than `keep`. After the switch `previous` names what serves now.
    """
    built: Mapping[str, float] = node["releases"]["built"]
    used = in_use(node, wanted)
    others = sorted(set(built) - used, key=lambda name: (built[name], name))
    room = max(0, keep - len(used & {*built, wanted}))
    return others[: max(0, len(others) - room)]


@dataclass(frozen=True)
class Leftovers:
    """What goes with some releases: paths, records of launches, and names for people."""

    paths: tuple[Path, ...]
    launches: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """What is removed, for people."""
        return [str(path) for path in self.paths] + [f"launch {name}" for name in self.launches]


def leftovers(root: Path, config: Path, gone: Iterable[str]) -> Leftovers:
    """What only the removed releases needed, and caches that no release has any more.

    Args:
        root: The product's folder.
        config: The configuration folder.
        gone: Releases that are removed.

    Returns:
        Trees, caches, wheels and launch records. Wheels stay when a lock cannot be read.
    """
    releases, names = root / "releases", set(gone)
    paths = [releases / name for name in sorted(names) if (releases / name).is_dir()]
    kept = [
        entry
        for entry in _folders(releases)
        if entry.name not in names and not entry.name.startswith(".")
    ]
    proofs = [record.path(root, name) for name in sorted(names)]
    paths += [path for path in proofs if path.is_file()]
    alive = {entry.name for entry in kept} | set(SHARED_CACHES)
    paths += [entry for entry in _folders(root / "cache") if entry.name not in alive]
    paths += _unneeded_wheels(root / "wheels", kept)
    records = _launches.read(config)["records"]
    launches = [name for name, found in records.items() if found["release"] in names]
    return Leftovers(tuple(paths), tuple(sorted(launches)))


def _folders(place: Path) -> list[Path]:
    return sorted(entry for entry in place.iterdir() if entry.is_dir()) if place.is_dir() else []


def _unneeded_wheels(wheels: Path, kept: Iterable[Path]) -> list[Path]:
    try:
        locks = [(tree / "stack.lock").read_text(encoding="utf-8") for tree in kept]
        needed = {(pin.name, pin.version) for lock in locks for pin in parse_lock(lock, "lock")}
    except (OSError, StackError):
        return []
    found = sorted(wheels.glob("*.whl")) if wheels.is_dir() else []
    return [path for path in found if _distribution(path) not in needed]


def _distribution(wheel: Path) -> tuple[str, str]:
    name, _, rest = wheel.name.partition("-")
    return normalise(name), rest.partition("-")[0]


def remove(root: Path, config: Path, failures: Path, gone: Iterable[str]) -> Leftovers:
    """Remove releases with what only they needed.

    Raises:
        _release.ReleaseError: One of them is in use.
    """
    names = list(gone)
    known = _launches.read(config)
    used = {_release.linked(root, "current"), _release.linked(root, "previous")}
    used |= {known["records"].get(known[key], {}).get("release") for key in _LINKS}
    for name in names:
        if name in used:
            raise _release.ReleaseError(f"release {name} is in use and stays")
    found = leftovers(root, config, names)
    _launches.forget(config, found.launches)
    for path in found.paths:
        if path.is_dir():
            # Interrupted, it must not be taken for a complete release; the next build removes it.
            aside = path
            if path.parent == root / "releases":
                aside = path.with_name(f".replaced-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    _failures.forget(failures, names)
    return found
