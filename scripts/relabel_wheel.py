#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a wheel's metadata say the version that its file name says.

Usage: relabel_wheel.py WHEEL OUT_DIR

SGLang's CUDA 13 kernel wheels of 0.3 and 0.4.0 were renamed to `+cu130` after they were built, and
their metadata was not (sglang#14327, sglang#20953): pip refuses such a file, and uv installs it
under the version without the label. The wheel is written anew with its own content; only the
version, the name of its `.dist-info` folder and the lines about both in `RECORD` change. A wheel
that agrees with its name is copied.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shutil
import sys
import zipfile
from pathlib import Path

_VERSION = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*\r?$", re.MULTILINE)


def relabel(wheel: Path, out_dir: Path) -> Path:
    """Write one wheel anew.

    Args:
        wheel: The wheel; its name is right.
        out_dir: Another folder than its own.

    Returns:
        The new wheel, of the same name.

    Raises:
        SystemExit: It is no wheel, or its metadata is of another version altogether.
    """
    name, version = wheel.name.split("-")[:2]
    out_dir.mkdir(parents=True, exist_ok=True)
    target = out_dir / wheel.name
    with zipfile.ZipFile(wheel) as source:
        folders = {n.partition("/")[0] for n in source.namelist() if n.count("/")}
        infos = [folder for folder in folders if folder.endswith(".dist-info")]
        if len(infos) != 1:
            raise SystemExit(f"relabel_wheel: {wheel} holds {len(infos)} .dist-info folders, not 1")
        old = infos[0]
        metadata = source.read(f"{old}/METADATA")
        found = _VERSION.search(metadata)
        if found is None or found[1].decode() != version.partition("+")[0]:
            if found is not None and found[1].decode() == version:
                shutil.copyfile(wheel, target)
                return target
            said = found[1].decode() if found else "nothing"
            raise SystemExit(f"relabel_wheel: {wheel.name}: its metadata says {said}")
        new = f"{name}-{version}.dist-info"
        head = _VERSION.sub(b"Version: " + version.encode(), metadata, count=1)
        changed = {
            f"{new}/METADATA": head,
            f"{new}/RECORD": _record(source.read(f"{old}/RECORD").decode(), old, new, head),
        }
        temporary = target.with_name(f".{target.name}.new")
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as sink:
            for entry in source.infolist():
                if entry.is_dir():
                    continue
                made = zipfile.ZipInfo(_moved(entry.filename, old, new), entry.date_time)
                made.external_attr = entry.external_attr
                made.compress_type = zipfile.ZIP_DEFLATED
                if made.filename in changed:
                    sink.writestr(made, changed[made.filename])
                    continue
                made.file_size = entry.file_size
                with source.open(entry) as reader, sink.open(made, "w") as writer:
                    shutil.copyfileobj(reader, writer, 1 << 20)
    temporary.replace(target)
    return target


def _moved(name: str, old: str, new: str) -> str:
    return new + name.removeprefix(old) if name.startswith(f"{old}/") else name


def _record(text: str, old: str, new: str, metadata: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(metadata).digest()).rstrip(b"=").decode()
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in csv.reader(io.StringIO(text)):
        if not row:
            continue
        name = _moved(row[0], old, new)
        about = [f"sha256={digest}", str(len(metadata))] if name == f"{new}/METADATA" else row[1:]
        writer.writerow([name, *about])
    return written.getvalue().encode()


def main() -> None:
    """Run the command line."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: relabel_wheel.py WHEEL OUT_DIR")
    print(relabel(Path(sys.argv[1]), Path(sys.argv[2])))


if __name__ == "__main__":
    main()
