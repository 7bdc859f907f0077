# SPDX-License-Identifier: Apache-2.0
"""The gate's further checks over a real HTTP server that answers as the real engine did."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine import gate_more
from ansible_collections.sm120.sglang.plugins.module_utils._engine.accept_length import PROMPTS
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import Check, KnownAnswer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gpu_memory import (
    GpuMemory,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_more_run import (
    MoreChecks,
    MorePlan,
    Subject,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_run import GatePlan, GateRun
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

from tests.unit.plugins.module_utils._engine.recordings import exchanges
from tests.unit.plugins.plugin_utils.gate_engine import (
    ALL,
    COUNTING,
    FURTHER,
    GPUS,
    SERVER,
    Engine,
    answer,
    cached,
    call,
    checks,
)
from tests.unit.plugins.plugin_utils.scripted import ScriptedNode
from tests.unit.plugins.plugin_utils.web import ADDRESS, running_web


def test_an_engine_that_can_everything_passes() -> None:
    found, seen = checks(Engine())
    assert list(found)[-len(FURTHER) :] == list(FURTHER)
    assert {found[name].verdict for name in FURTHER} == {"ok"}
    assert found["kv_tokens"].value == SERVER["max_total_num_tokens"]
    long = [
        body["messages"][0]["content"]
        for path, body in seen
        if path == "/v1/chat/completions" and str(body["messages"][0]["content"]).endswith("count.")
    ]
    # The short question, then twice the same long one.
    assert len(long) == 3
    assert long[1] == long[2] != long[0]
    assert len(long[1]) > 300
    pictures = [body for path, body in seen if "image_url" in str(body)]
    assert len(pictures) == 1
    temperatures = [
        body["sampling_params"]["temperature"] for path, body in seen if path == "/generate"
    ]
    assert temperatures.count(0.8) == 1


def test_what_is_not_asked_for_says_why_it_was_left_out() -> None:
    found, _seen = checks(Engine(tool_call_parser=None, reasoning_parser=None), MorePlan())
    made = ("server_info", "kv_tokens")
    left_out = {name: found[name] for name in FURTHER if name not in made}
    assert {check.verdict for check in left_out.values()} == {"skipped"}
    assert all(check.evidence for check in left_out.values())
    assert {found[name].verdict for name in made} == {"ok"}
    nothing, _seen = checks(Engine(disable_radix_cache=True), gpus=GpuMemory())
    assert nothing["repeated_prompt"].evidence == "the engine runs without a prefix cache"
    assert nothing["gpu_memory"].evidence == "there is no nvidia-smi on this node"


def test_the_long_prompt_leaves_room_for_a_whole_answer() -> None:
    """The engine refuses a request whose prompt and answer together do not fit its context."""
    thinking = KnownAnswer(COUNTING.prompt, COUNTING.messages, 512, COUNTING.expect)
    context = 2048
    plan = MorePlan(long_prompt_tokens=100_000)
    _found, seen = checks(Engine(context_length=context), plan, known_answer=thinking)
    long = [body for path, body in seen if path == "/v1/chat/completions"][-1]
    recorded = exchanges("http-hit")["generate_0"]
    per_token = recorded["body"]["meta_info"]["prompt_tokens"]
    characters = len(long["messages"][0]["content"])
    prompts = [body["text"] for path, body in seen if path == "/generate"]
    assert characters > 4000
    assert characters / (len(prompts[0]) / per_token) + long["max_tokens"] < context


def no_long_ones(body: dict[str, Any]) -> tuple[int, Any]:
    if len(str(body["messages"])) > 300:
        return 500, {"error": {"message": "out of resource: shared memory"}}
    return 200, exchanges("http-hit")["chat_counting"]["body"]


def garbage_for_long_ones(body: dict[str, Any]) -> tuple[int, Any]:
    long = len(str(body["messages"])) > 300
    return 200, answer("!!!!!!") if long else exchanges("http-hit")["chat_counting"]["body"]


def no_pictures(body: dict[str, Any]) -> tuple[int, Any]:
    if "image_url" in str(body):
        return 400, {"error": {"message": "no processor"}}
    if body.get("tools"):
        return 200, call('{"city": "Paris"}')
    return 200, exchanges("http-hit")["chat_counting"]["body"]


def thinking_aloud(_body: dict[str, Any]) -> tuple[int, Any]:
    return 200, answer("</think> one two three")


def no_sampling(body: dict[str, Any]) -> tuple[int, Any]:
    if body["sampling_params"]["temperature"] > 0:
        return 500, {"error": {"message": "nvcc not found"}}
    return 200, exchanges("http-hit")["generate_0"]["body"]


def one_at_a_time(body: dict[str, Any]) -> tuple[int, Any]:
    if body["text"].startswith("1. "):
        return 503, {"error": {"message": "queue full"}}
    return 200, exchanges("http-hit")["generate_0"]["body"]


@pytest.mark.parametrize(
    ("engine", "broken", "evidence"),
    [
        (Engine(max_total_num_tokens=4000), "kv_tokens", "smaller than wanted"),
        (Engine(chat=thinking_aloud), "reasoning", "</think>"),
        (Engine(generate=no_sampling), "sampling", "nvcc not found"),
        (Engine(chat=no_long_ones), "long_prompt", "shared memory"),
        (Engine(chat=garbage_for_long_ones), "long_prompt", "prompt tokens"),
        (Engine(generate=one_at_a_time), "concurrency", "queue full"),
        (Engine(chat=no_pictures), "image", "no processor"),
    ],
    ids=["kv", "reasoning", "sampling", "long", "garbage", "burst", "image"],
)
def test_what_is_broken_fails_with_its_evidence_and_ends_the_checks(
    engine: Engine, broken: str, evidence: str
) -> None:
    found, _seen = checks(engine)
    assert [name for name in FURTHER if found[name].verdict == "fail"] == [broken]
    assert evidence in found[broken].evidence
    assert found[broken].remedy
    for name in FURTHER[FURTHER.index(broken) + 1 :]:
        assert found[name].verdict == "skipped"
        assert found[name].evidence == f"not made after the failure of {broken}"


@pytest.mark.parametrize(
    ("reply", "verdict", "value"),
    [
        (call('{"city": "Paris"}'), "ok", None),
        (call("{city"), "fail", "malformed"),
        (call('{"city": "Paris"}', "other"), "fail", "malformed"),
        (answer("<|tool_calls_section_begin|>"), "fail", "unparsed"),
        (answer("It is sunny."), "warn", "no call, finish reason stop"),
    ],
)
def test_a_tool_call(reply: dict[str, Any], verdict: str, value: str | None) -> None:
    def chat(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, reply if body.get("tools") else exchanges("http-hit")["chat_counting"]["body"]

    found, _seen = checks(Engine(chat=chat))
    assert (found["tool_call"].verdict, found["tool_call"].value) == (verdict, value)


@pytest.mark.parametrize(
    ("tokens", "verdict", "value"),
    [
        (99, "ok", None),
        (0, "warn", "0 cached tokens"),
        (2, "warn", "2 cached tokens"),  # what all prompts begin with
        (None, "fail", "absent"),
    ],
)
def test_the_prefix_cache_is_asked_where_it_answers_whatever_the_launch(
    tokens: int | None, verdict: str, value: str | None
) -> None:
    """The recorded chat answer says nothing of it, as without `--enable-cache-report`."""
    found, seen = checks(Engine(generate=lambda _body: (200, cached(tokens))))
    check = found["repeated_prompt"]
    assert check.verdict == verdict
    assert value is None or check.value == value
    assert verdict == "ok" or check.remedy
    assert tokens is None or f"{tokens} of 100 prompt tokens" in check.evidence
    sent = [body["text"] for path, body in seen if path == "/generate"]
    long = [text for text in sent if "padding" in text]
    assert len(long) == 2
    assert len(set(long)) == 1


def test_a_prefix_that_is_asked_for_and_refused_fails() -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, Any]:
        return (500, "oom") if "padding" in body["text"] else (200, cached(0))

    found, _seen = checks(Engine(generate=refuse))
    assert (found["repeated_prompt"].verdict, found["repeated_prompt"].value) == ("fail", "absent")
    assert "HTTP 500 oom" in found["repeated_prompt"].evidence


@pytest.mark.parametrize(("tokens", "verdict"), [(8, "ok"), (0, "warn")])
def test_an_engine_that_reports_it_with_the_answer_is_not_asked_again(
    tokens: int, verdict: str
) -> None:
    def chat(body: dict[str, Any]) -> tuple[int, Any]:
        reply = json.loads(json.dumps(exchanges("http-hit")["chat_counting"]["body"]))
        reply["usage"] |= {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": tokens}}
        return 200, call('{"city": "x"}') if body.get("tools") else reply

    found, seen = checks(Engine(chat=chat))
    assert found["repeated_prompt"].verdict == verdict
    assert [body for path, body in seen if path == "/generate" and "padding" in body["text"]] == []


@pytest.mark.parametrize(
    ("messages", "padded"),
    [
        ([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], 1),
        ([{"role": "user", "content": [{"type": "text", "text": "q"}]}], 0),
        ([{"role": "system", "content": "q"}], 0),
    ],
    ids=["text", "parts", "no user"],
)
def test_a_long_prompt_is_long_however_the_question_is_written(
    messages: list[dict[str, Any]], padded: int
) -> None:
    question = KnownAnswer(messages=tuple(messages), expect="x")
    long = gate_more.padded(question, "PADDING")
    with_padding = [number for number, one in enumerate(long.messages) if "PADDING" in str(one)]
    assert with_padding == [padded]
    assert "q" in str(long.messages[padded]["content"])
    assert "PADDING" not in str(messages), "the question itself stays short"
    assert (long.expect, long.max_tokens) == (question.expect, question.max_tokens)


def test_little_gpu_memory_warns() -> None:
    found, _seen = checks(Engine(), MorePlan(gpu_free_mib=40_000))
    assert found["gpu_memory"].verdict == "warn"
    assert found["gpu_memory"].value == "35610 MiB free"


def test_a_floor_for_a_size_that_the_engine_does_not_name_is_not_kept() -> None:
    found, _seen = checks(Engine(max_total_num_tokens=None), MorePlan(kv_tokens=1))
    assert (found["kv_tokens"].verdict, found["kv_tokens"].value) == ("fail", "absent")
    found, _seen = checks(Engine(max_total_num_tokens=None), MorePlan())
    assert found["kv_tokens"].verdict == "skipped"


@pytest.mark.parametrize("status", [404, 500])
def test_an_engine_that_does_not_say_what_it_runs_with_is_not_taken_for_one_without_parsers(
    status: int,
) -> None:
    engine = Engine()
    engine.status = status
    found, _seen = checks(engine)
    assert [name for name in FURTHER if found[name].verdict == "fail"] == ["server_info"]
    assert found["server_info"].value == status
    assert "nothing that depends on it" in found["server_info"].remedy
    others = {found[name].evidence for name in FURTHER[1:]}
    assert others == {"not made after the failure of server_info"}


def test_a_question_for_the_native_interface_leaves_the_reasoning_parser_to_be_checked() -> None:
    plain = KnownAnswer(prompt="one two", expect=" three")
    found, seen = checks(Engine(), known_answer=plain)
    assert found["reasoning"].verdict == "ok"
    assert "chat" in next(path for path, body in seen if body and body.get("max_tokens") == 512)
    broken, _seen = checks(Engine(chat=lambda _body: (500, "x")), known_answer=plain)
    assert broken["reasoning"].verdict == "fail"
    assert broken["reasoning"].evidence == "HTTP 500 x"


def test_when_the_time_is_over_what_was_asked_for_fails_and_names_the_limit() -> None:
    found, seen = checks(Engine(), timeout=0.0, speculative=False)
    failed = found["server_info"]
    assert (failed.verdict, failed.value) == ("fail", "not made")
    assert failed.evidence == "the gate's 0 s are over"
    assert "health_gate_checks_timeout" in failed.remedy
    assert {found[name].verdict for name in FURTHER[1:]} == {"skipped"}
    assert "/server_info" not in [path for path, _body in seen]


@pytest.mark.parametrize("last", ["sampling", "tool_call"])
def test_time_that_ends_between_two_checks_fails_the_next_one_that_is_wanted(last: str) -> None:
    """Not one that is left out, and not one that asks the engine nothing."""
    plan = replace(ALL, image=False) if last == "tool_call" else ALL
    made: dict[str, Check] = {}
    over = False

    def add(check: Check) -> bool:
        nonlocal over
        made[check.id] = check
        over = over or check.id == last
        return check.verdict != "fail"

    node = ScriptedNode()
    with running_web(Engine()) as web:
        run = GateRun(
            reader=UnitReader(node, "sglang.service"),
            http=EngineHTTP(node.http(), ADDRESS, web.port, "k"),
            plan=GatePlan(known_answer=COUNTING, more=plan),
            say=lambda _seconds, _text: None,
        )
        answer = run.chat(COUNTING.messages, 16)
        model = exchanges("http-hit")["model_info"]["body"]
        subject = Subject(model, COUNTING, answer, 4.0, PROMPTS)
        MoreChecks(plan, run, subject, lambda: GPUS).run(add, lambda: 0.0 if over else 1.0, 60)
    failed = [check for check in made.values() if check.verdict == "fail"]
    if last == "tool_call":
        assert failed == []
        assert made["gpu_memory"].verdict == "ok"
    else:
        assert [check.id for check in failed] == ["long_prompt"]
        assert failed[0].evidence == "the gate's 60 s are over"


def test_a_request_that_is_given_up_names_its_limit() -> None:
    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        if body["sampling_params"]["temperature"] > 0:
            time.sleep(1.5)
        return 200, exchanges("http-hit")["generate_0"]["body"]

    found, _seen = checks(Engine(generate=slow), request_timeout=0.5)
    assert found["sampling"].verdict == "fail"
    assert found["sampling"].evidence.endswith("no answer within 0.5 s")
    assert "more than 0.5 s: health_gate_request_timeout" in found["sampling"].remedy
