# SPDX-License-Identifier: Apache-2.0
"""Journal lines: parsing, phases over real starts, and no secret in anything shown."""

from __future__ import annotations

import json

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import (
    HIDDEN,
    PHASES,
    Line,
    PhaseTracker,
    Progress,
    parse_line,
    parse_lines,
    redact,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.recordings import journal, raw_journal

BAR = b"\rLoading safetensors checkpoint shards:  50% Completed | 32/64 [00:10<00:10]\n"


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {"MESSAGE": "hello ", "_PID": "73", "__REALTIME_TIMESTAMP": "1795970817500000"},
            Line("hello", 73, 1795970817.5, manager=False),
        ),
        ({"MESSAGE": [*BAR], "_PID": "5"}, Line(BAR.decode().strip(), 5)),
        ({"MESSAGE": [*b"\rold 1%\rnew 2%\r"]}, Line("new 2%")),
        ({"MESSAGE": ["first", "second"]}, Line("second")),
        ({"MESSAGE": [0xFF, 0x61]}, Line("\ufffda")),
        ({"MESSAGE": ""}, Line("")),
        ({"MESSAGE": "Started", "_PID": "1"}, Line("Started", 1, manager=True)),
        ({"MESSAGE": "x", "_PID": None, "__REALTIME_TIMESTAMP": "?"}, Line("x")),
        ({"MESSAGE": None}, None),
        ({"_PID": "1"}, None),
        ([], None),
    ],
)
def test_entries(entry: object, line: Line | None) -> None:
    assert parse_line(json.dumps(entry)) == line


def test_a_torn_entry_is_left_out() -> None:
    assert parse_line('{"MESSAGE": "half') is None


@given(st.text())
def test_any_text_parses_or_not(text: str) -> None:
    parse_line(text)


def test_the_engines_dump_of_its_arguments_is_not_read() -> None:
    """journalctl leaves out fields over 4096 bytes; that dump holds the API key."""
    raw = raw_journal("served-and-stopped")
    assert any(json.loads(line)["MESSAGE"] is None for line in raw)
    assert not any("server_args=" in line.text for line in parse_lines(raw))


@pytest.mark.parametrize(
    ("text", "message", "rank"),
    [
        ("[2026-11-29 16:50:58 TP1] Load weight begin.", "Load weight begin.", "TP1"),
        ("[2026-11-29 16:50:58 DP0 TP3] x", "x", "DP0 TP3"),
        ("[2026-11-29 16:50:58] x", "x", ""),
        ("plain [2026-11-29 16:50:58] x", "plain [2026-11-29 16:50:58] x", ""),
    ],
)
def test_the_engines_prefix(text: str, message: str, rank: str) -> None:
    line = Line(text)
    assert (line.message, line.rank) == (message, rank)
    assert line.stamped is (message != text)


def told(recording: str) -> list[str]:
    tracker = PhaseTracker()
    return [str(seen) for line in journal(recording) if (seen := tracker.feed(line))]


def test_phases_of_a_start_that_serves() -> None:
    assert told("served-and-stopped") == [
        "loading weights",
        "loading weights: 0%",
        "loading weights: 100%",
        "KV cache allocated: 4096 tokens",
        "draft model: loading weights",
        "draft model: loading weights: 0%",
        "draft model: loading weights: 100%",
        "draft model: KV cache allocated: 4096 tokens",
        "warming up",
        "ready",
    ]


def test_phases_of_two_ranks_are_told_once() -> None:
    assert told("unpatched-tp2") == [
        "loading weights",
        "loading weights: 0%",
        "loading weights: 100%",
        "KV cache allocated: 4096 tokens",
    ]


def test_durations_add_up_to_the_whole_start() -> None:
    lines, tracker = journal("served-and-stopped"), PhaseTracker()
    for line in lines:
        tracker.feed(line)
    start, end = lines[0].time, tracker.times["ready"]
    durations = tracker.durations(start, end)
    assert list(durations) == ["starting", "loading", "memory", "draft", "warmup"]
    assert sum(durations.values()) == pytest.approx(end - start, abs=0.5)
    assert durations["starting"] > 10


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        # 0.5.9 model_executor/cuda_graph_runner.py, 0.5.23 runner messages
        ("Capture cuda graph begin. This can take up to several minutes.", Progress("graphs", "")),
        ("Capture draft cuda graph begin. avail", Progress("graphs", "draft")),
        ("Capture draft extend CUDA graph begin. backend=x", Progress("graphs", "draft extend")),
        ("Capture cuda graph bs [1, 2, 4]", Progress("graphs", "")),
        (
            "Capturing batches (bs=8 avail_mem=9.62 GB):  25%|##5  | 2/8 [00:01<00:05]",
            Progress("graphs", "25%"),
        ),
        ("Running FlashInfer autotune with cache: /x", Progress("compiling", "")),
        (
            "Multi-thread loading shards:  40% Completed | 4/10 [00:01<00:01]",
            Progress("loading", "40%"),
        ),
        ("INFO:     Uvicorn running on http://127.0.0.1:30000", Progress("warmup", "")),
        ("Decode batch. #running-req: 1", None),
        ("Capture cuda graph end. Time elapsed: 9.9 s.", None),
    ],
)
def test_telltales(text: str, progress: Progress | None) -> None:
    assert PhaseTracker().feed(Line(f"[2026-11-29 16:50:58] {text}")) == progress


def test_systemds_words_are_no_progress() -> None:
    assert PhaseTracker().feed(Line("Load weight begin", manager=True)) is None


def test_every_phase_has_words() -> None:
    assert all(str(Progress(phase)) for phase in PHASES)


@pytest.mark.parametrize(
    "text",
    [
        "ServerArgs(api_key='{}', admin_api_key=None)",
        'api_key="{}"',
        "--api-key {}",
        "--api-key={} --port 1",
        "--admin-api-key '{}'",
        "Authorization: Bearer {}",
        "HF_TOKEN={}",
        '{{"ssl_keyfile_password": "{}"}}',
        "hub_token: {}",
        "x {} y",
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    secret = "s3cr3t-Value_42"
    known = [secret] if text.startswith("x ") else []
    shown = redact(text.format(secret), known)
    assert secret not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "api_key=None, admin_api_key=None",
        "the API key given here is not the one it was started with",
        "max_new_tokens=16, tokenizer_path='/x'",
        "a secret garden",
        "Decode batch, #token: 12, token usage: 0.01",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@given(st.text(min_size=4), st.text(), st.text())
def test_a_known_secret_never_survives(secret: str, before: str, after: str) -> None:
    shown = redact(before + secret + after, [secret])
    assert secret not in shown.replace(HIDDEN, "") or secret in HIDDEN


@given(st.text())
def test_hiding_twice_hides_no_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)
