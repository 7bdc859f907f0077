# SPDX-License-Identifier: Apache-2.0
"""Results of slow, pure functions, kept on the controller by all that they are made of."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FOLDER = ".remembered"
KEPT = 64


def fingerprint(path: Path) -> list[Any]:
    """What tells a file from what it was before, without reading it.

    Args:
        path: The file.

    Returns:
        Name, size (bytes), mtime and ctime (ns) and inode.

    Raises:
        OSError: There is none.
    """
    status = path.stat()
    return [str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def remembered(folder: Path, parts: Iterable[Any], make: Callable[[], Any]) -> Any:
    """A function's result, made once for what it is made of.

    Args:
        folder: A folder of caches; results lie in `.remembered` in it. One that cannot be written
            to costs time and nothing else.
        parts: All that the result depends on, the code that makes it too; as JSON takes it.
        make: Makes the result, which JSON gives back as it was.

    Returns:
        The result. The newest 64 are kept.

    Raises:
        Exception: What `make` raises, of which nothing is kept.
    """
    key = hashlib.sha256(json.dumps(list(parts), sort_keys=True).encode()).hexdigest()
    place = folder / FOLDER / f"{key}.json"
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        result = make()
    try:
        place.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=place.parent, prefix=".new-", encoding="utf-8", delete=False
        ) as stream:
            json.dump(result, stream)
        Path(stream.name).replace(place)
        every = sorted(place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for old in every[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        pass  # the next look makes it again
    return result
