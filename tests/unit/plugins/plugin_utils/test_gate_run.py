# SPDX-License-Identifier: Apache-2.0
"""The gate's requests, answered by a real HTTP server with what the real engine once said."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    KnownAnswer,
    gate_message,
    overall,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_more_run import MorePlan
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_run import GatePlan, GateRun
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Completed, NodeError
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

from tests.unit.plugins.module_utils._engine.recordings import exchanges, raw_journal
from tests.unit.plugins.plugin_utils.gate_engine import EXCHANGES
from tests.unit.plugins.plugin_utils.scripted import ScriptedNode
from tests.unit.plugins.plugin_utils.sshd import free_port
from tests.unit.plugins.plugin_utils.web import ADDRESS, Web, running_web

COUNTING = KnownAnswer(
    messages=({"role": "user", "content": "Please count."},), expect=" one two three"
)


class Recorded:
    """Answers each path with what was recorded; `over` replaces some."""

    def __init__(self, name: str, **over: Any) -> None:
        self._exchanges = exchanges(name)
        self._over = over

    def __call__(self, path: str, _body: Any, _headers: dict[str, str]) -> tuple[int, Any]:
        name = {**EXCHANGES, "/server_info": "server_info"}[path]
        if name in self._over:
            replaced = self._over[name]
            answer: tuple[int, Any] = replaced() if callable(replaced) else replaced
            return answer
        one = self._exchanges[name]
        return one["status"], one["body"]


def gate(
    node: ScriptedNode, port: int, said: list[str] | None = None, **plan: Any
) -> tuple[GateRun, dict[str, str]]:
    told = said if said is not None else []
    run = GateRun(
        reader=UnitReader(node, "sglang.service"),
        http=EngineHTTP(node.http(), ADDRESS, port, "k"),
        plan=GatePlan(**{"known_answer": COUNTING, "min_verify_steps": 20, **plan}),
        say=lambda _seconds, text: told.append(text),
    )
    return run, {check.id: check.verdict for check in run.run()}


def paths(web: Web) -> Counter[str]:
    return Counter(web.paths())


def test_a_draft_that_hits_passes() -> None:
    said: list[str] = []
    with running_web(Recorded("http-hit")) as web:
        run, verdicts = gate(ScriptedNode(), web.port, said)
    assert verdicts == dict.fromkeys(
        ("unit", "port", "model_info", "readiness", "known_answer", "accept_length"), "ok"
    )
    assert run.measured.steps >= 20
    assert paths(web)["/health"] == paths(web)["/v1/chat/completions"] == 1
    assert len(said) == 6
    sampling = [body["sampling_params"] for path, body in web.seen if path == "/generate"]
    assert all(one["temperature"] == 0 and one["ignore_eos"] for one in sampling)


def test_a_draft_that_never_hits_fails_while_all_else_is_green() -> None:
    with running_web(Recorded("http-miss")) as web:
        run, verdicts = gate(ScriptedNode(), web.port)
    assert verdicts["known_answer"] == "ok"
    assert verdicts["accept_length"] == "fail"
    assert gate_message("n", run.checks).splitlines()[1].startswith("FAIL accept_length 1.0")


def test_quick_makes_one_request_of_each_kind() -> None:
    node = ScriptedNode()
    with running_web(Recorded("http-hit")) as web:
        _run, verdicts = gate(node, web.port, quick=True)
    assert set(verdicts.values()) == {"ok"}
    assert web.paths() == ["/model_info", "/ready", "/health", "/v1/chat/completions"]
    assert len(node.commands) == 1


@pytest.mark.parametrize(
    ("plan", "path", "body"),
    [
        (
            {"known_answer": KnownAnswer(prompt="one", expect=" "), "quick": True},
            "/generate",
            {"text": "one", "max_new_tokens": 16, "ignore_eos": False},
        ),
        (
            {"known_answer": None, "quick": True},
            "/v1/chat/completions",
            {"model": "/var/lib/sglang/models/target", "max_tokens": 8},
        ),
        (
            {"model": "kimi", "quick": True},
            "/v1/chat/completions",
            {"model": "kimi", "max_tokens": 16},
        ),
    ],
)
def test_what_is_asked(plan: dict[str, Any], path: str, body: dict[str, Any]) -> None:
    with running_web(Recorded("http-hit")) as web:
        gate(ScriptedNode(), web.port, **plan)
    asked_path, asked = web.seen[-1]
    assert asked_path == path
    flat = {**asked, **asked.get("sampling_params", {})}
    assert body.items() <= flat.items()
    assert flat["temperature"] == 0


def test_a_wrong_answer_does_not_hide_the_other_checks() -> None:
    wanted = KnownAnswer(messages=COUNTING.messages, expect="Paris")
    with running_web(Recorded("http-hit")) as web:
        run, verdicts = gate(ScriptedNode(), web.port, known_answer=wanted)
    assert verdicts["known_answer"] == "fail"
    assert verdicts["accept_length"] == "ok"
    assert overall(run.checks) == "fail"


def test_without_speculation_no_accept_length_is_wanted() -> None:
    with running_web(Recorded("http-hit")) as web:
        _run, verdicts = gate(ScriptedNode(), web.port, speculative=False)
    assert "accept_length" not in verdicts
    assert paths(web)["/generate"] == 0


def test_no_figures_fail_after_one_request() -> None:
    bare = {"text": "x", "meta_info": {"completion_tokens": 8, "finish_reason": {"type": "length"}}}
    with running_web(Recorded("http-hit", generate_0=(200, bare))) as web:
        run, verdicts = gate(ScriptedNode(), web.port)
    assert verdicts["accept_length"] == "fail"
    assert run.checks[-1].value == "absent"
    assert paths(web)["/generate"] == 1


@pytest.mark.parametrize(
    ("over", "stopped_at"),
    [
        ({"model_info": (401, {"error": "Unauthorized"})}, "model_info"),
        ({"ready_404": (503, ""), "health": (503, "")}, "readiness"),
    ],
)
def test_an_engine_that_cannot_answer_is_not_asked_more(
    over: dict[str, Any], stopped_at: str
) -> None:
    with running_web(Recorded("http-hit", **over)) as web:
        run, verdicts = gate(ScriptedNode(), web.port)
    assert verdicts[stopped_at] == "fail"
    assert run.checks[-1].id == stopped_at
    assert paths(web)["/v1/chat/completions"] == 0


def test_a_closed_port_is_told_as_that() -> None:
    port = free_port(ADDRESS)
    run, verdicts = gate(ScriptedNode(), port)
    assert verdicts == {"unit": "ok", "port": "fail"}
    assert run.checks[-1].evidence == f"{ADDRESS}:{port}: connection refused"
    assert "host and port" in run.checks[-1].remedy


def test_a_unit_that_is_dead_is_explained() -> None:
    node = ScriptedNode(lines=raw_journal("context-refused"))
    node.die()
    run, verdicts = gate(node, free_port(ADDRESS))
    assert verdicts == {"unit": "fail"}
    assert "context_length (2048)" in run.checks[0].evidence
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" in run.checks[0].remedy


def test_an_engine_that_dies_under_the_completion_is_explained() -> None:
    node = ScriptedNode(lines=raw_journal("no-compiler"))

    def die() -> tuple[int, Any]:
        node.die()
        return 500, "Internal Server Error"

    with running_web(Recorded("http-hit", chat_counting=die)) as web:
        run, verdicts = gate(node, web.port, speculative=False)
    assert verdicts["known_answer"] == verdicts["unit"] == "fail"
    assert "No working C++ compiler" in run.checks[0].evidence
    assert "g++" in run.checks[0].remedy


def test_an_engine_that_restarts_under_the_checks_fails() -> None:
    node = ScriptedNode(lines=raw_journal("unpatched"))

    def restart() -> tuple[int, Any]:
        node.state |= {"InvocationID": "bb22", "MainPID": "4343"}
        return 500, ""

    with running_web(Recorded("http-hit", chat_counting=restart)) as web:
        run, _verdicts = gate(node, web.port, speculative=False)
    assert run.checks[0].value == "restarted"
    assert "4242 before" in run.checks[0].evidence


def test_a_hang_ends_with_the_requests_limit() -> None:
    def hang() -> tuple[int, Any]:
        time.sleep(3)
        return 200, ""

    with running_web(Recorded("http-hit", chat_counting=hang)) as web:
        begun = time.monotonic()
        run, verdicts = gate(ScriptedNode(), web.port, request_timeout=0.3)
        assert time.monotonic() - begun < 2.5
    assert verdicts["known_answer"] == "fail"
    assert run.checks[-1].evidence == "no answer within 0.3 s"
    assert "more than 0.3 s: health_gate_request_timeout" in run.checks[-1].remedy
    assert "accept_length" not in verdicts


def test_steps_are_gathered_over_as_many_requests_as_it_takes() -> None:
    with running_web(Recorded("http-hit")) as web:
        run, verdicts = gate(ScriptedNode(), web.port, min_verify_steps=500)
    assert verdicts["accept_length"] == "ok"
    assert run.measured.steps >= 500
    assert paths(web)["/generate"] > 32


def test_when_the_time_is_over_before_the_steps_the_limit_is_named() -> None:
    with running_web(Recorded("http-hit")) as web:
        run, verdicts = gate(ScriptedNode(), web.port, timeout=0.5, min_verify_steps=10**9)
    assert verdicts["accept_length"] == "fail"
    assert "1000000000 are wanted; the gate's 0.5 s are over" in run.checks[-1].evidence
    assert "health_gate_checks_timeout" in run.checks[-1].remedy
    assert "health_gate_verify_steps" in run.checks[-1].remedy
    with running_web(Recorded("http-hit")) as web:
        run, verdicts = gate(ScriptedNode(), web.port, timeout=0.0)
    assert (run.checks[-1].verdict, run.checks[-1].value) == ("fail", "absent")
    assert "the gate's 0 s are over" in run.checks[-1].evidence


def test_an_accept_length_is_no_word_for_a_request_that_failed_behind_it() -> None:
    """The first requests were answered well, the next one is refused."""
    asked = 0

    def one_then_none() -> tuple[int, Any]:
        nonlocal asked
        asked += 1
        one = exchanges("http-hit")["generate_0"]
        return (one["status"], one["body"]) if asked == 1 else (500, {"error": {"message": "oom"}})

    with running_web(Recorded("http-hit", generate_0=one_then_none)) as web:
        run, verdicts = gate(ScriptedNode(), web.port, min_verify_steps=40)
    assert verdicts["accept_length"] == "fail"
    assert run.checks[-1].value > 3
    assert run.checks[-1].evidence.endswith("40 are wanted; HTTP 500 oom")
    assert "requests fail" in run.checks[-1].remedy


class CutNode(ScriptedNode):
    """A node whose line is cut at some moment."""

    cut = False

    def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
        if self.cut:
            raise NodeError("the SSH connection to n is lost: EOF")
        return super()._run(argv, given, timeout)


# Checks whose first request is not the one that is cut.
LATE = ("accept_length", "sampling")


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("model_info", "model_info"),
        ("ready_404", "readiness"),
        ("health", "readiness"),
        ("chat_counting", "known_answer"),
        ("generate_0", "accept_length"),
        ("generate_later", "accept_length"),
        ("generate_last", "sampling"),
    ],
)
def test_a_cut_line_fails_no_check_whichever_question_it_ends(name: str, check: str) -> None:
    """The request itself ends as it does when the engine dies."""
    node = CutNode()
    generated = 0

    def cut() -> tuple[int, Any]:
        node.cut = True
        raise ConnectionAbortedError  # the server's side of it

    def generate() -> tuple[int, Any]:
        nonlocal generated
        generated += 1
        one = exchanges("http-hit")["generate_0"]
        meta = one["body"]["meta_info"]
        late = {"generate_later": 2, "generate_last": 3}.get(name, 1)
        if generated == late:
            return cut()
        # Each of two requests has half of the steps that are wanted.
        body = {**one["body"], "meta_info": {**meta, "spec_verify_ct": 10}}
        return one["status"], body

    over: dict[str, Any] = {"generate_0": generate} if check in LATE else {name: cut}
    said: list[str] = []
    with running_web(Recorded("http-hit", **over)) as web, pytest.raises(NodeError) as lost:
        gate(node, web.port, said, more=MorePlan(sampling=True))
    assert f"the SSH connection to n is lost: EOF. Not judged: {check} (" in str(lost.value)
    assert "ConnectionError" in str(lost.value)
    assert [line.split()[0] for line in said if not line.startswith(("OK ", "SKIPPED "))] == ["NO"]
    assert said[-1].startswith(f"NO VERDICT {check}: ConnectionError")


def test_an_engine_that_ends_a_request_while_its_node_can_be_asked_fails() -> None:
    def abort() -> tuple[int, Any]:
        raise ConnectionAbortedError

    with running_web(Recorded("http-hit", generate_0=abort)) as web:
        run, verdicts = gate(CutNode(), web.port)
    assert verdicts["accept_length"] == "fail"
    assert "ConnectionError" in run.checks[-1].evidence
