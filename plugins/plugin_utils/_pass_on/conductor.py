# SPDX-License-Identifier: Apache-2.0
"""Carries a plan out: one line to each node, events in, orders out. What goes is decided in `plan`.

Whatever fails here leaves a file that is still lacking, and nothing else: the caller sees to those
by the ordinary way.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import commands, plan
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on.line import Giver, Line
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on.members import (
    Member,
    Outcome,
    Settings,
    begin,
)

if TYPE_CHECKING:
    from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import SshSettings

_PING_SECONDS = 20.0
_SAY_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_TRIES = 2  # a cut connection is tried once more before the two are kept apart
MIB = 2**20


class AbandonedError(Exception):
    """Nobody waits for this run any more."""


class Conductor:
    """One passing on, from the first look to the last file."""

    def __init__(
        self,
        members: Mapping[str, Member],
        ways: Mapping[str, SshSettings],
        files: Mapping[str, Path],
        settings: Settings,
        *,
        say: Callable[[str], None],
        alive: Callable[[], bool],
    ) -> None:
        """Prepare.

        Args:
            members: Who takes part, by name.
            ways: How the controller reaches each.
            files: Digest to the file on the controller.
            settings: How much at a time, and how fast.
            say: Prints one line of progress.
            alive: Whether somebody still waits for this run.
        """
        self._members, self._ways, self._files = members, ways, files
        self._settings, self._say, self._alive = settings, say, alive
        self._events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._lines: dict[str, Line] = {}
        self._keys: dict[str, Mapping[str, str]] = {}
        self._giver = Giver()
        self._over = threading.Event()
        self._orders: dict[int, plan.Transfer] = {}
        self._flowing: dict[int, int] = {}
        self._doubts: set[tuple[str, str]] = set()
        self._last = 0
        self._failures: Counter[tuple[str, str, int]] = Counter()
        self._began = self._said = time.monotonic()
        self._settled = 0
        self.outcome = Outcome()

    def hear(self, name: str, event: dict[str, Any]) -> None:
        """Take an event of a node; from any thread."""
        self._events.put((name, event))

    def add(self, line: Line, name: str) -> None:
        """Take a started line."""
        self._lines[name] = line

    def look(self, read: bool) -> dict[str, set[str]]:
        """Ask every node what it lacks.

        Args:
            read: Whether nodes read files that they have not verified yet, and prepare to take.

        Returns:
            Node to digests; nodes that could not tell are missing.
        """
        threading.Thread(target=self._ping, daemon=True).start()
        lacking: dict[str, set[str]] = {}
        for name, line in self._lines.items():
            member = self._members[name]
            folders = [
                {
                    "dest": folder.dest,
                    "record": folder.record,
                    "files": [asdict(entry) for entry in folder.files],
                }
                for folder in member.folders
            ]
            line.order(
                do="open",
                address=member.address,
                folders=folders,
                read=read,
                user=self._ways[name].user,
            )
        waiting = set(self._lines)
        while waiting:
            name, event = self._next()
            if event["event"] == "opened":
                lacking[name] = {sha for files in event["lacking"] for sha in files}
                self._keys[name] = event.get("keys", {})
            elif event["event"] not in ("gone", "failed"):
                continue
            else:
                self._drop(name, event)
            waiting.discard(name)
        return lacking

    def run(self, lacking: Mapping[str, set[str]]) -> Outcome:
        """Pass on until nothing is left that anybody can give.

        Args:
            lacking: What `look` returned.
        """
        self.outcome.lacking = {name: set(files) for name, files in lacking.items()}
        state = begin(self._members, lacking, self._files, self._settings)
        total = sum(
            state.pieces[number].size for numbers in state.lacks.values() for number in numbers
        )
        if not total and not any(lacking.values()):
            return self.outcome
        self._introduce(state)
        state = self._serve(state)
        while True:
            chosen = plan.choose(state)
            state = plan.started(state, chosen)
            for transfer in chosen:
                self._start(state, transfer)
            if not state.running and not self._doubts:
                return self.outcome
            state = self._event(state, *self._next())
            self._progress(state, total)

    def close(self) -> None:
        """End all lines; every node has cleared up when this returns."""
        self._over.set()
        self._giver.close()
        threads = [threading.Thread(target=line.close) for line in self._lines.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _next(self) -> tuple[str, dict[str, Any]]:
        while True:
            with suppress(queue.Empty):
                return self._events.get(timeout=_LOOK_SECONDS)
            if not self._alive():
                raise AbandonedError("the play is gone")

    def _ping(self) -> None:
        """Tell every node from time to time that the controller is there."""
        while not self._over.wait(_PING_SECONDS):
            for line in list(self._lines.values()):
                line.order(do="ping")

    def _drop(self, name: str, event: Mapping[str, Any]) -> None:
        self._lines.pop(name, None)
        self._doubts = {doubt for doubt in self._doubts if doubt[0] != name}
        text = str(event.get("text", "")).strip()
        if "already loaded" in text or "already exists" in text or "fragment file" in text:
            text = "another run is passing files on there"
        self.outcome.trouble(f"{name}: takes no part any more{': ' + text if text else ''}")

    def _introduce(self, state: plan.State) -> None:
        """Tell every node the keys of this run of those that it may speak with."""
        for site in state.sites:
            peers = [
                {
                    "name": other.name,
                    "address": self._members[other.name].address,
                    "key": self._keys[other.name]["client"],
                    "host_key": self._keys[other.name]["host"],
                }
                for other in state.sites
                if other.reaches(site)
            ]
            if site.name in self._lines:
                self._lines[site.name].order(do="meet", peers=peers)

    def _serve(self, state: plan.State) -> plan.State:
        """Have the nodes from which others may take open their servers."""
        waiting = set()
        for site in state.sites:
            near = [other.name for other in state.sites if other.reaches(site)]
            wanted = any(state.lacks.get(name) for name in near)
            if not wanted or site.name not in self._lines:
                continue
            self._lines[site.name].order(do="serve", port=self._members[site.name].port)
            waiting.add(site.name)
        while waiting:
            name, event = self._next()
            if event["event"] == "serving":
                waiting.discard(name)
            elif event["event"] in ("mute", "failed", "gone"):
                self.outcome.trouble(f"{name}: cannot give files: {event['text']}")
                if event["event"] == "gone":
                    self._lines.pop(name, None)
                    state = plan.without(state, name)
                pairs = {(site.name, name) for site in state.sites}
                state = replace(state, apart=state.apart | pairs)
                waiting.discard(name)
        return state

    def _start(self, state: plan.State, transfer: plan.Transfer) -> None:
        self._last += 1
        number = self._last
        self._orders[number] = transfer
        self._flowing[number] = 0
        piece = state.pieces[transfer.piece]
        line = self._lines[transfer.receiver]
        if transfer.source == plan.CONTROLLER:
            line.order(do="expect", id=number, files=list(piece.files))
            return
        source = self._members[transfer.source]
        names = source.names()
        line.order(
            do="take",
            id=number,
            files=list(piece.files),
            names=[names[sha] for sha in piece.files],
            source={"name": source.name, "address": source.address, "port": source.port},
            limit=commands.kbits(self._settings.limit, self._settings.streams),
        )

    def _event(self, state: plan.State, name: str, event: dict[str, Any]) -> plan.State:
        number = event.get("id")
        if event["event"] == "gone":
            for one, transfer in list(self._orders.items()):
                if transfer.receiver == name:
                    self._forget(one)
            self._drop(name, event)
            return plan.without(state, name)
        if event["event"] == "doubted":
            self._doubted(name, event)
            return state
        if number not in self._orders:
            return state
        transfer = self._orders[number]
        if event["event"] == "progress":
            self._flowing[number] = int(event["bytes"])
        elif event["event"] == "ready":
            threading.Thread(
                target=self._give, args=(number, transfer, event["parts"]), daemon=True
            ).start()
        elif event["event"] == "given":
            piece = state.pieces[transfer.piece]
            self._lines[name].order(
                do="adopt", id=number, files=list(piece.files), resumed=event["resumed"]
            )
        elif event["event"] == "done":
            self._forget(number)
            piece = state.pieces[transfer.piece]
            self.outcome.brought[transfer.receiver, transfer.source] += piece.size
            self.outcome.resumed[transfer.receiver] += int(event["resumed"])
            self.outcome.lacking[transfer.receiver] -= set(piece.files)
            self._settled += piece.size
            return plan.arrived(state, transfer)
        elif event["event"] == "failed":
            self._forget(number)
            return self._failed(state, transfer, event)
        return state

    def _forget(self, number: int) -> None:
        self._orders.pop(number, None)
        self._flowing.pop(number, None)

    def _give(self, number: int, transfer: plan.Transfer, parts: list[dict[str, Any]]) -> None:
        """Put a piece on a node, beside the events."""
        files = [
            (self._files[Path(part["path"]).name], part["path"])
            for part in parts
            if part["missing"]
        ]
        limit = commands.kbits(self._settings.controller_limit, self._settings.streams)
        failed: Mapping[str, str] = {}
        if files:
            failed = self._giver.give(self._ways[transfer.receiver], files, limit)
        here = sum(part["here"] for part in parts)
        event = {"event": "failed", **failed} if failed else {"event": "given", "resumed": here}
        self.hear(transfer.receiver, {**event, "id": number})

    def _failed(
        self, state: plan.State, transfer: plan.Transfer, event: Mapping[str, Any]
    ) -> plan.State:
        """Decide from whom the piece comes now."""
        state = replace(state, running=state.running - {transfer})
        source = transfer.source or "the controller"
        text = " ".join(str(event.get("text", "")).split())
        self._failures[transfer.receiver, transfer.source, transfer.piece] += 1
        tries = self._failures[transfer.receiver, transfer.source, transfer.piece]
        if event["why"] == "local":
            self.outcome.trouble(f"{transfer.receiver}: cannot take files: {text}")
            return replace(state, lacks={**state.lacks, transfer.receiver: frozenset()})
        if event["why"] == "corrupt" and (transfer.source or tries >= _TRIES):
            self.outcome.trouble(f"{source} gave {transfer.receiver} a damaged file: {text}")
            if transfer.source in self._lines:
                self._doubts.add((transfer.source, event["file"]))
                self._lines[transfer.source].order(do="doubt", file=event["file"])
            return replace(state, barred=state.barred | {(transfer.source, transfer.piece)})
        if event["why"] == "denied":
            self.outcome.trouble(f"{source} does not give {transfer.receiver} a file: {text}")
            return replace(state, barred=state.barred | {(transfer.source, transfer.piece)})
        if tries >= _TRIES:
            self.outcome.trouble(f"{transfer.receiver} cannot take from {source}: {text}")
            return replace(state, apart=state.apart | {(transfer.receiver, transfer.source)})
        return state

    def _doubted(self, name: str, event: Mapping[str, Any]) -> None:
        self._doubts.discard((name, event["file"]))
        if event["text"]:
            self.outcome.trouble(
                f"{name}: its own file is damaged: {event['text']}. Remedy: deploy {name} again, "
                "which brings it anew; look at the disk (`journalctl -k`)"
            )

    def _progress(self, state: plan.State, total: int) -> None:
        now = time.monotonic()
        if now - self._said < _SAY_SECONDS and state.running:
            return
        self._said = now
        here = self._settled + sum(self._flowing.values())
        waiting = sum(1 for numbers in state.lacks.values() if numbers)
        self._say(
            f"{now - self._began:5.0f}s  passed on {here / MIB:.0f} of {total / MIB:.0f} MiB, "
            f"{len(state.running)} transfer(s), {waiting} node(s) to go"
        )
