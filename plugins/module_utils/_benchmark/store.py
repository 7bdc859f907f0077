# SPDX-License-Identifier: Apache-2.0
"""Results that a node keeps: one document a benchmark, by the fingerprint of its stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path("/var/lib/sglang/benchmarks")
_NEWEST = 4  # of one stack; each is read with every deployment
_STACKS = 8
_LARGEST = 4 << 20


def read(folder: Path) -> list[dict[str, Any]]:
    """The newest results of the newest stacks.

    Args:
        folder: Where they are, `<fingerprint>/<started>.json`; it need not exist.

    Returns:
        Documents as they are stored, oldest first; one that cannot be read is left out.
    """
    stacks = [entry for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    kept = []
    for stack in stacks:
        names = sorted(path for path in stack.glob("*.json") if not path.name.startswith("."))
        kept.append([found for path in names[-_NEWEST:] if (found := _load(path))])
    kept = sorted((group for group in kept if group), key=lambda group: _started(group[-1]))
    return sorted((one for group in kept[-_STACKS:] for one in group), key=_started)


def _started(document: dict[str, Any]) -> str:
    return str(document.get("started", ""))


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
