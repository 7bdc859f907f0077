#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print a model's manifest: every file of a folder with size and sha256, hidden ones left out.

    scripts/model_manifest.py /srv/models/NAME > manifests/NAME.json
    ssh NODE python3 - /srv/models/NAME < scripts/model_manifest.py > manifests/NAME.json

One file for any Python 3.10 or newer, so that it also runs where the weights lie.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

MANIFEST = "manifest.json"
_BLOCK = 1 << 22


def manifest(folder: Path) -> dict[str, dict[str, str | int]]:
    """Describe every file below a folder, hidden ones and an older manifest left out.

    Args:
        folder: The folder; each file is read once.

    Returns:
        Relative name to `sha256` and `size`, as the lookup `model` reads it.
    """
    names = sorted(
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )
    return {
        str(name): {"sha256": _sha256(folder / name), "size": (folder / name).stat().st_size}
        for name in names
        if str(name) != MANIFEST
    }


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the model's folder")
    folder: Path = parser.parse_args().folder
    if not folder.is_dir():
        parser.error(f"{folder}: no such folder")
    found = manifest(folder)
    if not found:
        parser.error(f"{folder}: there is no file in it")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
