# SPDX-License-Identifier: Apache-2.0
"""What a new release takes over from a complete one instead of installing and compiling it anew.

A package whose wheel both locks pin by one digest has the same files, so they become hard links to
those of the other release, and so does their bytecode. Nothing is believed of that release but
what it was sealed with: its tree has to be as it was sealed, and the sums that it was sealed with
have to be those of the wheels (`RECORD`). The engine's own package, which people edit, is never
shared; of it only bytecode whose source is the same is copied.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _release,
    _sealed,
    _stack,
    _verified,
)

CONFIGURATION = "venv/pyvenv.cfg"
_PARTS = 8
# Where there are no hard links, or no more of them.
_NO_LINK = {errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOTSUP}


@dataclass(frozen=True)
class Donor:
    """A complete release that is as it was sealed.

    Attributes:
        tree: Its folder.
        pins: Its lock.
        packages: Its site-packages, relative to the tree.
        entries: What is as it was sealed, its time included, by name.
        sums: The sha256 of every file, by name, as it was sealed.
        sealed_at: When it was sealed, nanoseconds since the epoch.
        tag: What its bytecode is named after.
    """

    tree: Path
    pins: frozenset[_stack.Pin]
    packages: str
    entries: Mapping[str, _sealed.Entry]
    sums: Mapping[str, str]
    sealed_at: int
    tag: str

    def bytecode_of(self, source: str) -> str | None:
        """The bytecode that it was sealed with for one of its sources.

        Args:
            source: A name, relative to the tree.

        Returns:
            The bytecode's name; None where there is none, where the source is not as it was
            sealed, or where anything was put into the bytecode's folder since.
        """
        if not source.endswith(".py") or source not in self.entries:
            return None
        found = _built.bytecode_name(source, self.tag)
        folder = found.rpartition("/")[0]
        return found if found in self.sums and folder in self.entries else None

    def unwritten(self, status: os.stat_result) -> bool:
        """Whether a file of its bytecode was not written since it was sealed.

        A listing has the folders of bytecode alone, which do not show that a file in them was
        written in place.
        """
        return stat.S_ISREG(status.st_mode) and status.st_mtime_ns <= self.sealed_at


@dataclass(frozen=True)
class Candidate:
    """A complete release that is as it was sealed, before its sums are read.

    Attributes:
        tree: Its folder.
        reading: What `_release.read` gives for it.
        pins: Its lock.
        python: What its `pyvenv.cfg` says.
    """

    tree: Path
    reading: _release.Reading
    pins: frozenset[_stack.Pin]
    python: str


def candidates(root: Path) -> tuple[list[Candidate], dict[str, list[_sealed.Change]]]:
    """Read every complete release of a node.

    Args:
        root: The product's folder.

    Returns:
        Those to take over from, and what differs in each of the others. Their files are shared
        with uv's cache: what was changed in one may be changed there.

    Raises:
        PermissionError: One is not all readable for this user.
    """
    marks = sorted((root / "releases").glob(f"*/{_release.COMPLETE}"))
    trees = [mark.parent for mark in marks if not mark.parent.name.startswith(".")]
    with ThreadPoolExecutor(max(1, min(len(trees), os.cpu_count() or 1))) as pool:
        readings = list(pool.map(_release.read, trees))
    found = [_candidate(tree, reading) for tree, reading in zip(trees, readings, strict=True)]
    changes = {tree.name: one.changes for tree, one in zip(trees, readings, strict=True)}
    return [one for one in found if one is not None], changes


def _candidate(tree: Path, reading: _release.Reading) -> Candidate | None:
    if reading.changes or not reading.sealed or tree.is_symlink():
        return None
    try:
        lock = (tree / "stack.lock").read_text(encoding="utf-8")
        python = (tree / CONFIGURATION).read_text(encoding="utf-8")
        return Candidate(tree, reading, frozenset(_stack.parse_lock(lock, "lock")), python)
    except (OSError, _stack.StackError):
        return None


def shared(theirs: Collection[_stack.Pin], lock: Iterable[_stack.Pin]) -> set[str]:
    """Packages that two locks have from the same wheel; never the engine's own.

    Args:
        theirs: One lock.
        lock: The other.

    Returns:
        Names. A package that may come from several wheels, or from any, is none of them.
    """
    same = [pin for pin in lock if pin in theirs and len(pin.hashes) == 1]
    return {pin.name for pin in same} - {*_release.PACKAGES}


def rank(found: Iterable[Candidate], python: str, lock: Sequence[_stack.Pin]) -> list[Candidate]:
    """The releases that share something with a lock, and the interpreter, most first.

    Args:
        found: Releases.
        python: The new environment's `pyvenv.cfg`: another Python's bytecode is of no use, and
            another uv writes other scripts.
        lock: What is to be installed.
    """
    fit = [one for one in found if one.python == python and shared(one.pins, lock)]
    return sorted(fit, key=lambda one: len(shared(one.pins, lock)), reverse=True)


def choose(found: Iterable[Candidate], python: str, lock: Sequence[_stack.Pin]) -> Donor | None:
    """Read the first release of `rank` whose sums are those that it was sealed with."""
    ranked = rank(found, python, lock)
    return next(filter(None, (read(one.tree, one.reading) for one in ranked)), None)


def read(tree: Path, reading: _release.Reading) -> Donor | None:
    """Read a release that something may be taken over from.

    Args:
        tree: A complete release.
        reading: What `_release.read` gives for it.

    Returns:
        The release; None where it is not as it was sealed, or was sealed without such sums.
    """
    if reading.changes or not reading.sealed:
        return None
    mark = tree / _release.COMPLETE
    try:
        sums = f"{_verified.sha256_file(tree / _release.SUMS)}  {_release.SUMS}"
        if sums not in mark.read_text(encoding="ascii").splitlines():
            return None
        lock = (tree / "stack.lock").read_text(encoding="utf-8")
        packages = _release.site_packages(tree)
        return Donor(
            tree=tree,
            pins=frozenset(_stack.parse_lock(lock, "stack.lock")),
            packages=str(packages.relative_to(tree)),
            entries=reading.unchanged(),
            sums=_sealed.load_sums(tree / _release.SUMS),
            # Whichever is oldest: one of them may have been touched since.
            sealed_at=min(
                (tree / name).stat().st_mtime_ns
                for name in (_release.LISTING, _release.SUMS, _release.COMPLETE)
            ),
            tag=_built.cache_tag(packages),
        )
    except (OSError, _stack.StackError, _release.ReleaseError):
        return None


def installed_files(donor: Donor) -> dict[str, dict[str, str]]:
    """Files of every package of a release: normalised package name to `_built.wheel_files`.

    A package whose RECORD cannot be used has none.
    """
    return {
        name: _built.files_of(place.folder, donor.packages)
        for name, place in _built.metadata(donor.tree / donor.packages).items()
    }


def whole(donor: Donor, files: Mapping[str, str]) -> bool:
    """Whether all files of a package are there and are those of its wheel.

    Args:
        donor: The release.
        files: The package's files (see `_built.wheel_files`).
    """
    for name, digest in files.items():
        entry = donor.entries.get(name)
        if entry is None or entry.kind != "f":
            return False
        if digest != donor.sums.get(name) and (digest or not name.endswith(".dist-info/RECORD")):
            return False
    return bool(files)


def packages(
    donor: Donor, lock: Iterable[_stack.Pin], files: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """Which packages are taken over.

    Args:
        donor: The release.
        lock: What is to be installed.
        files: `installed_files` of the release.

    Returns:
        Names. One that has a file in common with a package that is not taken over is not either:
        whose of the two the file is, is then for the installation to say.
    """
    taken = {name for name in shared(donor.pins, lock) if whole(donor, files.get(name, {}))}
    while True:
        others = {name for package in files.keys() - taken for name in files[package]}
        left = {package for package in taken if not others.isdisjoint(files[package])}
        if not left:
            return taken
        taken -= left


@dataclass(frozen=True)
class Taken:
    """What was taken over.

    Attributes:
        packages: Packages that need no installation.
        names: Their files.
        uncompiled: Those of them that have no bytecode.
    """

    packages: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    uncompiled: tuple[str, ...] = ()


def take(donor: Donor, tree: Path, lock: Iterable[_stack.Pin]) -> Taken:
    """Put the packages that a release shares into a new tree, with their bytecode.

    Args:
        donor: The release.
        tree: The new tree; it has an empty environment.
        lock: What is to be installed.

    Raises:
        OSError: The disk is full, or the other release went away.
    """
    files = installed_files(donor)
    chosen = packages(donor, lock, files)
    names = sorted({name for package in chosen for name in files[package]})
    uncompiled, links = [], list(names)
    for name in names:
        code = donor.bytecode_of(name)
        if code is not None and donor.unwritten(os.lstat(f"{donor.tree}/{code}")):
            links.append(code)
        elif name.endswith(".py"):
            uncompiled.append(name)
    for folder in sorted({name.rpartition("/")[0] for name in links}):
        (tree / folder).mkdir(parents=True, exist_ok=True)
    theirs, ours = str(donor.tree), str(tree)

    def link_all(part: Sequence[str]) -> None:
        for name in part:
            link(f"{theirs}/{name}", f"{ours}/{name}")

    # Nearly all of it is the kernel's work; neighbours are in one folder, which it locks.
    size = -(-len(links) // _PARTS) or 1
    with ThreadPoolExecutor(min(_PARTS, os.cpu_count() or 1), "link") as pool:
        list(pool.map(link_all, (links[at : at + size] for at in range(0, len(links), size))))
    return Taken(frozenset(chosen), tuple(names), tuple(uncompiled))


def link(source: str, target: str) -> None:
    """Make a hard link, or a copy with the same time where the file system has no more of them.

    Raises:
        OSError: Neither can be made.
    """
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copy2(source, target)


def uncompiled(tree: Path, taken: Taken) -> list[str]:
    """Sources in a new tree that have no bytecode yet: what was taken over is not looked at.

    Args:
        tree: The tree; everything is installed.
        taken: What was taken over.
    """
    packages = _release.site_packages(tree)
    found = _built.metadata(packages)
    installed = [place for name, place in found.items() if name not in taken.packages]
    beside = {str(path.relative_to(tree)) for path in packages.glob("*.py")} - {*taken.names}
    return sorted({*taken.uncompiled, *_built.sources(tree, installed), *beside})


def copy_bytecode(donor: Donor | None, tree: Path, sources: Iterable[str]) -> list[str]:
    """Give files of the engine's own package the bytecode of a release that has the same ones.

    Args:
        donor: The release; None for none.
        tree: The new tree.
        sources: Sources in it without bytecode. One of the engine's own whose content is the same
            gets the same time, which is what its bytecode names.

    Returns:
        Those that are still without.
    """
    own = str(_release.own_package(_release.site_packages(tree)).relative_to(tree))
    return [
        name
        for name in sources
        # Other files are shared with other trees: their times stay as they are.
        if donor is None or not name.startswith(f"{own}/") or not _copied(donor, tree, name)
    ]


def _copied(donor: Donor, tree: Path, name: str) -> bool:
    code, target = donor.bytecode_of(name), tree / name
    if code is None or _verified.sha256_file(target) != donor.sums[name]:
        return False
    compiled = (donor.tree / code).read_bytes()
    if hashlib.sha256(compiled).hexdigest() != donor.sums[code]:
        return False
    status = (donor.tree / name).stat()
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    (tree / code).parent.mkdir(exist_ok=True)
    (tree / code).write_bytes(compiled)
    return True


def known_sums(donor: Donor, tree: Path, entries: Mapping[str, _sealed.Entry]) -> dict[str, str]:
    """Which sums of a new tree are those of a release.

    Args:
        donor: The release.
        tree: The new tree.
        entries: Its listing.

    Returns:
        The digests of all files that are the very same (inode), with the size and time that the
        release was sealed with, by name.
    """
    found = {}
    theirs, ours = str(donor.tree), str(tree)
    for name, entry in entries.items():
        if donor.entries.get(name) != entry or entry.kind != "f":
            continue
        code = donor.bytecode_of(name)
        for one in (name,) if code is None else (name, code):
            status = _shared(f"{theirs}/{one}", f"{ours}/{one}")
            whole = status is not None and (one is name or donor.unwritten(status))
            if whole and one in donor.sums:
                found[one] = donor.sums[one]
    return found


def _shared(theirs: str, ours: str) -> os.stat_result | None:
    try:
        status = os.lstat(ours)
        return status if os.path.samestat(status, os.lstat(theirs)) else None
    except OSError:
        return None
