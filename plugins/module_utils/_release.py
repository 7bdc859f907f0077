# SPDX-License-Identifier: Apache-2.0
"""Releases on a node: immutable trees that are built aside, sealed, and switched to.

A release lives in `releases/<id>`. It is built in `releases/.building-<id>`, patched there, and
appears under its name by one rename when it is complete. `files.list` and `SHA256SUMS` say what is
in it (see `_sealed`), and `COMPLETE` holds the digests of these two.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import (
    _lock,
    _sealed,
    _sealed_before,
    _verified,
)

COMPLETE = "COMPLETE"
LOCK_SECONDS = 180.0
LISTING, SUMS = "files.list", "SHA256SUMS"
_BUILDER, _BUILDING = ".builder", ".building-"
# What people edit in place: the engine, and on a gateway the router. Only one is in a tree.
PACKAGES = ("sglang", "sglang-router")


Known = Callable[[Mapping[str, _sealed.Entry]], Mapping[str, str]]


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
        return self.root / "releases" / f"{_BUILDING}{self.release}"


def claim(paths: Paths) -> str:
    """Say that the building tree is this run's; whoever holds the lock does.

    Returns:
        What `check_claim` compares. Between two tasks of a run nobody holds the lock, and another
        controller may build the same release anew.
    """
    builder = os.urandom(8).hex()
    (paths.building / _BUILDER).write_text(builder, encoding="ascii")
    return builder


def check_claim(paths: Paths, builder: str) -> None:
    """See that a building tree is still that of a run.

    Args:
        paths: The release; its building tree exists.
        builder: What `claim` has returned; empty for any run's.

    Raises:
        ReleaseError: It is another run's.
    """
    try:
        other = (paths.building / _BUILDER).read_text(encoding="ascii")
    except OSError:
        other = ""
    if builder and other != builder:
        raise ReleaseError(
            f"another deployment has begun to build {paths.release} on this node meanwhile, and "
            "nothing of it was touched. Remedy: wait for it and run again; one deployment at a time"
        )


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
        try:
            _lock.acquire(guard.fileno(), LOCK_SECONDS)
        except TimeoutError:
            raise ReleaseError(
                f"{root}: another deployment is {work} on this node; wait for it and run again"
            ) from None
        yield


@contextlib.contextmanager
def claimed(place: Path, builder: str) -> Iterator[None]:
    """Work in a building tree while it is known to be a run's own.

    Args:
        place: A folder in the tree; it need not exist any more.
        builder: What `claim` has returned; empty for a folder that is no run's, such as a source
            checkout.

    Yields:
        Nothing.

    Raises:
        ReleaseError: It is another run's, or in no building tree.
    """
    if not builder:
        yield
        return
    trees = [one for one in (place, *place.parents) if one.name.startswith(_BUILDING)]
    if not trees:
        raise ReleaseError(f"{place}: no release is built there. Remedy: leave out `builder`")
    paths = Paths(trees[0].parent.parent, trees[0].name.removeprefix(_BUILDING))
    with build_lock(paths.root):
        check_claim(paths, builder)
        yield


def seal(
    paths: Paths, known: Known = lambda _: {}, approve: Callable[[], None] = lambda: None
) -> None:
    """Make a built release complete: list its files, mark it, give it its name.

    Args:
        paths: The release; its building tree is patched and compiled. A tree of the same id
            (one that was edited by hand) is replaced; what runs from it goes on.
        known: For the tree's entries the sha256 of files that need not be read, by name.
        approve: Called when all is listed; what it raises leaves the release incomplete.
    """
    tree = paths.building
    listing = _listing(tree)
    (tree / LISTING).write_bytes(listing)
    entries = _sealed.parse(listing.split(b"\0"))
    _sealed.write_sums(tree, entries, tree / SUMS, known(entries))
    approve()
    (tree / _BUILDER).unlink(missing_ok=True)
    mark = [f"{_verified.sha256_file(tree / name)}  {name}\n" for name in (LISTING, SUMS)]
    (tree / COMPLETE).write_text("".join(mark), encoding="ascii")
    aside = paths.final.with_name(f".replaced-{paths.release}")
    shutil.rmtree(aside, ignore_errors=True)
    if paths.final.exists():
        paths.final.rename(aside)
    tree.rename(paths.final)
    shutil.rmtree(aside, ignore_errors=True)


def _own(tree: Path) -> str:
    return str(own_package(site_packages(tree)).relative_to(tree))


def _listing(tree: Path) -> bytes:
    return _sealed.scan(tree, _own(tree), (COMPLETE, LISTING, SUMS, _BUILDER))


@dataclass(frozen=True)
class Reading:
    """A complete release as it is now.

    Attributes:
        changes: What differs from what was sealed, by name; empty when nothing does.
        sealed: Its listing; empty where it has none that can be relied on.
        now: The listing of the tree as it is.
    """

    changes: list[_sealed.Change]
    sealed: bytes = b""
    now: bytes = b""

    def unchanged(self) -> dict[str, _sealed.Entry]:
        """What is as it was sealed, its time included, by name."""
        return _sealed.parse(set(self.sealed.split(b"\0")).intersection(self.now.split(b"\0")))


def drift(tree: Path, full: bool = False) -> list[_sealed.Change]:
    """What differs in a complete release from what was sealed: `Reading.changes` of `read`."""
    return read(tree, full).changes


def read(tree: Path, full: bool = False) -> Reading:
    """Hold a complete release against what was sealed.

    Args:
        tree: The release.
        full: Whether to read every file; else size and times stand for a content.

    Raises:
        PermissionError: It is not all readable for this user.
    """
    try:
        mark = (tree / COMPLETE).read_text(encoding="ascii")
    except OSError:
        return _broken(COMPLETE, _sealed.MISSING)
    marks = {line[66:]: line[:64] for line in mark.splitlines()}
    try:
        if LISTING not in marks:
            return Reading(_sealed_before.drift(tree, _own(tree), mark.strip(), full))
        sealed = (tree / LISTING).read_bytes()
        if hashlib.sha256(sealed).hexdigest() != marks[LISTING]:
            return _broken(LISTING, f"does not belong to {COMPLETE}")
        now = _listing(tree)
        look = full or now != sealed or not (tree / SUMS).is_file()
        if look and _verified.sha256_file(tree / SUMS) != marks.get(SUMS):
            return _broken(SUMS, f"does not belong to {COMPLETE}")
    except PermissionError:
        raise
    except (OSError, ReleaseError) as error:
        return _broken("tree", str(error))
    found = _sealed.compare(tree, sealed, now, tree / SUMS)
    if full:
        told = {change["file"] for change in found}
        every = _sealed.read_all(tree, sealed, tree / SUMS)
        found += [change for change in every if change["file"] not in told]
    return Reading(found, sealed, now)


def _broken(name: str, what: str) -> Reading:
    return Reading([{"file": name, "what": what, "mend": _sealed.REBUILD, "since": 0.0}])


def mend(tree: Path, changes: Iterable[_sealed.Change]) -> None:
    """Put right in place what no content was lost of.

    Args:
        tree: A complete release.
        changes: Those of `drift` that are mended `here`.

    Raises:
        OSError: It may not be changed.
    """
    _sealed.mend(tree, (tree / LISTING).read_bytes(), changes)


def needs_building(changes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a release with these changes has to be built anew."""
    return any(change["mend"] == _sealed.REBUILD for change in changes)


def lost(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of what is gone from a release; of a folder its files are not named."""
    return [str(change["file"]) for change in changes if change["what"] == _sealed.MISSING]


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
        wrong = wrong_previous(root, previous)
        if wrong and previous:
            _link(root, "previous", previous)
        elif wrong:
            (root / "previous").unlink(missing_ok=True)
        return
    if old and ("/" in old or not (root / "releases" / old / COMPLETE).is_file()):
        old = None  # nothing that could be gone back to
    if previous or old:
        _link(root, "previous", previous or str(old))
    _link(root, "current", release)


def wrong_previous(root: Path, wanted: str) -> str:
    """What `previous` names instead of a release, or of the wanted one; empty when it is right.

    Args:
        root: The product's folder.
        wanted: The release to go back to; empty where any that is there will do.
    """
    now = linked(root, "previous") or ""
    if wanted:
        return "" if now == wanted else now or "nothing"
    there = "/" not in now and (root / "releases" / now / COMPLETE).is_file()
    return "" if not now or there else now


def linked(root: Path, name: str) -> str | None:
    """The id that `current` or `previous` points to, None without one.

    A link to anywhere else than the product's own releases names no release.
    """
    try:
        target = (root / name).readlink()
    except OSError:
        return None
    ours = (Path("releases"), root / "releases")
    return target.name if target.parent in ours else str(target)


def _link(root: Path, name: str, release: str) -> None:
    temporary = root / f".{name}.new"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path("releases", release))
    temporary.replace(root / name)


def sweep(root: Path) -> None:
    """Remove what an interrupted run left; whoever holds the lock does.

    What a task of that run still writes into its tree does not come into the next one: the tree
    loses its name first, and what could not be removed then is taken by the next run.
    """
    for name in unfinished(root):
        aside = root / "releases" / f".replaced-{os.urandom(8).hex()}"
        (root / "releases" / name).rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def unfinished(root: Path) -> list[str]:
    """Names of trees that an interrupted run left in `releases`."""
    releases = root / "releases"
    if not releases.is_dir():
        return []
    return sorted(
        p.name for p in releases.iterdir() if p.name.startswith((_BUILDING, ".replaced-"))
    )
