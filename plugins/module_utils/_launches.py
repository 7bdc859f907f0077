# SPDX-License-Identifier: Apache-2.0
"""Launch records: release and configuration of each launch that passed its gate.

`/etc/sglang/launches/<launch>/` holds the files of one launch as they were when it proved itself,
and `record.json` with what is needed to start and to gate it again. `serving` is a link to the
launch that passed last, `before` to the one before it. A launch that never passed has no record,
so there is nothing wrong to go back to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _lock
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import LAUNCH_DIGEST

ENVIRONMENT = "engine.env"
"""The configuration file that names its launch."""
FOLDER = "launches"
RECORD = "record.json"
SERVING, BEFORE = "serving", "before"
ROLLED_BACK = "rolled-back.json"
_DIGEST = re.compile(r"[0-9a-f]{16}")


class LaunchRecordError(RuntimeError):
    """A launch record cannot be read or written; the message says what to do."""


@dataclass(frozen=True)
class File:
    """A configuration file: where it belongs, how, and what is in it."""

    path: str
    mode: str
    owner: str
    group: str
    content: str

    @property
    def stored(self) -> str:
        """Its name inside a record's folder."""
        return Path(self.path).name


@dataclass(frozen=True)
class Launch:
    """What is kept of a launch that passed its gate.

    Attributes:
        launch: Its digest (`_launch.launch_digest`).
        release: The release's id.
        stack: The stack's name, for people.
        gated_at: When it passed, seconds since the epoch by the node's clock.
        ready_seconds: From the unit's start to ready; None when this start was not watched.
        accept_length: As the gate measured it; None without speculation.
        gate: Parameters of `engine_gate`, without the API key.
        answer: What it answered to the gate's known question.
        files: Path, mode, owner, group and digest of each file, without content.
    """

    launch: str
    release: str
    stack: str = ""
    gated_at: float = 0.0
    ready_seconds: float | None = None
    accept_length: float | None = None
    gate: Mapping[str, Any] = field(default_factory=dict)
    answer: str = ""
    files: tuple[Mapping[str, str], ...] = ()


def folder(config: Path) -> Path:
    """Where the records are; `config` is the configuration folder, such as /etc/sglang."""
    return config / FOLDER


def read(config: Path) -> dict[str, Any]:
    """Read all records.

    Args:
        config: The configuration folder; it need not exist.

    Returns:
        `serving` and `before` (digests, empty without one), `configured` (the launch whose
        configuration is on the node, proved or not; empty without one), `rolled_back` (what the
        last rollback by hand left: `launch`, `release`, `at`; empty without one), and `records`,
        digest to the fields of `Launch`. A record that cannot be read, or whose files are no longer
        those that proved themselves, is left out.
    """
    place = folder(config)
    # First: what a link names was written before it, also by a run that goes on meanwhile.
    links = {name: _linked(place, name) for name in (SERVING, BEFORE)}
    records: dict[str, Any] = {}
    for entry in sorted(place.iterdir()) if place.is_dir() else []:
        if entry.is_dir() and not entry.is_symlink() and _DIGEST.fullmatch(entry.name):
            found = _load(entry / RECORD)
            if found.get("launch") == entry.name and found.get("release") and _whole(entry, found):
                records[entry.name] = found
    return {
        **{name: launch if launch in records else "" for name, launch in links.items()},
        "configured": _configured(config),
        "rolled_back": _load(place / ROLLED_BACK),
        "records": records,
    }


def launch_of(text: str) -> str:
    """The launch's digest in the text of an `engine.env`, empty without one."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == LAUNCH_DIGEST:
            return value.strip().strip('"')
    return ""


def _configured(config: Path) -> str:
    try:
        return launch_of((config / ENVIRONMENT).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""


def _whole(place: Path, record: Mapping[str, Any]) -> bool:
    """Whether a record's files are as they were kept; of an older record no digests are known."""
    for entry in record.get("files", ()):
        try:
            content = (place / Path(entry["path"]).name).read_bytes()
        except (OSError, KeyError, TypeError):
            return False
        if entry.get("sha256") not in (None, hashlib.sha256(content).hexdigest()):
            return False
    return True


def _load(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _linked(place: Path, name: str) -> str:
    try:
        return (place / name).readlink().name
    except OSError:
        return ""


def load_files(config: Path, launch: str) -> tuple[dict[str, Any], list[File]]:
    """A record and its files with their content.

    Raises:
        LaunchRecordError: There is no such record, or it is not whole.
    """
    place = folder(config) / launch
    record = _load(place / RECORD)
    if not _DIGEST.fullmatch(launch) or record.get("launch") != launch:
        raise LaunchRecordError(f"no launch {launch} is recorded in {folder(config)}")
    files = []
    for entry in record["files"]:
        try:
            content = (place / Path(entry["path"]).name).read_text(encoding="utf-8")
        except OSError as error:
            raise LaunchRecordError(
                f"the record {place} is not whole ({error}); choose another launch"
            ) from error
        known = {key: value for key, value in entry.items() if key != "sha256"}
        files.append(File(content=content, **known))
    return record, files


@contextlib.contextmanager
def changing(config: Path) -> Iterator[None]:
    """Let one run at a time change records: two gates of the same launch pass at the same moment.

    Args:
        config: The configuration folder; it exists.

    Raises:
        TimeoutError: Somebody else changes them for longer than a minute.
    """
    place = folder(config)
    place.mkdir(mode=0o700, exist_ok=True)
    with _lock.folder(place):
        yield


def save(config: Path, launch: Launch, files: Iterable[File]) -> bool:
    """Write a record in one rename; whoever calls this holds `changing`.

    Args:
        config: The configuration folder; it exists.
        launch: What to keep; its `files` are made from `files`.
        files: The configuration files as they are on the node.

    Returns:
        Whether anything but the times differs from what was there.
    """
    kept = list(files)
    described = [
        {**asdict(file), "sha256": hashlib.sha256(file.content.encode()).hexdigest()}
        for file in kept
    ]
    for description in described:
        del description["content"]
    record = {**asdict(launch), "gate": dict(launch.gate), "files": described}
    place = folder(config)
    place.mkdir(mode=0o700, exist_ok=True)
    final, fresh, aside = (place / f"{start}{launch.launch}" for start in ("", ".new-", ".old-"))
    for leftover in (fresh, aside):
        shutil.rmtree(leftover, ignore_errors=True)
    before, text = _load(final / RECORD), json.dumps(record, indent=1, sort_keys=True) + "\n"
    if before.get("files") == described and _whole(final, before):
        # Never a moment without the record, for whoever reads it meanwhile.
        _write(final / RECORD, text)
        _sync(final)
    else:
        fresh.mkdir(mode=0o700)
        for entry in kept:
            _write(fresh / entry.stored, entry.content)
        _write(fresh / RECORD, text)
        _sync(fresh)
        if final.exists():
            final.rename(aside)
        fresh.rename(final)
        shutil.rmtree(aside, ignore_errors=True)
        _sync(place)
    timeless = ("gated_at", "ready_seconds", "accept_length")
    return {k: v for k, v in before.items() if k not in timeless} != {
        k: v for k, v in json.loads(json.dumps(record)).items() if k not in timeless
    }


def mark_serving(config: Path, launch: str) -> bool:
    """Say which launch passed its gate last; the one before it becomes `before`.

    Killed between its two steps, it leaves `before` and `serving` the same, and the next run,
    which finds a launch that serves without being named, does it again.

    Returns:
        Whether the links changed.
    """
    place = folder(config)
    records = read(config)
    if records[SERVING] == launch:
        return False
    if records[SERVING]:
        _link(place / BEFORE, records[SERVING])
    _link(place / SERVING, launch)
    return True


def note_rollback(config: Path, launch: str, release: str, at: float) -> None:
    """Remember what a rollback by hand left, so that the next plan can say so."""
    _write(
        folder(config) / ROLLED_BACK,
        json.dumps({"launch": launch, "release": release, "at": at}) + "\n",
    )


def forget_rollback(config: Path) -> None:
    """The inventory's own launch serves again."""
    (folder(config) / ROLLED_BACK).unlink(missing_ok=True)


def forget(config: Path, launches: Iterable[str]) -> None:
    """Remove records; never the two that links name."""
    if not folder(config).is_dir():
        return
    with changing(config):
        found = read(config)
        for launch in set(launches) - {found[SERVING], found[BEFORE]}:
            if _DIGEST.fullmatch(launch):
                shutil.rmtree(folder(config) / launch, ignore_errors=True)


def _write(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def _link(path: Path, target: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def _sync(place: Path) -> None:
    """Get a folder's names to disk; what serves must survive a power cut."""
    with contextlib.suppress(OSError):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
