# SPDX-License-Identifier: Apache-2.0
"""Watching a start: recorded journals, scripted unit states, and a real HTTP server."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import parts
from ansible_collections.sm120.sglang.plugins.plugin_utils import _watch
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Completed, NodeError
from ansible_collections.sm120.sglang.plugins.plugin_utils._watch import Outcome, Watch

from tests.unit.plugins.module_utils._engine.recordings import raw_journal
from tests.unit.plugins.plugin_utils.scripted import ScriptedNode
from tests.unit.plugins.plugin_utils.sshd import free_port
from tests.unit.plugins.plugin_utils.web import ADDRESS, Web, running_web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


LIMIT = 30.0
QUICK = 4.0
"""Dead engine to verdict, in seconds, on a busy machine; 0.2 to 1.2 on an idle one."""


@dataclass
class Engine:
    """What the HTTP server says: closed paths answer as the real 0.5.9 does."""

    health: Callable[[], int] = lambda: 200
    has_ready: bool = False
    key: str = ""

    def respond(self, path: str, _body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        if path == "/model_info":
            if self.key and headers.get("Authorization") != f"Bearer {self.key}":
                return 401, {"error": "Unauthorized"}
            return 200, {"model_path": "/m"}
        if path == "/ready" and not self.has_ready:
            return 404, {"detail": "Not Found"}
        return self.health(), ""


@contextmanager
def serving(engine: Engine) -> Iterator[Web]:
    with running_web(engine.respond) as web:
        yield web


def watch(
    node: ScriptedNode,
    port: int,
    *,
    timeout: float = LIMIT,
    key: str = "",
    said: list[str] | None = None,
) -> Outcome:
    http = EngineHTTP(node.http(), ADDRESS, port, key)
    told = said if said is not None else []
    return Watch(node, http, "sglang.service", say=lambda _s, text: told.append(text)).run(timeout)


class TestReady:
    @pytest.mark.parametrize("has_ready", [True, False])
    def test_serving_already_costs_a_request_of_each_kind(self, has_ready: bool) -> None:
        node, said = ScriptedNode(), list[str]()
        with serving(Engine(has_ready=has_ready)) as web:
            outcome = watch(node, web.port, said=said)
        assert (outcome.verdict, outcome.already) == ("ready", True)
        wanted = ["/model_info", "/ready"] if has_ready else ["/model_info", "/ready", "/health"]
        assert web.paths() == wanted
        assert [command[0] for command in node.commands] == ["systemctl"], "and no journal"
        assert said == []

    def test_a_start_is_told_as_it_goes(self) -> None:
        node, said, warm = ScriptedNode(), list[str](), threading.Event()
        recorded = raw_journal("served-and-stopped")
        ready = next(i for i, raw in enumerate(recorded) if "ready to roll" in raw)

        def health() -> int:
            # The first answer lets the warm-up end: the journal then says so.
            if warm.is_set():
                return 200
            warm.set()
            node.journal(recorded[: ready + 1])
            return 503

        with serving(Engine(health=health)) as web:
            begun = time.monotonic()
            outcome = watch(node, web.port, said=said)
        assert (outcome.verdict, outcome.already) == ("ready", False)
        assert time.monotonic() - begun < 4, "the journal's word brings /health forward"
        assert web.paths().count("/health") == 2
        assert said[0] == "sglang.service is active, main process 4242"
        assert said[-1] == "warming up"
        assert "draft model: loading weights" in said
        assert outcome.seconds == pytest.approx(77, abs=15)
        assert list(outcome.phases) == ["starting", "loading", "memory", "draft", "warmup"]

    def test_without_a_journal_the_port_alone_decides(self) -> None:
        node, said = ScriptedNode(), list[str]()
        answers = iter([503, 200])
        node.feed.put(None)
        with serving(Engine(health=answers.__next__, has_ready=True)) as web:
            outcome = watch(node, web.port, said=said)
        assert outcome.verdict == "ready"
        assert any("journal cannot be followed" in text for text in said)
        assert outcome.seconds == outcome.elapsed


class TestStuck:
    @pytest.mark.parametrize(("answers", "says"), [(True, "OVERLOADED"), (False, "HUNG")])
    def test_what_served_before_is_not_waited_for_like_a_start(
        self, answers: bool, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_watch, "_STUCK_SECONDS", 1.0)
        monkeypatch.setattr(_watch, "_SCHEDULER_SECONDS", 0.5)
        node = ScriptedNode()
        node.lines += raw_journal("served-and-stopped")
        engine, release = Engine(health=lambda: 503), threading.Event()

        def respond(path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
            if path == "/server_info" and not answers:
                release.wait(LIMIT)
            return (200, {}) if path == "/server_info" else engine.respond(path, body, headers)

        with running_web(respond) as web:
            outcome = watch(node, web.port)
            release.set()
        assert outcome.verdict == "stuck"
        assert says in outcome.reason
        assert outcome.elapsed < LIMIT


class TestDead:
    def test_the_cause_comes_within_moments_of_the_death(self) -> None:
        node, died = ScriptedNode(), list[float]()
        recorded = raw_journal("unpatched")

        def on_show(count: int) -> None:
            if count == 2:  # it lives for a second look, then dies as the recording says
                threading.Thread(target=die).start()

        def die() -> None:
            node.die()
            died.append(time.monotonic())
            node.journal(recorded)

        node.on_show = on_show
        outcome = watch(node, free_port(ADDRESS))
        assert time.monotonic() - died[0] < QUICK
        assert outcome.verdict == "dead"
        assert outcome.reason == "the unit is failed (failed)"
        assert outcome.cause is not None
        assert outcome.cause.location == "model_runner.py:622"
        assert str(outcome.tracker.current) == "KV cache allocated: 4096 tokens"

    def test_systemds_word_makes_it_look_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_watch, "_UNIT_INTERVAL", 2 * LIMIT)
        node = ScriptedNode()

        def die() -> None:
            node.die()
            node.journal(raw_journal("unpatched"))

        node.on_show = lambda count: threading.Timer(0.3, die).start() if count == 1 else None
        begun = time.monotonic()
        assert watch(node, free_port(ADDRESS)).verdict == "dead"
        assert time.monotonic() - begun < QUICK

    def test_a_death_that_the_journal_does_not_tell(self) -> None:
        node = ScriptedNode()
        node.on_show = lambda count: node.die() if count == 2 else None
        begun = time.monotonic()
        outcome = watch(node, free_port(ADDRESS))
        assert time.monotonic() - begun < QUICK + 1
        assert outcome.cause is not None
        assert "could not be read" in outcome.cause.summary

    def test_a_request_in_flight_does_not_delay_it(self) -> None:
        node, release = ScriptedNode(), threading.Event()

        def hang() -> int:
            node.die()
            release.wait(LIMIT)
            return 503

        asked: list[float] = []

        def health() -> int:
            asked.append(time.monotonic())
            return 503 if len(asked) == 1 else hang()

        with serving(Engine(health=health, has_ready=True)) as web:
            begun = time.monotonic()
            outcome = watch(node, web.port)
            took = time.monotonic() - begun
            release.set()
        assert outcome.verdict == "dead"
        assert took < QUICK + 2

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"NRestarts": "1", "InvocationID": "bb22"}, "systemd restarted it (restart 1)"),
            ({"InvocationID": "bb22"}, "somebody restarted it"),
            (
                {"ActiveState": "activating", "SubState": "auto-restart"},
                "the unit is activating (auto-restart)",
            ),
        ],
    )
    def test_a_restart_is_a_death(self, change: dict[str, str], reason: str) -> None:
        node = ScriptedNode(lines=raw_journal("unpatched"))
        node.on_show = lambda count: node.state.update(change) if count == 2 else None
        outcome = watch(node, free_port(ADDRESS))
        assert (outcome.verdict, outcome.reason) == ("dead", reason)
        assert outcome.cause is not None
        assert outcome.cause.location == "model_runner.py:622", "of the start that died"
        assert any("_SYSTEMD_INVOCATION_ID=aa11" in command for command in node.commands)

    def test_a_unit_that_was_dead_before_is_explained_at_once(self) -> None:
        node = ScriptedNode(lines=raw_journal("context-refused"))
        node.die()
        outcome = watch(node, free_port(ADDRESS))
        assert outcome.cause is not None
        assert outcome.cause.signature == "context-length"

    def test_a_unit_that_was_never_started(self) -> None:
        node = ScriptedNode({"ActiveState": "inactive", "SubState": "dead", "InvocationID": ""})
        outcome = watch(node, free_port(ADDRESS))
        assert outcome.cause is not None
        assert "it was stopped, or never started" in outcome.cause.summary

    @pytest.mark.parametrize("killed", ["scheduler_TP0", "scheduler_TP1", "detokenizer"])
    def test_a_part_that_ends_unnoticed_is_not_waited_for(
        self, killed: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The launcher of 0.5.9 goes on, and its warm-up waits for ever."""
        monkeypatch.setattr(_watch, "_UNIT_INTERVAL", 0.05)
        monkeypatch.setattr(_watch, "_PARTS_INTERVAL", 0.1)
        monkeypatch.setattr(_watch, "_PARTS_AGAIN", 0.1)
        titles = ["scheduler_TP0", "scheduler_TP1", "detokenizer"]
        node = ScriptedNode()

        def on_show(count: int) -> None:
            # They come one after the other, and one of them goes.
            there = titles[: count - 1] if count < 9 else [one for one in titles if one != killed]
            node.titles = [f"sglang::{one}" for one in there]

        node.on_show = on_show
        with serving(Engine(health=lambda: 503)) as web:
            outcome = watch(node, web.port)
        assert outcome.verdict == "dead"
        assert outcome.reason == f"its {killed} ended, and the rest of it still runs"
        assert outcome.cause is not None
        assert outcome.cause.summary.startswith(f"the engine's {killed} was killed from outside")

    def test_a_listing_that_failed_is_no_death(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_watch, "_PARTS_INTERVAL", 0.05)
        monkeypatch.setattr(_watch, "_PARTS_AGAIN", 0.05)
        looks: list[int] = []

        class Busy(ScriptedNode):
            def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
                if argv[0] == "ps":
                    looks.append(len(looks))
                    if len(looks) > 2:
                        return Completed(1, "", "fork: Resource temporarily unavailable")
                return super()._run(argv, given, timeout)

        node = Busy(titles=["sglang::scheduler", "sglang::detokenizer"])
        with serving(Engine(health=lambda: 503)) as web:
            outcome = watch(node, web.port, timeout=1.5)
        assert outcome.verdict == "timeout"
        assert len(looks) > 5

    def test_a_part_that_was_never_seen_is_missed_once_the_port_is_open(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_watch, "_UNIT_INTERVAL", 0.05)
        monkeypatch.setattr(_watch, "_PARTS_INTERVAL", 0.1)
        monkeypatch.setattr(parts, "UP_SECONDS", 0.5)
        node = ScriptedNode(titles=["sglang::scheduler"])
        with serving(Engine(health=lambda: 503)) as web:
            outcome = watch(node, web.port)
        assert outcome.verdict == "dead"
        assert outcome.reason.startswith("its detokenizer ended")

    def test_a_death_that_the_launcher_notices_is_told_by_the_unit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the end of a part and of the unit lies a moment."""
        monkeypatch.setattr(_watch, "_UNIT_INTERVAL", 0.05)
        monkeypatch.setattr(_watch, "_PARTS_INTERVAL", 0.1)
        node = ScriptedNode(lines=raw_journal("scheduler-killed"))

        def on_show(count: int) -> None:
            node.titles = ["sglang::scheduler"] if count < 5 else []
            if count >= 6:
                node.die()

        node.on_show = on_show
        outcome = watch(node, free_port(ADDRESS))
        assert outcome.reason == "the unit is failed (failed)"
        assert outcome.cause is not None
        assert "scheduler of rank 0 was killed from outside" in outcome.cause.summary

    def test_a_start_that_cannot_succeed_is_given_up_though_it_lives(self) -> None:
        node = ScriptedNode()
        recorded = raw_journal("port-taken")
        bound = next(i for i, raw in enumerate(recorded) if "attempting to bind" in raw)
        node.journal(recorded[: bound + 2])
        begun = time.monotonic()
        outcome = watch(node, free_port(ADDRESS))
        assert time.monotonic() - begun < QUICK
        assert outcome.verdict == "dead"
        assert "cannot listen on its port" in outcome.reason
        assert outcome.cause is not None
        assert outcome.cause.signature == "port-in-use"


class TestOtherEnds:
    def test_a_wrong_key(self) -> None:
        with serving(Engine(key="right")) as web:
            outcome = watch(ScriptedNode(), web.port, key="wrong")
        assert outcome.verdict == "unauthorized"
        assert web.paths() == ["/model_info"]

    def test_the_time_is_up(self) -> None:
        begun = time.monotonic()
        outcome = watch(ScriptedNode(), free_port(ADDRESS), timeout=1.5)
        assert 1.4 < time.monotonic() - begun < 1.5 + QUICK
        assert outcome.verdict == "timeout"
        assert "port is still closed" in outcome.readiness.waiting_for()

    def test_a_node_that_is_lost_meanwhile(self) -> None:
        node = ScriptedNode()

        def on_show(count: int) -> None:
            if count == 2:
                raise NodeError("the connection is lost")

        node.on_show = on_show
        with pytest.raises(NodeError, match="lost"):
            watch(node, free_port(ADDRESS))

    def test_a_playbook_that_is_killed_takes_its_worker_along(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = ScriptedNode()
        node.on_show = lambda _count: monkeypatch.setattr(os, "getppid", lambda: 1)
        with pytest.raises(NodeError, match="was killed"):
            watch(node, free_port(ADDRESS))

    def test_systemd_does_not_answer(self) -> None:
        node = ScriptedNode()
        node.state = {}
        with pytest.raises(NodeError, match=r"systemctl says nothing about sglang\.service"):
            watch(node, free_port(ADDRESS))
