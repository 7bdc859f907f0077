# SPDX-License-Identifier: Apache-2.0
"""Releases that were sealed before a listing had every file of a tree; they stay as they are.

`tree.json` has the engine's files by content, `rest.json` the other files of the environment by
size and time; neither has bytecode. Nothing tells what was added to the rest, and no modes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _sealed, _verified

TREE, REST = "tree.json", "rest.json"


def tree_digest(record: Mapping[str, Any]) -> str:
    """Digest over names and contents of a tree record; times and inodes do not count."""
    content = sorted((name, entry[0]) for name, entry in record.items())
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def drift(tree: Path, own: str, mark: str, full: bool) -> list[_sealed.Change]:
    """What differs in such a release from what was sealed.

    Args:
        tree: The release.
        own: The engine's package, relative to the tree.
        mark: What `COMPLETE` holds.
        full: Whether to read every file of the engine's package; of the rest no content is known.

    Returns:
        The differences by name.

    Raises:
        OSError: The tree cannot be read.
    """
    record = _verified.load_record(tree / TREE)
    if not record or tree_digest(record) != mark:
        return [_change(TREE, "does not belong to COMPLETE")]
    entries = _sealed.parse(_sealed.scan(tree, own, ()).split(b"\0"))
    found = list(_engine(tree, own, record, entries, full))
    for name, seal in _verified.load_record(tree / REST).items():
        seen = _seen(tree, name, entries)
        if seen != seal:
            found.append(_change(name, "changed by hand" if seen else "missing"))
    return sorted(found, key=lambda change: change["file"])


def _engine(
    tree: Path,
    own: str,
    record: Mapping[str, Any],
    entries: Mapping[str, _sealed.Entry],
    full: bool,
) -> Iterator[_sealed.Change]:
    for name, seal in record.items():
        path = f"{own}/{name}"
        seen = _verified.fingerprint(tree / path)
        if seen is None:
            yield _change(path, "missing")
        elif (full or seen != seal[1:]) and _verified.sha256_file(tree / path) != seal[0]:
            yield _change(path, "changed by hand")
    for name, entry in entries.items():
        inside = name.removeprefix(f"{own}/")
        if entry.kind == "p" and inside not in record and not name.endswith(".pyc"):
            yield _change(name, "added by hand")


def _seen(tree: Path, name: str, entries: Mapping[str, _sealed.Entry]) -> list[int] | None:
    """Size and mtime (ns) as `rest.json` has them: of a link, those of what it leads to."""
    entry = entries.get(name)
    if entry is not None and entry.kind == "f":
        seconds, _, fraction = entry.content[1].partition(".")
        return [int(entry.content[0]), int(seconds) * 10**9 + int(fraction[:9])]
    try:
        status = os.stat(tree / name)  # noqa: PTH116 - thousands of links
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _change(name: str, what: str) -> _sealed.Change:
    return {"file": name, "what": what, "mend": _sealed.REBUILD, "since": 0.0}
