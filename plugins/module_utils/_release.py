# SPDX-License-Identifier: Apache-2.0
"""Releases on a node: immutable trees that are built aside, sealed, and switched to.

A release lives in `releases/<id>`. It is built in `releases/.building-<id>`, patched there, and
appears under its name by one rename when it is complete; `COMPLETE` holds the digest of its
`tree.json`, which lists every file of the engine's package by content. `rest.json` lists the other
files of its virtual environment by size and time: they share inodes with uv's cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _verified
from ansible_collections.sm120.sglang.plugins.module_utils._stack import normalise

COMPLETE = "COMPLETE"
LOCK_SECONDS = 180.0
_LOCK_POLL_SECONDS = 0.2
TREE = "tree.json"
REST = "rest.json"
# What people edit in place: the engine, and on a gateway the router. Only one is in a tree.
PACKAGES = ("sglang", "sglang-router")
_DIST_INFO = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)\.dist-info$")


class ReleaseError(RuntimeError):
    """A release cannot be built or used; the message says what is wrong and what to do."""


@dataclass(frozen=True)
class Paths:
    """Where one release lives.

    Attributes:
        root: The product's folder on the node, such as /opt/sglang.
        release: The release's id.
    """

    root: Path
    release: str

    @property
    def final(self) -> Path:
        """The complete release."""
        return self.root / "releases" / self.release

    @property
    def building(self) -> Path:
        """The release while it is built; leftovers of an interrupted run have this name."""
        return self.root / "releases" / f".building-{self.release}"


def site_packages(tree: Path) -> Path:
    """The site-packages folder of a release tree's virtual environment.

    Args:
        tree: `Paths.final` or `Paths.building`.

    Returns:
        The folder.

    Raises:
        ReleaseError: There is none.
    """
    found = sorted((tree / "venv" / "lib").glob("python3.*/site-packages"))
    if not found:
        raise ReleaseError(f"{tree}: no virtual environment; remove the folder and run again")
    return found[0]


def own_package(packages: Path) -> Path:
    """The folder of the package that a release is built for.

    Args:
        packages: The tree's site-packages.

    Returns:
        The engine's, or the router's where there is no engine.
    """
    folders = [packages / name.replace("-", "_") for name in PACKAGES]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


@contextlib.contextmanager
def build_lock(root: Path, work: str = "building") -> Iterator[None]:
    """Let one builder work at a time on a node, and one that switches.

    A builder whose controller was killed goes on for a while; the next one waits for it. A switch
    does not wait for a build: going back must not depend on it.

    Args:
        root: The product's folder.
        work: `building` or `switching`; each has a lock of its own.

    Yields:
        Nothing.

    Raises:
        ReleaseError: Another run builds for longer than `LOCK_SECONDS`, or there is no such folder.
    """
    if not root.is_dir():
        raise ReleaseError(f"{root}: no such folder; the role engine_release makes it")
    with (root / (".lock" if work == "building" else f".lock-{work}")).open("w") as guard:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise ReleaseError(
                        f"{root}: another deployment is {work} on this node; wait for it and run "
                        "again"
                    ) from None
                time.sleep(_LOCK_POLL_SECONDS)
        yield


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


def package_files(package: Path) -> list[str]:
    """Every file of the engine's package, bytecode left out, as sorted relative names."""
    names = []
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name != "__pycache__"]
        base = Path(folder).relative_to(package)
        names += [str(base / name) for name in files if not name.endswith(".pyc")]
    return sorted(names)


def rest_of(tree: Path) -> dict[str, list[int]]:
    """Every file of a virtual environment outside the engine's package, bytecode left out.

    Args:
        tree: The release's tree.

    Returns:
        Name relative to the tree to size and mtime (ns); links are followed, and one that leads
        nowhere is left out. The ctime does not count: each further release that shares the file
        changes it.
    """
    engine = own_package(site_packages(tree))
    found = {}
    for folder, folders, files in os.walk(tree / "venv"):
        place = Path(folder)
        folders[:] = [name for name in folders if name != "__pycache__" and place / name != engine]
        for name in files:
            if not name.endswith(".pyc"):
                with contextlib.suppress(OSError):
                    status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - tens of thousands
                    relative = f"{folder}/{name}"[len(str(tree)) + 1 :]
                    found[relative] = [status.st_size, status.st_mtime_ns]
    return found


def rest_drift(tree: Path) -> list[str]:
    """What was removed or changed in a release's environment outside the engine's package.

    Args:
        tree: A complete release; one that was sealed without such a list has no drift.

    Returns:
        One sentence a file.
    """
    record = _verified.load_record(tree / REST)
    if not record:
        return []
    now = rest_of(tree)
    return sorted(
        f"{name}: {'changed by hand' if name in now else 'missing'}"
        for name, entry in record.items()
        if now.get(name) != entry
    )


def seal(paths: Paths) -> str:
    """Make a built release complete: list its files, mark it, give it its name.

    Args:
        paths: The release; its building tree is patched and compiled. A tree of the same id
            (one that was edited by hand) is replaced; what runs from it goes on.

    Returns:
        The digest that `COMPLETE` holds.
    """
    package = own_package(site_packages(paths.building))
    record: dict[str, Any] = {}
    for name in package_files(package):
        path = package / name
        record[name] = [_verified.sha256_file(path), *(_verified.fingerprint(path) or ())]
    _verified.save_record(paths.building / TREE, record)
    _verified.save_record(paths.building / REST, rest_of(paths.building))
    digest = tree_digest(record)
    (paths.building / COMPLETE).write_text(digest + "\n", encoding="ascii")
    aside = paths.final.with_name(f".replaced-{paths.release}")
    shutil.rmtree(aside, ignore_errors=True)
    if paths.final.exists():
        paths.final.rename(aside)
    paths.building.rename(paths.final)
    shutil.rmtree(aside, ignore_errors=True)
    return digest


def tree_digest(record: Mapping[str, Any]) -> str:
    """Digest over names and contents of a tree record; times and inodes do not count."""
    content = sorted((name, entry[0]) for name, entry in record.items())
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def drift(tree: Path) -> list[str]:
    """What differs in a complete release from what was sealed.

    Args:
        tree: The release.

    Returns:
        One sentence a difference; empty when it is as it was sealed. Files whose times or inode
        changed are read (a copy by hard link changes the ctime, and nothing else).
    """
    record = _verified.load_record(tree / TREE)
    try:
        mark = (tree / COMPLETE).read_text(encoding="ascii").strip()
    except OSError:
        return [f"{tree}: not complete"]
    if not record or tree_digest(record) != mark:
        return [f"{tree / TREE}: does not belong to {COMPLETE}"]
    try:
        package = own_package(site_packages(tree))
    except ReleaseError as error:
        return [str(error)]
    found = []
    for name, entry in record.items():
        path = package / name
        seen = _verified.fingerprint(path)
        if seen is None:
            found.append(f"{name}: missing")
        elif seen != entry[1:] and _verified.sha256_file(path) != entry[0]:
            found.append(f"{name}: changed by hand")
    found += [f"{name}: added by hand" for name in package_files(package) if name not in record]
    return sorted(found) + rest_drift(tree)


def switch(root: Path, release: str, previous: str = "") -> None:
    """Make a release the current one, by one rename; the old one becomes `previous`.

    Args:
        root: The product's folder.
        release: The id; the release must be complete.
        previous: What `previous` shall name instead of the old one.

    Raises:
        ReleaseError: It is not complete.
    """
    if not (root / "releases" / release / COMPLETE).is_file():
        raise ReleaseError(f"release {release} is not complete on this node; run the deployment")
    old = linked(root, "current")
    if old == release:
        return
    if previous or old:
        _link(root, "previous", previous or str(old))
    _link(root, "current", release)


def linked(root: Path, name: str) -> str | None:
    """The id that `current` or `previous` points to, None without one."""
    try:
        return (root / name).readlink().name
    except OSError:
        return None


def _link(root: Path, name: str, release: str) -> None:
    temporary = root / f".{name}.new"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path("releases", release))
    temporary.replace(root / name)


def unfinished(root: Path) -> list[str]:
    """Names of trees that an interrupted run left in `releases`."""
    releases = root / "releases"
    if not releases.is_dir():
        return []
    return sorted(
        p.name for p in releases.iterdir() if p.name.startswith((".building-", ".replaced-"))
    )
