# SPDX-License-Identifier: Apache-2.0
"""What is kept of a launch that failed, or was left by hand: why, its log, its configuration."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _lock

FOLDER = Path("/var/lib/sglang/failures")
KEEP = 10
_RECORD = "failure.json"
_JOURNAL = "journal.log"
_VALUE = re.compile(r"^[\w-]+:\s*(\".*\")\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """A launch that did not prove itself; `at` is in seconds since the epoch.

    With `by_hand` it did not fail by the gate's word: a person went back from it, and knows why.
    """

    launch: str
    release: str
    stack: str
    at: float
    message: str
    by_hand: bool = False


def secrets_in(text: str) -> list[str]:
    """The values of a `secrets.yaml` as the role engine writes it (JSON strings)."""
    return [_plain(match[1]) for match in _VALUE.finditer(text)]


def _plain(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted.strip('"')


def name_of(failure: Failure) -> str:
    """The folder's name: the time in UTC, then the release, so that names sort by time."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(failure.at))
    return f"{stamp}-{failure.release}"


def keep(
    place: Path,
    failure: Failure,
    journal: str,
    files: Mapping[str, str],
    secrets: Iterable[str],
) -> Path:
    """Write a failure down and drop the oldest beyond `KEEP`.

    Args:
        place: The folder of all failures.
        failure: What failed.
        journal: The log of the failed start.
        files: Name to content of further files.
        secrets: Values that may stand nowhere.

    Returns:
        The folder that was written.
    """
    # Every reading of a node imports this module, and has no log to read.
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import (  # noqa: PLC0415
        redact,
    )

    # As they are, and as they are quoted in JSON and YAML.
    hidden = [form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])]
    place.mkdir(parents=True, mode=0o700, exist_ok=True)
    place.chmod(0o700)
    texts = {
        _JOURNAL: journal,
        _RECORD: json.dumps(asdict(failure), indent=1, sort_keys=True) + "\n",
        **files,
    }
    # Two controllers see the same launch fail in the same second.
    with _lock.folder(place):
        return _write(place, failure, {n: redact(text, hidden) for n, text in texts.items()})


def _write(place: Path, failure: Failure, texts: Mapping[str, str]) -> Path:
    final = place / name_of(failure)
    fresh = place / f".new-{final.name}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    for name, text in texts.items():
        path = fresh / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    shutil.rmtree(final, ignore_errors=True)
    fresh.rename(final)
    # By the clock this one may be the oldest, when the clock went back.
    others = [name for name in names(place) if name != final.name]
    for old in others[: max(0, len(others) + 1 - KEEP)]:
        shutil.rmtree(place / old, ignore_errors=True)
    return final


def names(place: Path) -> list[str]:
    """Names of all failures, oldest first."""
    if not place.is_dir():
        return []
    return sorted(entry.name for entry in place.iterdir() if not entry.name.startswith("."))


def read(place: Path) -> list[dict[str, Any]]:
    """All failures, oldest first: the fields of `Failure`, and `folder`."""
    found = []
    for name in names(place):
        try:
            record = json.loads((place / name / _RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            found.append({**record, "folder": str(place / name)})
    return found


def forget(place: Path, releases: Iterable[str]) -> None:
    """Remove what is kept of releases."""
    gone = set(releases)
    for entry in read(place):
        if entry.get("release") in gone:
            shutil.rmtree(entry["folder"], ignore_errors=True)
