# SPDX-License-Identifier: Apache-2.0
"""Put new bytes in place of files: all of a set or none, never half a file."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils import _lock
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError

_TEMPORARY = ".sm120-patch-"
_LOCK_SECONDS = 120.0
# File systems without extended attributes answer with one of these.
_NO_ATTRIBUTES = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA)


@contextlib.contextmanager
def locked(folder: Path, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Hold a release for one run; a second run waits. Leaves no file behind.

    Raises:
        PatchError: somebody else holds it for longer than ``seconds``.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_lock.folder(folder, seconds))
        except TimeoutError:
            raise PatchError(
                f"another run has held {folder} for {seconds:.0f} s",
                "wait for it, or see who holds it with 'lsof +d'",
            ) from None
        yield


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Replace files: every new file is on disk before the first one takes its place.

    Owner, mode and extended attributes (SELinux label, ACLs) stay; other hard links of a file
    keep the old bytes. A file that is not there yet is made with mode 0644.

    Raises:
        PatchError: it was not possible; every file is as before.
    """
    staged: dict[Path, Path] = {}
    before: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            _remove_leftovers(path)
            staged[path] = _stage(path, data)
            if path.exists():
                before[path] = _stage(path, path.read_bytes())
        done: list[Path] = []
        try:
            for path, new in staged.items():
                new.replace(path)
                done.append(path)
        except OSError:
            for path in done:
                if path in before:
                    before[path].replace(path)
                else:
                    path.unlink()
            raise
        for folder in {path.parent for path in contents}:
            _sync(folder)
    except OSError as error:
        where = error.filename2 or error.filename or "the release"
        raise PatchError(
            f"{where} cannot be written: {error.strerror}; nothing was changed", _remedy(error)
        ) from error
    finally:
        for temporary in [*staged.values(), *before.values()]:
            temporary.unlink(missing_ok=True)
    for path in contents:
        remove_bytecode(path)


def remove_bytecode(path: Path) -> None:
    """Delete the compiled forms of a source: none of an older text may survive its change.

    A form that is checked by hash alone, or not at all (``unchecked-hash``), would.
    """
    if path.suffix != ".py":
        return
    for compiled in path.parent.glob("__pycache__/*.pyc"):
        if compiled.name.split(".")[0] == path.stem:
            compiled.unlink(missing_ok=True)


def _stage(path: Path, data: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=_prefix(path), dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if path.exists():
                _copy_attributes(path, stream.fileno())
            else:
                os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def _prefix(path: Path) -> str:
    return f".{path.name}{_TEMPORARY}"


def _remove_leftovers(path: Path) -> None:
    """Delete what a killed run left beside a file; the lock makes sure that none is in use."""
    for leftover in path.parent.glob(f"{_prefix(path)}*"):
        leftover.unlink(missing_ok=True)


def _copy_attributes(path: Path, descriptor: int) -> None:
    status = path.stat()
    own = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, status.st_mode & 0o7777)
    try:
        names = os.listxattr(path)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTES:
            return
        raise
    for name in names:
        value = os.getxattr(path, name)
        try:
            same = os.getxattr(descriptor, name) == value
        except OSError:
            same = False
        if not same:
            os.setxattr(descriptor, name, value)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remedy(error: OSError) -> str:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "run as the owner of the release (become), and look for 'chattr +i'"
    if error.errno == errno.EROFS:
        return "the file system is mounted read-only: patch the release where it is built"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space there"
    return "see the message of the system"
