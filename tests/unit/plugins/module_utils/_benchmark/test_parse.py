# SPDX-License-Identifier: Apache-2.0
"""Runs of the load generator, recorded from real releases, to figures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import counters, parse

RECORDINGS = Path(__file__).parents[4] / "recordings/bench_serving"
SERVED = ["0.5.9-on", "0.5.10.post1-on", "0.5.12.post1-on", "0.5.23-on", "0.5.23-off"]


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", SERVED)
def test_every_release_gives_the_figures_that_it_reports_itself(name: str) -> None:
    raw = recorded(name)["raw"]
    found = parse.figures(raw)
    assert (found.completed, found.failed, found.error) == (4, 0, "")
    assert found.duration_s == pytest.approx(raw["duration"], abs=0.001)
    assert found.output_tok_s == pytest.approx(raw["output_throughput"], rel=1e-3)
    assert found.ttft_ms is not None
    assert found.ttft_ms.p50 == pytest.approx(raw["median_ttft_ms"], rel=1e-4)
    assert found.ttft_ms.p99 == pytest.approx(raw["p99_ttft_ms"], rel=1e-4)
    assert found.itl_ms is not None
    assert found.itl_ms.mean == pytest.approx(raw["mean_itl_ms"], rel=1e-4)
    assert found.itl_ms.p95 == pytest.approx(raw["p95_itl_ms"], rel=1e-4)
    assert found.request_tok_s is not None
    assert found.request_tok_s > 0


@pytest.mark.parametrize("name", SERVED)
def test_a_recording_holds_nothing_of_the_server(name: str) -> None:
    assert {"server_info", "generated_texts"}.isdisjoint(recorded(name)["raw"])


@pytest.mark.parametrize("name", SERVED)
def test_the_accept_length_is_of_this_run_alone(name: str) -> None:
    answer = recorded(name)
    found = counters.accept(answer["requests"])
    if name.endswith("off"):
        assert found is None
        return
    assert found is not None
    # A draft of 3 steps that always hits: 3 accepted, and the bonus token.
    assert found.length == 4.0
    assert found.accepted == 3 * (found.verify_steps or 0)
    assert found.source == "meta_info of 4 requests"


def raw(**change: Any) -> dict[str, Any]:
    """Two requests of 3 tokens, 2 s apart each, first token after 1 s."""
    return {
        "duration": 10.0,
        "output_lens": [3, 3],
        "ttfts": [1.0, 1.0],
        "itls": [[2.0, 2.0], [1.0, 1.0]],
        "errors": ["", ""],
        **change,
    }


def test_a_request_s_own_rate_does_not_count_the_wait_for_its_first_token() -> None:
    found = parse.figures(raw())
    assert found.request_tok_s == pytest.approx(0.75)  # the median of 0.5 and 1
    assert found.output_tok_s == pytest.approx(0.6)
    assert found.itl_ms == parse.latency([2000.0, 2000.0, 1000.0, 1000.0])


def test_answers_of_one_token_have_no_gap_between_tokens() -> None:
    found = parse.figures(raw(output_lens=[1, 1], itls=[[], []], ttfts=[0.5, 0.5]))
    assert found.itl_ms is None
    assert found.request_tok_s == pytest.approx(2.0)


def test_what_failed_is_told_and_not_counted() -> None:
    trace = "Traceback (most recent call last):\n  File x\naiohttp.ClientPayloadError: incomplete"
    found = parse.figures(raw(errors=["", trace], output_lens=[3, 0], itls=[[1.0, 1.0], []]))
    assert (found.completed, found.failed) == (1, 1)
    assert found.error == "aiohttp.ClientPayloadError: incomplete"
    assert found.output_tok_s == pytest.approx(0.3)


def test_a_stream_that_held_only_an_error_is_no_success() -> None:
    """The load generator gives it all its tokens, and no time to the first one."""
    found = parse.figures(raw(ttfts=[1.0, 0.0], itls=[[1.0, 1.0], []]))
    assert (found.completed, found.failed) == (1, 1)
    assert found.error == "the answer held not one token"


def test_nothing_completed_gives_no_figures() -> None:
    found = parse.figures(raw(errors=["x", "y"]))
    assert (found.completed, found.failed) == (0, 2)
    assert (found.output_tok_s, found.request_tok_s, found.ttft_ms) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"duration": 0}, "took 0"),
        ({"duration": "long"}, "cannot be read"),
        ({"itls": [[1.0]]}, "cannot be read"),
        ({"ttfts": None}, "cannot be read"),
    ],
)
def test_other_output_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(parse.ParseError, match=why):
        parse.figures(raw(**change))


def test_output_without_details_is_refused() -> None:
    short = raw()
    del short["itls"]
    with pytest.raises(parse.ParseError, match="has no 'itls'"):
        parse.figures(short)


def test_percentiles_are_linear_between_ranks() -> None:
    found = parse.latency([float(number) for number in range(1, 101)])
    assert found is not None
    assert (found.mean, found.p50) == (50.5, 50.5)
    assert math.isclose(found.p95, 95.05)
    assert math.isclose(found.p99, 99.01)
    assert parse.latency([]) is None
