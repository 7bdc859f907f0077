# SPDX-License-Identifier: Apache-2.0
"""The accept length of what the real engine answered, and of what it never should."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.accept_length import (
    Speculation,
    judge_accept_length,
    next_length,
    out_of_time,
    speculation,
    without_steps,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.recordings import generated, recorded


def test_of_a_real_draft_that_hits() -> None:
    measured = speculation(recorded("http-hit"))
    assert measured.accept_length == pytest.approx(4.0, abs=0.35)
    assert measured.steps >= 20
    check = judge_accept_length(measured, min_steps=20, warn=2.0, fail=1.2)
    assert check.verdict == "ok"


def test_of_a_real_draft_that_never_hits() -> None:
    measured = speculation(recorded("http-miss"))
    assert measured.accept_length == 1.0
    check = judge_accept_length(measured, min_steps=10, warn=2.0, fail=1.2)
    assert (check.verdict, check.value, check.limit) == ("fail", 1.0, 1.2)
    assert "pairing" in check.remedy


def test_the_engines_own_figure_would_hide_it() -> None:
    """It counts the token of the prefill as an accepted one."""
    body = next(
        one.body for one in recorded("http-miss") if "spec_accept_length" in one.body["meta_info"]
    )
    assert body["meta_info"]["spec_accept_length"] > 1.0


@pytest.mark.parametrize(
    ("meta", "length"),
    [
        # 0.5.9 and 0.5.10.post1
        ({"spec_accept_token_num": 0, "spec_verify_ct": 7, "spec_accept_length": 1.14}, 1.0),
        ({"spec_accept_token_num": 21, "spec_verify_ct": 7}, 4.0),
        # 0.5.11
        ({"spec_accepted_drafts": 7, "spec_verify_ct": 7}, 2.0),
        # 0.5.12 to 0.5.23; the first of them have 0.5.11's name as well
        ({"spec_num_correct_drafts": 14, "spec_accepted_drafts": 14, "spec_verify_ct": 7}, 3.0),
        ({"spec_num_correct_drafts": 14, "spec_verify_ct": 7}, 3.0),
        # a figure under another name is not one
        ({"spec_accept_length": 3.9, "spec_verify_ct": 7}, None),
        ({"spec_num_correct_drafts": 3, "spec_verify_ct": 0}, None),
        ({"spec_num_correct_drafts": 3}, None),
        ({}, None),
    ],
)
def test_of_each_release(meta: dict[str, Any], length: float | None) -> None:
    assert speculation([generated(meta)]).accept_length == length


def test_requests_are_weighted_by_their_steps() -> None:
    few = generated({"spec_num_correct_drafts": 3, "spec_verify_ct": 1})
    many = generated({"spec_num_correct_drafts": 0, "spec_verify_ct": 9})
    assert speculation([few, many]).accept_length == pytest.approx(1.3)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), min_size=1))
def test_lies_between_one_and_the_drafts_depth(rows: list[tuple[int, int]]) -> None:
    measured = speculation(
        generated({"spec_accept_token_num": hits * steps, "spec_verify_ct": steps})
        for hits, steps in rows
    )
    assert measured.accept_length is not None
    assert 1.0 <= measured.accept_length <= 4.0


@pytest.mark.parametrize(
    ("accepted", "steps", "verdict"),
    [
        (40, 40, "ok"),  # 2.0
        (39, 40, "warn"),  # 1.975
        (8, 40, "warn"),  # 1.2
        (7, 40, "fail"),  # 1.175
        (0, 40, "fail"),
        (0, 39, "fail"),  # too few steps to say anything
        (120, 39, "fail"),
    ],
)
def test_floors(accepted: int, steps: int, verdict: str) -> None:
    measured = Speculation(accepted, steps, 100, 2, 2)
    check = judge_accept_length(measured, min_steps=40, warn=2.0, fail=1.2)
    assert check.verdict == verdict
    assert str(steps) in check.evidence


def test_absent_is_a_failure_and_not_a_value() -> None:
    check = judge_accept_length(Speculation(tokens=8, requests=1), min_steps=40, warn=2.0, fail=1.2)
    assert (check.verdict, check.value) == ("fail", "absent")
    assert "1 requests, 8 tokens" in check.evidence
    assert "speculation is off" in check.remedy


def test_too_few_steps_fail_with_why_there_are_no_more() -> None:
    measured = Speculation(accepted=60, steps=20, tokens=81, requests=2, reported=2)
    for problem, cause, remedy in (
        (out_of_time(1200), "the gate's 1200 s are over", "health_gate_checks_timeout"),
        (without_steps(Answer(500, "boom")), "HTTP 500 boom", "requests fail"),
        (without_steps(generated({})), "no speculation figures", "speculation is off"),
    ):
        check = judge_accept_length(measured, min_steps=40, warn=2.0, fail=1.2, problem=problem)
        assert (check.verdict, check.value) == ("fail", 4.0)
        assert f"in 20 verify steps (2 requests), 40 are wanted; {cause}" in check.evidence
        assert remedy in check.remedy


@given(st.integers(0, 200), st.integers(0, 50), st.integers(1, 64))
def test_the_next_request_is_bounded(accepted: int, steps: int, wanted: int) -> None:
    assert 8 <= next_length(Speculation(accepted, steps), wanted) <= 128


def test_the_next_request_reaches_the_steps_that_miss() -> None:
    assert next_length(Speculation(), 40) == 41
    assert next_length(Speculation(accepted=30, steps=10), 20) == 41
