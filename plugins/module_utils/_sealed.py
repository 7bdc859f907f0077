# SPDX-License-Identifier: Apache-2.0
"""What a sealed tree holds, and what is different in it now.

A listing has one record for each file, link and folder, as GNU find prints it (findutils is
essential in Debian and Ubuntu): for 50,000 files that takes a third of the time that Python takes.
Size and time stand for a file's content, and `SHA256SUMS`, in the format of sha256sum, for those
whose size or time changed; all contents are read when somebody asks for it.

Of bytecode the folder's time stands for its files: Python writes a new file and renames it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

REBUILD, HERE = "rebuild", "here"
MISSING = "missing"
_BYTECODE = "__pycache__"
_BLOCK = 1 << 20
_THREADS = 16
# Kind, mode, owner, group, what stands for the content, name. Of the engine's package the ctime
# counts too: its files are shared with no other tree.
_FORMATS = {
    "own": "p %m %U %G %s %T@ %C@ %i %p\\0",
    "file": "f %m %U %G %s %T@ %p\\0",
    "folder": "d %m %U %G %p\\0",
    "bytecode": "c %m %U %G %T@ %p\\0",
    "link": "l - %U %G %l\\001%p\\0",
}
_BEFORE_NAME = {"p": 8, "f": 6, "d": 4, "c": 5, "l": 4}


class Change(TypedDict):
    """One thing in a tree that is not as it was sealed.

    Attributes:
        file: Its name, relative to the tree.
        what: What is different, in a few words.
        mend: `rebuild` where a content is lost, `here` where it can be put right in place.
        since: When a file came that may have been loaded (ctime, seconds since the epoch), else
            0.0.
    """

    file: str
    what: str
    mend: str
    since: float


@dataclass(frozen=True)
class Entry:
    """A record: kind (first letter of the format), mode (octal), owner (uid:gid), content."""

    kind: str
    mode: str
    owner: str
    content: tuple[str, ...]


def scan(tree: Path, own: str, leave_out: Collection[str]) -> bytes:
    """List a tree.

    Args:
        tree: The tree.
        own: Folder, relative to the tree, whose files are shared with no other tree.
        leave_out: Names at the tree's top that are not listed.

    Returns:
        Records that end with NUL, in the order of the file system.

    Raises:
        OSError: There is no such tree, no find, or not everything may be read.
    """
    with os.scandir(tree) as entries:
        tops = sorted(f"./{entry.name}" for entry in entries if entry.name not in leave_out)
    status = tree.stat()
    root = f"d {stat.S_IMODE(status.st_mode):o} {status.st_uid} {status.st_gid} .\0".encode()
    if not tops:
        return root
    words = ["-type", "d", "-name", _BYTECODE, "-prune", "-printf", _FORMATS["bytecode"]]
    words += ["-o", "-type", "d", "-printf", _FORMATS["folder"]]
    words += ["-o", "-type", "l", "-printf", _FORMATS["link"]]
    words += ["-o", "-path", f"./{own}/*", "-printf", _FORMATS["own"]]
    words += ["-o", "-printf", _FORMATS["file"]]
    done = subprocess.run(
        ["find", *tops, *words],
        cwd=tree,
        capture_output=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    # What vanishes meanwhile is missing; what may not be read is not.
    if b"Permission denied" in done.stderr:
        raise PermissionError(13, "Permission denied", str(tree))
    return root + done.stdout


def parse(records: Iterable[bytes]) -> dict[str, Entry]:
    """Records by name, which is relative to the tree.

    Raises:
        ValueError: A record is malformed.
    """
    found = {}
    for record in records:
        if not record:
            continue
        text = os.fsdecode(record)
        kind, mode, user, group, *rest = text.split(" ", _BEFORE_NAME[text[0]])
        # A link's target may hold blanks.
        content = rest[-1].split("\1", 1) if kind == "l" else rest
        name = content.pop().removeprefix("./")
        found[name] = Entry(kind, mode, f"{user}:{group}", tuple(content))
    return found


def compare(tree: Path, sealed: bytes, now: bytes, sums: Path) -> list[Change]:
    """What differs in a tree from its listing.

    Args:
        tree: The tree.
        sealed: Its listing.
        now: What `scan` gives for it.
        sums: Its `SHA256SUMS`; read when a file's size or time changed.

    Returns:
        The changes by name. A content that only looks changed is none. Of a folder that is gone or
        was added its files are not named.
    """
    if sealed == now:
        return []
    then, today = set(sealed.split(b"\0")), set(now.split(b"\0"))
    was, is_now = parse(then - today), parse(today - then)
    gone, came = was.keys() - is_now.keys(), is_now.keys() - was.keys()
    known = load_sums(sums) if _look_changed(was, is_now) else {}
    found = []
    for name in sorted({*was, *is_now}):
        above = name.rpartition("/")[0]
        if name in gone:
            # Without its bytecode Python compiles anew.
            if was[name].kind != "c" and above not in gone:
                found.append(_change(name, MISSING))
        elif name in came:
            if above not in came:
                found += _added(tree, name, is_now[name])
        else:
            found += _changed(tree, name, was[name], is_now[name], known)
    return found


def _look_changed(was: Mapping[str, Entry], now: Mapping[str, Entry]) -> bool:
    both = was.keys() & now.keys()
    return any(was[name].kind in "pf" and was[name].content != now[name].content for name in both)


def _change(name: str, what: str, mend: str = REBUILD, since: float = 0.0) -> Change:
    return {"file": name, "what": what, "mend": mend, "since": since}


def _added(tree: Path, name: str, new: Entry) -> list[Change]:
    if new.kind == "c":
        return _foreign_bytecode(tree, name)
    return [_change(name, "added by hand", HERE, _changed_at(tree / name))]


def _changed(
    tree: Path, name: str, old: Entry, new: Entry, sums: Mapping[str, str]
) -> list[Change]:
    if old.kind != new.kind:
        return [_change(name, "replaced by something else")]
    if old.kind == "l" and old.content != new.content:
        return [_change(name, f"points to {new.content[0]}, not {old.content[0]}")]
    if old.kind in "pf" and old.content != new.content and _sum(tree / name) != sums.get(name):
        return [_change(name, "changed by hand")]
    found = []
    if old.mode != new.mode:
        found.append(_change(name, f"mode is {new.mode}, not {old.mode}", HERE))
    if old.owner != new.owner:
        found.append(_change(name, f"owner is {new.owner}, not {old.owner}", HERE))
    if old.kind == "c" and old.content != new.content:
        found += _foreign_bytecode(tree, name)
    return found


def _changed_at(path: Path) -> float:
    try:
        return path.lstat().st_ctime
    except OSError:
        return 0.0


def _foreign_bytecode(tree: Path, folder: str) -> list[Change]:
    """Bytecode that Python would not have written for the source beside it.

    The header says what it belongs to (PEP 552): the source's time and size, or its hash, which
    Python compares unless it is told not to.
    """
    found = []
    for path in sorted((tree / folder).glob("*.pyc")):
        source = path.parents[1] / f"{path.name.split('.', 1)[0]}.py"
        try:
            with path.open("rb") as stream:
                header = stream.read(16)
            status = source.stat()
        except OSError:
            continue  # bytecode without a source is not used from here
        flags, *times = (int.from_bytes(header[at : at + 4], "little") for at in (4, 8, 12))
        belongs = [int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF]
        if flags == 1 or (flags == 0 and times != belongs):
            name = str(path.relative_to(tree))
            what = "bytecode that does not belong to its source"
            found.append(_change(name, what, HERE, _changed_at(path)))
    return found


def mend(tree: Path, sealed: bytes, changes: Iterable[Change]) -> None:
    """Put right in place what needs no content: modes, owners, what was added.

    Args:
        tree: The tree.
        sealed: Its listing.
        changes: Those of `compare` that are mended `here`.

    Raises:
        OSError: It may not be changed.
    """
    was = parse(sealed.split(b"\0"))
    for change in changes:
        path, entry = tree / change["file"], was.get(change["file"])
        if entry is None and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif entry is None:
            path.unlink(missing_ok=True)
        if entry is None:
            continue
        user, group = (int(number) for number in entry.owner.split(":"))
        os.chown(path, user, group, follow_symlinks=False)
        if entry.kind != "l":
            path.chmod(int(entry.mode, 8))


def write_sums(
    tree: Path, entries: Mapping[str, Entry], target: Path, known: Mapping[str, str]
) -> None:
    """Write every file's sha256, that of bytecode too, into a `SHA256SUMS`.

    Args:
        tree: The tree.
        entries: Its listing.
        target: The file.
        known: Digests by name; these files are not read.
    """
    names = _files(tree, entries)
    unread = [name for name in names if name not in known]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        found = dict(zip(unread, pool.map(lambda name: _sum(tree / name), unread), strict=True))
    lines = [f"{known.get(name) or found[name]}  {name}\n" for name in names]
    target.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")


def load_sums(path: Path) -> dict[str, str]:
    """Read a `SHA256SUMS`: name to digest; empty without one."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return {}
    return {line[66:]: line[:64] for line in text.split("\n") if line}


def read_all(tree: Path, listing: bytes, sums: Path) -> list[Change]:
    """Read every content of a tree.

    Args:
        tree: The tree.
        listing: Its listing.
        sums: Its `SHA256SUMS`.

    Returns:
        A change for each file with another content than when it was sealed; what is missing or
        was added is `compare`'s to tell.
    """
    known = load_sums(sums)
    names = [name for name in _files(tree, parse(listing.split(b"\0"))) if name in known]
    found = []
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        for name, digest in zip(names, pool.map(lambda n: _sum(tree / n), names), strict=True):
            if digest in ("", known[name]):
                continue
            if f"/{_BYTECODE}/" in name:
                since = _changed_at(tree / name)
                found.append(_change(name, "not the bytecode that was sealed", HERE, since))
            else:
                found.append(_change(name, "changed by hand"))
    return found


def _files(tree: Path, entries: Mapping[str, Entry]) -> list[str]:
    """Names of all files of a listing, and of the bytecode in its folders, in order."""
    names = [name for name, entry in entries.items() if entry.kind in "pf"]
    for name, entry in entries.items():
        if entry.kind == "c":
            with contextlib.suppress(FileNotFoundError), os.scandir(f"{tree}/{name}") as places:
                names += [f"{name}/{place.name}" for place in places if place.is_file()]
    # sha256sum would write these in another way; there are none in any wheel.
    return sorted(name for name in names if "\n" not in name and "\\" not in name)


def _sum(path: Path) -> str:
    """The sha256 of a file's content; empty when it is gone."""
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
