# SPDX-License-Identifier: Apache-2.0
"""Files whose content is known by sha256: wheels and model weights.

A file is read once; afterwards its size, times and inode stand for its content, in a record
beside it. Whoever can change a file behind its ctime has root, and then nothing here helps.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_BLOCK = 1 << 22
_THREADS = 16


class VerifyError(ValueError):
    """A wanted file's description, or a file's content, is wrong; the message says which."""


@dataclass(frozen=True)
class Wanted:
    """One file that must be there: relative name, sha256, size in bytes."""

    name: str
    sha256: str
    size: int


def parse_wanted(raw: Iterable[Mapping[str, Any]]) -> list[Wanted]:
    """Validate descriptions of files.

    Args:
        raw: Mappings with name, sha256 and size.

    Returns:
        The files, sorted by name.

    Raises:
        VerifyError: A key is missing, a name leaves the folder or is given twice, or a digest or
            size is none.
    """
    wanted: dict[str, Wanted] = {}
    for entry in raw:
        if not {"name", "sha256", "size"} <= set(entry):
            raise VerifyError(f"a file needs name, sha256 and size, found {dict(entry)!r}")
        name, digest, size = str(entry["name"]), str(entry["sha256"]), entry["size"]
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts:
            raise VerifyError(f"file name {name!r} must be relative and stay in its folder")
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise VerifyError(f"{name}: {digest!r} is not a sha256 in lower case hexadecimal")
        if type(size) is not int or size < 0:
            raise VerifyError(f"{name}: size {size!r} is not a number of bytes")
        if name in wanted:
            raise VerifyError(f"{name}: described twice")
        wanted[name] = Wanted(name, digest, size)
    return [wanted[name] for name in sorted(wanted)]


def parse_manifest(raw: object, where: str) -> list[Wanted]:
    """Validate a model's manifest.

    Args:
        raw: Parsed JSON: file name to `sha256` and `size`.
        where: The manifest's name, for messages.

    Returns:
        The files, sorted by name.

    Raises:
        VerifyError: It is not such a mapping, or lists no file.
    """
    if not isinstance(raw, Mapping) or not raw:
        raise VerifyError(f"{where}: a manifest maps file names to sha256 and size")
    entries = []
    for name, entry in raw.items():
        if not isinstance(entry, Mapping) or not {"sha256", "size"} <= set(entry):
            raise VerifyError(f"{where}: {name} needs sha256 and size")
        entries.append({"name": name, "sha256": entry["sha256"], "size": entry["size"]})
    return parse_wanted(entries)


def sha256_file(path: Path) -> str:
    """The sha256 of a file's content, read in blocks of 4 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def fingerprint(path: Path) -> list[int] | None:
    """What stands for a verified file's content: size, mtime, ctime (ns) and inode.

    Args:
        path: The file; links are followed.

    Returns:
        Four numbers, None when there is no such regular file.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def load_record(path: Path) -> dict[str, Any]:
    """Read a record of verified files; an unreadable one counts as empty."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def save_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record through a temporary file and a rename."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(record, sort_keys=True), encoding="utf-8")
    temporary.replace(path)


def attributes(folder: Path, wanted: Iterable[Wanted], mode: int) -> list[str]:
    """Names of files that are there with another mode or another owner than root.

    Args:
        folder: Where the files lie; they are the product's own.
        wanted: The files.
        mode: The mode that they have.

    Returns:
        Names.
    """
    found = []
    for entry in wanted:
        try:
            status = (folder / entry.name).lstat()
        except OSError:
            continue
        seen = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        if not stat.S_ISLNK(status.st_mode) and seen != (mode, *_owner()):
            found.append(entry.name)
    return found


def links(folder: Path, wanted: Iterable[Wanted]) -> list[str]:
    """Names of files that were replaced by links; the product makes none."""
    return [entry.name for entry in wanted if (folder / entry.name).is_symlink()]


def _owner() -> tuple[int, int]:
    """Who owns the product's files: root, and in a test whoever it runs as."""
    return os.geteuid(), os.getegid()


def mend_attributes(folder: Path, names: Iterable[str], mode: int) -> None:
    """Give files their mode and owner again."""
    for name in names:
        os.chown(folder / name, *_owner())
        (folder / name).chmod(mode)


def only_touched(name: str, record: Mapping[str, Any], folder: Path) -> bool:
    """Whether of a recorded file only the ctime changed, as it does with mode and owner."""
    seen, known = fingerprint(folder / name), record.get(name)
    if seen is None or not isinstance(known, list) or len(known) != 5:
        return False
    _, size, changed, _, inode = known
    return [seen[0], seen[1], seen[3]] == [size, changed, inode]


@dataclass(frozen=True)
class Inspection:
    """What a folder holds of the wanted files.

    Attributes:
        missing: Not there, or of another size: must be brought.
        unverified: There with the right size, content not yet read since its last change.
        verified: There and known to be right.
    """

    missing: tuple[str, ...]
    unverified: tuple[str, ...]
    verified: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """True when every file is there and verified."""
        return not self.missing and not self.unverified


def inspect(folder: Path, wanted: Iterable[Wanted], record: Mapping[str, Any]) -> Inspection:
    """Compare a folder with the wanted files without reading their content.

    Args:
        folder: Where the files lie.
        wanted: The files.
        record: The folder's record (`load_record`).

    Returns:
        Each wanted name in one of three groups.
    """
    missing, unverified, verified = [], [], []
    for entry in wanted:
        seen = fingerprint(folder / entry.name)
        if seen is None or seen[0] != entry.size:
            missing.append(entry.name)
        elif record.get(entry.name) == [entry.sha256, *seen]:
            verified.append(entry.name)
        else:
            unverified.append(entry.name)
    return Inspection(tuple(missing), tuple(unverified), tuple(verified))


def verify(
    folder: Path, wanted: Iterable[Wanted], record: dict[str, Any], names: Iterable[str]
) -> list[str]:
    """Read files and enter those that are right in the record.

    Args:
        folder: Where the files lie.
        wanted: The files.
        record: Updated in place.
        names: Which of them to read.

    Returns:
        One sentence for each file whose content is wrong.
    """
    by_name = {entry.name: entry for entry in wanted}
    wrong = []
    for name in names:
        entry = by_name[name]
        path = folder / name
        before = fingerprint(path)
        found = sha256_file(path)
        if found != entry.sha256:
            record.pop(name, None)
            wrong.append(f"{path}: sha256 is {found}, expected {entry.sha256}")
        elif before is None or fingerprint(path) != before:
            record.pop(name, None)
            wrong.append(f"{path}: changed while it was read")
        else:
            record[name] = [found, *before]
    return wrong


def doubt(folder: Path, wanted: Iterable[Wanted], place: Path) -> list[str]:
    """Read what the record calls right once more, and forget what is not.

    Args:
        folder: Where the files lie.
        wanted: The files.
        place: The folder's record; written when something is forgotten.

    Returns:
        Names of what was forgotten.
    """
    record = load_record(place)
    listed = list(wanted)
    names = inspect(folder, listed, record).verified
    digests = {entry.name: entry.sha256 for entry in listed}
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        found = pool.map(lambda name: sha256_file(folder / name), names)
        wrong = [n for n, digest in zip(names, found, strict=True) if digest != digests[n]]
    if wrong:
        save_record(place, {name: kept for name, kept in record.items() if name not in wrong})
    return wrong


def adopt(
    incoming: Path, folder: Path, entry: Wanted, mode: int, record: dict[str, Any]
) -> str | None:
    """Copy a file that was brought into place, if its content is right.

    Args:
        incoming: The file as it arrived, perhaps on another file system.
        folder: The destination folder.
        entry: What the file must be.
        mode: The file's mode in the destination.
        record: Updated in place, so that the file is not read once more.

    Returns:
        None when it is in place, else one sentence about what is wrong; nothing wrong is
        ever visible under the wanted name.
    """
    target = folder / entry.name
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    digest = hashlib.sha256()
    try:
        with incoming.open("rb") as source, partial.open("wb") as sink:
            while block := source.read(_BLOCK):
                digest.update(block)
                sink.write(block)
            sink.flush()
            os.fsync(sink.fileno())
    except OSError as error:
        partial.unlink(missing_ok=True)  # a full disk is not kept full
        error.filename = error.filename or str(target)
        raise
    if digest.hexdigest() != entry.sha256:
        partial.unlink()
        return f"{entry.name}: arrived with sha256 {digest.hexdigest()}, expected {entry.sha256}"
    partial.chmod(mode)
    partial.replace(target)
    record[entry.name] = [entry.sha256, *(fingerprint(target) or ())]
    return None


def settle(
    part: Path, folder: Path, entry: Wanted, mode: int, record: dict[str, Any]
) -> str | None:
    """Move a file that has arrived beside its folder into place, if its content is right.

    Unlike `adopt` it copies nothing: for files of many GB, on the folder's own file system.

    Args:
        part: The file as it arrived; gone afterwards, right or wrong.
        folder: The destination folder.
        entry: What the file must be.
        mode: The file's mode in the destination; it becomes the caller's own.
        record: Updated in place, so that the file is not read once more.

    Returns:
        None when it is in place, else one sentence about what is wrong.
    """
    target = folder / entry.name
    target.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # Whoever brought it cannot open it for writing again, and then it is read.
        os.fchown(handle, os.geteuid(), os.getegid())
        os.fchmod(handle, mode)
        digest = hashlib.sha256()
        while block := os.read(handle, _BLOCK):
            digest.update(block)
        os.fsync(handle)
    finally:
        os.close(handle)
    if digest.hexdigest() != entry.sha256:
        part.unlink()
        return f"{entry.name}: arrived with sha256 {digest.hexdigest()}, expected {entry.sha256}"
    part.replace(target)
    record[entry.name] = [entry.sha256, *(fingerprint(target) or ())]
    return None
