# SPDX-License-Identifier: Apache-2.0
"""A folder of known files on a node, and where files lie on their way to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _verified


class Shelf:
    """One folder of files that are known by their digests, on this node."""

    def __init__(self, number: int, spec: Mapping[str, Any]) -> None:
        """Look at it.

        Args:
            number: Its place among the folders, also its name in what the node shows.
            spec: `dest`, `record` and `files`.
        """
        self.number = number
        self.folder = Path(spec["dest"])
        self.incoming = incoming(self.folder)
        self.record_path = Path(spec["record"] or self.folder / ".verified.json")
        self.wanted = _verified.parse_wanted(spec["files"])
        self.record = _verified.load_record(self.record_path)
        self.lacking: set[str] = set()
        self._guard = threading.Lock()

    def look(self, read: bool) -> list[str]:
        """The sha256 of the files that are not there.

        Args:
            read: Read those whose content is not known yet, and count wrong ones as missing.
        """
        seen = _verified.inspect(self.folder, self.wanted, self.record)
        lacking = set(seen.missing)
        if read and seen.unverified:
            _verified.verify(self.folder, self.wanted, self.record, seen.unverified)
            _verified.save_record(self.record_path, self.record)
            lacking |= set(_verified.inspect(self.folder, self.wanted, self.record).unverified)
        self.lacking = lacking
        return [entry.sha256 for entry in self.wanted if entry.name in lacking]

    def part(self, entry: _verified.Wanted, by_controller: bool) -> Path:
        """Where a file arrives; what has arrived by the other way already is there afterwards.

        Args:
            entry: The file.
            by_controller: Whether the controller's own user writes it.
        """
        places = [self.incoming / entry.sha256, self.incoming / "controller" / entry.sha256]
        here, there = reversed(places) if by_controller else places
        for place in (here, there):
            if place.is_symlink() or (place.exists() and place.stat().st_size > entry.size):
                place.unlink()
        if there.exists():
            if here.exists() and here.stat().st_size >= there.stat().st_size:
                there.unlink()
            else:
                os.chown(there, os.geteuid(), os.getegid())
                there.replace(here)
        return here

    def take_in(self, part: Path, entry: _verified.Wanted, keep: bool = False) -> str | None:
        """Put a file that has arrived into its place; returns what is wrong with it.

        Args:
            part: The file.
            entry: What it must be.
            keep: Copy it, because another place has it too.
        """
        record: dict[str, Any] = {}
        put = _verified.adopt if keep else _verified.settle
        problem = put(part, self.folder, entry, 0o644, record)
        with self._guard:
            self.record.update(record)
            if record:
                _verified.save_record(self.record_path, self.record)
        return problem

    def doubt(self, entry: _verified.Wanted) -> str:
        """Read a file again that arrived wrong elsewhere; returns what is wrong with it here."""
        with self._guard:
            wrong = _verified.verify(self.folder, [entry], self.record, [entry.name])
            _verified.save_record(self.record_path, self.record)
        return "; ".join(wrong)


def incoming(folder: Path) -> Path:
    """Where files on their way to a folder lie: beside it, so that a rename brings them in."""
    return folder.with_name(f".{folder.name}.incoming")
