# SPDX-License-Identifier: Apache-2.0
"""Writes a bundle's parts into one archive of bounded size."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

_CUT = "[the beginning was left out: the bundle is bounded]\n"


def bounded(parts: Mapping[str, str], limit: int) -> dict[str, str]:
    """Shorten the longest parts, their ends kept, until all together are within a limit.

    Args:
        parts: Name to text.
        limit: Bytes of all of them, uncompressed.
    """
    kept = dict(parts)
    sizes = {name: len(text.encode()) for name, text in kept.items()}
    while sum(sizes.values()) > limit:
        name = max(sizes, key=lambda one: sizes[one])
        if sizes[name] <= len(_CUT) * 2:
            break
        text = kept[name].removeprefix(_CUT)
        kept[name] = _CUT + text[len(text) // 2 :]
        sizes[name] = len(kept[name].encode())
    return kept


def write(parts: Mapping[str, str], path: Path, folder: str, limit: int, now: float) -> int:
    """Write an archive that only its owner can read.

    Args:
        parts: Name to text.
        path: The archive to write; it appears by one rename.
        folder: Folder that all parts are in.
        limit: See `bounded`.
        now: Time of the parts, in seconds since the epoch.

    Returns:
        The archive's size in bytes.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    with tarfile.open(temporary, "w:gz") as archive:
        for name, text in sorted(bounded(parts, limit).items()):
            data = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(now)
            archive.addfile(entry, io.BytesIO(data))
    temporary.replace(path)
    return path.stat().st_size
