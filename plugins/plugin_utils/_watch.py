# SPDX-License-Identifier: Apache-2.0
"""Watches one start of the engine: unit, journal and HTTP server at once, until it is decided."""

from __future__ import annotations

import os
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import Cause, hopeless
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import (
    Line,
    PhaseTracker,
    Progress,
    parse_line,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import (
    Answer,
    Ask,
    Readiness,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.states import was_served
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import (
    UnitState,
    died,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import parts
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import NodeError
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import Signature
    from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Follow, Node

_UNIT_INTERVAL = 1.0
_PARTS_INTERVAL = 0.7
_PARTS_AGAIN = 0.4
"""A part that is missing is looked for once more; both looks and the cause within two seconds."""
_DETAIL_INTERVAL = 5.0
_STUCK_SECONDS = 60.0
"""How long an engine that was ready before may be silent; its own health check takes up to 20."""
_SCHEDULER_SECONDS = 4.0


@dataclass
class Outcome:
    """How a watch ended: `verdict` is ready, dead, lost, unauthorized, stuck or timeout.

    Lost is an engine of several nodes of which another one failed; `reason` is what that one said,
    and `lost_to` its name. Stuck is an engine that was ready before this watch began and is not any
    more; `reason` then says what its scheduler does.
    """

    verdict: str
    unit: UnitState
    readiness: Readiness
    tracker: PhaseTracker
    elapsed: float
    cause: Cause | None = None
    reason: str = ""
    lost_to: str = ""
    already: bool = False
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)


class Watch:
    """One engine start, watched from the controller.

    Two helper threads read the journal and wait for HTTP answers; they only put what they get into
    a queue, and everything is decided in the thread that calls `run`.
    """

    def __init__(
        self,
        node: Node,
        http: EngineHTTP,
        unit: str,
        *,
        say: Callable[[float, str], None],
        remedies: Sequence[Signature] = (),
        release: str = "",
        rank: int = 0,
        lost: Callable[[], tuple[str, str]] = lambda: ("", ""),
    ) -> None:
        self._http = http
        self._reader = UnitReader(node, unit, release)
        self._say = say
        self._remedies = remedies
        self._events: queue.Queue[Line | tuple[Ask, Answer] | NodeError | None] = queue.Queue()
        self._readiness = Readiness(rank=rank)
        self._lost = lost
        self._tracker = PhaseTracker()
        self._in_flight = False
        self._begun = time.monotonic()
        self._parent = os.getppid()  # a worker outlives a killed playbook
        self._unit_due = self._begun
        self._hopeless = ""
        self._parts_due = self._begun
        self._up_since: float | None = None
        self._roll = parts.Roll(rank)
        self._ended: list[str] = []
        self._served_before = False
        self._follower: Follow | None = None
        self._told, self._told_at = "", self._begun

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def run(self, timeout: float) -> Outcome:
        """Watch until the engine is ready, dead, or `timeout` seconds have passed.

        Raises:
            NodeError: the node cannot be asked any more.
        """
        first = self._reader.state()
        if not first.running:
            return self._dead(first, first, f"the unit is {first.active} ({first.sub})")
        if already := self._already_serving(first):
            return already
        self._start_following(first)
        try:
            return self._loop(first, self._begun + timeout)
        finally:
            if self._follower is not None:
                self._follower.close()

    def _already_serving(self, first: UnitState) -> Outcome | None:
        """A re-run on a serving engine: one `/model_info`, one readiness request, no journal."""
        asked: set[Ask] = set()
        while not self._readiness.ready:
            ask, _when = self._readiness.next(time.monotonic())
            if ask in asked:
                return None  # its answer was not "ready": there is a start to watch
            asked.add(ask)
            self._readiness.sent(ask, time.monotonic())
            self._readiness.answered(ask, self._http.get(ask.value, ask.timeout))
            if self._readiness.unauthorized:
                return self._outcome("unauthorized", first)
        outcome = self._outcome("ready", first)
        outcome.already = True
        return outcome

    def _start_following(self, first: UnitState) -> None:
        # What the journal holds already; the follower then tells what comes.
        before = self._reader.journal(first.invocation_id, short=True)
        self._served_before = was_served(before)
        self._follower = self._reader.follow(first.invocation_id)
        threading.Thread(target=self._read_journal, args=(self._follower,), daemon=True).start()
        self._say(self._elapsed, f"{first.name} is {first.active}, main process {first.main_pid}")

    def _read_journal(self, follower: Follow) -> None:
        for raw in follower:
            line = parse_line(raw)
            if line is not None:
                self._events.put(line)
        self._events.put(None)

    def _loop(self, first: UnitState, deadline: float) -> Outcome:
        while True:
            if os.getppid() != self._parent:
                raise NodeError("the playbook that waited for this engine was killed")
            now = time.monotonic()
            if not self._ended and now >= self._parts_due:
                self._look_for_parts()
            if now >= self._unit_due:
                self._unit_due = now + _UNIT_INTERVAL
                state = self._reader.state()
                if reason := died(first, state) or self._hopeless:
                    return self._dead(first, state, reason)
                name, said = self._lost()
                if name:
                    outcome = self._outcome("lost", state)
                    outcome.lost_to, outcome.reason = name, said
                    return outcome
            if self._readiness.ready:
                return self._ready(first)
            if self._readiness.unauthorized:
                return self._outcome("unauthorized", first)
            if self._served_before and self._elapsed >= _STUCK_SECONDS:
                return self._stuck(first)
            if now >= deadline:
                return self._outcome("timeout", first)
            due = self._send_request(now)
            look = min(self._unit_due, self._parts_due)
            wait = max(0.0, min(due, look, deadline) - time.monotonic())
            self._take_events(wait)

    def _look_for_parts(self) -> None:
        now = time.monotonic()
        if self._readiness.up and self._up_since is None:
            self._up_since = now
        up_for = now - self._up_since if self._up_since is not None else 0.0
        titles = self._reader.titles()
        if titles is not None:
            self._ended = self._roll.look(titles, up_for)
        again = _PARTS_AGAIN if self._roll.missed else _PARTS_INTERVAL
        self._parts_due = time.monotonic() + again
        if self._ended:
            self._unit_due = 0.0
            gone = " and ".join(self._ended)
            self._hopeless = f"its {gone} ended, and the rest of it still runs"

    def _send_request(self, now: float) -> float:
        """Send the next request when it is due; return when to look again."""
        if self._in_flight:
            return float("inf")
        ask, when = self._readiness.next(now)
        if when > now:
            return when
        self._in_flight = True
        self._readiness.sent(ask, now)
        threading.Thread(target=self._request, args=(ask,), daemon=True).start()
        return float("inf")

    def _request(self, ask: Ask) -> None:
        try:
            self._events.put((ask, self._http.get(ask.value, ask.timeout)))
        except NodeError as error:
            self._events.put(error)

    def _take_events(self, wait: float) -> None:
        try:
            event = self._events.get(timeout=wait) if wait else self._events.get_nowait()
            while True:
                self._take(event)
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def _take(self, event: Line | tuple[Ask, Answer] | NodeError | None) -> None:
        if isinstance(event, NodeError):
            raise event
        if event is None or (isinstance(event, Line) and event.manager):
            self._unit_due = 0.0  # systemd speaks of the unit, or the journal ended: look now
            if event is None and self._follower is not None:
                self._follower = None
                self._say(self._elapsed, "the journal cannot be followed; watching the unit alone")
        elif isinstance(event, Line):
            if hopeless(event):
                self._hopeless = "it cannot listen on its port, and will not serve"
                self._unit_due = 0.0
            progress = self._tracker.feed(event)
            if progress is None:
                return
            if progress.phase == "ready":
                self._readiness.hurry()
            else:
                self._tell(progress)
        else:
            self._in_flight = False
            was_up = self._readiness.up
            self._readiness.answered(*event)
            if self._readiness.up and not was_up:
                self._say(self._elapsed, "the port is open, /model_info answers")

    def _tell(self, progress: Progress) -> None:
        """Print a new phase at once, and how far it is only now and then."""
        now = time.monotonic()
        if progress.phase != self._told or now >= self._told_at + _DETAIL_INTERVAL:
            self._told, self._told_at = progress.phase, now
            self._say(self._elapsed, str(progress))

    def _outcome(self, verdict: str, unit: UnitState) -> Outcome:
        return Outcome(verdict, unit, self._readiness, self._tracker, round(self._elapsed, 1))

    def _stuck(self, first: UnitState) -> Outcome:
        """`/server_info` asks the scheduler, as `states.decide` says."""
        outcome = self._outcome("stuck", first)
        alive = self._http.get("/server_info", _SCHEDULER_SECONDS).status != 0
        outcome.reason = (
            "its scheduler answers /server_info: OVERLOADED, or one of its processes is gone"
            if alive
            else "its scheduler does not answer /server_info: HUNG"
        )
        return outcome

    def _ready(self, first: UnitState) -> Outcome:
        outcome = self._outcome("ready", first)
        times = self._tracker.times
        if first.started and times:
            end = times.get("ready", first.started + outcome.elapsed)
            outcome.seconds = round(max(0.0, end - first.started), 1)
            outcome.phases = self._tracker.durations(first.started, end)
        else:
            outcome.seconds = outcome.elapsed
        return outcome

    def _dead(self, first: UnitState, now: UnitState, reason: str) -> Outcome:
        outcome = self._outcome("dead", now)
        outcome.reason = reason
        outcome.cause, lines = self._reader.explain(
            first.invocation_id, now, self._remedies, self._ended
        )
        for line in lines:
            self._tracker.feed(line)
        return outcome
