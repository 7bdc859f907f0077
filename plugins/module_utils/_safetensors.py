# SPDX-License-Identifier: Apache-2.0
"""What safetensors files hold, from their headers alone: names, types, shapes, bytes.

A file begins with the header's length (8 bytes, little endian) and the header (JSON). A model of
1000 billion parameters has 25 MB of headers in 64 files, so what was read is kept in a summary
beside the model, by size and time of each file.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from ansible_collections.sm120.sglang.plugins.module_utils._verified import (
    load_record,
    save_record,
)

_LIMIT = 100_000_000  # the format's own bound on a header, in bytes
_NUMBER = re.compile(r"\d+")


class HeaderError(ValueError):
    """A file is no safetensors file; the message says which and why."""


class Group(TypedDict):
    """Tensors of one kind: names alike but for their numbers, same type, same shape.

    Attributes:
        name: Their name with `*` for every number.
        dtype: As the header spells it (`BF16`, `I32`).
        shape: Their shape.
        count: How many.
        bytes: Of all of them together.
    """

    name: str
    dtype: str
    shape: list[int]
    count: int
    bytes: int


def read_header(path: Path) -> dict[str, Any]:
    """Read one file's header.

    Args:
        path: The file; nothing but its header is read.

    Returns:
        Tensor name to `dtype`, `shape` and `data_offsets`, the metadata left out.

    Raises:
        HeaderError: It is no safetensors file, or it is shorter than its header says.
    """
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            start = stream.read(8)
            if len(start) < 8:
                raise HeaderError(f"{path.name}: shorter than a header")
            length = struct.unpack("<Q", start)[0]
            if length > min(_LIMIT, size - 8):
                raise HeaderError(f"{path.name}: its header does not fit into the file")
            header = json.loads(stream.read(length))
    except OSError as error:
        raise HeaderError(f"{path.name}: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, HeaderError):
            raise
        raise HeaderError(f"{path.name}: its header is not JSON") from error
    if not isinstance(header, dict):
        raise HeaderError(f"{path.name}: its header is no mapping")
    header.pop("__metadata__", None)
    return header


def summarise(header: Mapping[str, Any], where: str) -> list[Group]:
    """Put a header's tensors into groups.

    Args:
        header: See `read_header`.
        where: The file's name, for messages.

    Returns:
        The groups, by name, type and shape.

    Raises:
        HeaderError: An entry is malformed.
    """
    found: dict[tuple[str, str, tuple[int, ...]], list[int]] = {}
    try:
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            key = (_NUMBER.sub("*", name), str(tensor["dtype"]), tuple(tensor["shape"]))
            entry = found.setdefault(key, [0, 0])
            entry[0] += 1
            entry[1] += end - begin
    except (KeyError, TypeError, ValueError) as error:
        raise HeaderError(f"{where}: a tensor of its header is malformed") from error
    return [
        {"name": name, "dtype": dtype, "shape": list(shape), "count": count, "bytes": size}
        for (name, dtype, shape), (count, size) in sorted(found.items())
    ]


def merge(summaries: Iterable[Iterable[Group]]) -> list[Group]:
    """Put the groups of several files together."""
    found: dict[tuple[str, str, tuple[int, ...]], Group] = {}
    for group in (group for summary in summaries for group in summary):
        key = (group["name"], group["dtype"], tuple(group["shape"]))
        if key in found:
            found[key]["count"] += group["count"]
            found[key]["bytes"] += group["bytes"]
        else:
            found[key] = {**group}
    return [found[key] for key in sorted(found)]


def read_weights(folder: Path, names: Iterable[str], cache: Path | None = None) -> dict[str, Any]:
    """Read what a model's weight files hold.

    Args:
        folder: The model's folder.
        names: Its files; those that are no safetensors files are left out.
        cache: Where to keep what was read, None for nowhere. A cache that cannot be written is
            no error: the next call reads again.

    Returns:
        `groups` (see `Group`), `problem` (empty, or why they are not complete).
    """
    wanted = sorted(name for name in names if name.endswith(".safetensors"))
    known = load_record(cache) if cache else {}
    kept: dict[str, Any] = {}
    try:
        for name in wanted:
            status = (folder / name).stat()
            mark = [status.st_size, status.st_mtime_ns]
            entry = known.get(name)
            if not isinstance(entry, dict) or entry.get("mark") != mark:
                header = read_header(folder / name)
                entry = {"mark": mark, "groups": summarise(header, name)}
            kept[name] = entry
        groups = merge(entry["groups"] for entry in kept.values())
    except OSError as error:
        return {"groups": [], "problem": f"{error.filename}: {error.strerror}"}
    except HeaderError as error:
        return {"groups": [], "problem": str(error)}
    except (KeyError, TypeError):
        # A cache of another shape: once without it.
        return read_weights(folder, wanted, None)
    if cache and kept != known and cache.parent.is_dir():
        with contextlib.suppress(OSError):
            save_record(cache, kept)
    return {"groups": groups, "problem": "" if wanted else "no safetensors files"}
