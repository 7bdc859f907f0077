# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.regression import regression
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Accept,
    Document,
    Draft,
    Meaning,
    Setting,
)
from hypothesis import given
from hypothesis import strategies as st

from tests import synthetic_benchmark as synthetic

NEXT = dataclasses.replace(synthetic.STACK, fingerprint="ba9876543210", stack="synthetic-2")


def at(factors: dict[int, float] | float, **more: Any) -> Document:
    def rate(_setting: str, concurrency: int) -> float:
        factor = factors if isinstance(factors, float) else factors.get(concurrency, 1.0)
        return 90.0 * concurrency * factor

    return synthetic.document(rate, **more)


BEFORE = at(1.0, repeats=3)


def after(factors: dict[int, float] | float, **more: Any) -> Document:
    return at(factors, stack=NEXT, **{"seed": 7, "repeats": 3, **more})


@pytest.mark.parametrize(
    ("factors", "verdict"),
    [
        (1.0, "ok"),
        (1.2, "ok"),
        (0.95, "worse"),  # a little, but everywhere
        (0.7, "worse"),
        ({1: 0.6}, "worse"),  # far, at one point
        ({1: 0.93}, "warn"),
    ],
)
def test_beyond_the_spread_is_worse(factors: dict[int, float] | float, verdict: str) -> None:
    found = regression(BEFORE, after(factors))
    assert found.verdict == verdict, found.reason


def test_the_reason_names_figure_point_setting_and_spread() -> None:
    reason = regression(BEFORE, after({1: 0.6})).reason
    assert reason.startswith("tok/s -4")
    assert "at c1-i1024-o256 " in reason
    assert reason.endswith("spreads); tolerance 3 spreads")


def test_the_tolerance_is_in_multiples_of_the_spread() -> None:
    noisy, new = at(1.0, repeats=5, noise=0.05), after(0.9, repeats=5, noise=0.05)
    assert regression(noisy, new).verdict == "ok"
    assert regression(noisy, new, 0.5).verdict == "worse"


def test_a_small_change_is_none_however_sure() -> None:
    still = at(1.0, repeats=3, noise=0.0)
    assert regression(still, after(0.99, noise=0.0)).verdict == "ok"
    assert regression(still, after(0.99, noise=0.0), least=0.001).verdict == "worse"


def test_one_run_warns_at_most() -> None:
    found = regression(BEFORE, after(0.5, repeats=1))
    assert found.verdict == "warn"
    assert "one run is not enough" in found.reason
    assert regression(at(1.0, repeats=1), after(1.0, repeats=1)).verdict == "ok"


def test_a_point_that_fails_now_is_worse_whatever_the_others_gain() -> None:
    broken = synthetic.fail(after(2.0), "off", at=synthetic.point(64).id, reason="out of memory")
    found = regression(BEFORE, broken)
    assert found.verdict == "worse"
    assert found.reason == "c64-i1024-o256 off: fails now: out of memory"


def test_incomparable_points_are_named() -> None:
    new = after(1.0, concurrencies=(1, 4, 32))
    found = regression(BEFORE, new)
    assert found.verdict == "ok"
    assert "c16-i1024-o256 off: measured before, missing now" in found.incomparable
    assert "c32-i1024-o256 off: missing before, measured now" in found.incomparable
    other = dataclasses.replace(
        after(0.5),
        settings=(
            synthetic.OFF,
            Setting(synthetic.EAGLE.id, "EAGLE-3", speculation=True, draft=Draft(9, 1, 10)),
        ),
    )
    named = regression(BEFORE, other).incomparable
    assert sum("another load or draft setting of that name" in one for one in named) == 4


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("gpu", "OTHER GPU", "another GPU: SYNTHETIC GPU before, OTHER GPU now"),
        ("gpu_count", 4, "another number of GPUs: 8 before, 4 now"),
        ("model", "other", "another model: synthetic-target before, other now"),
    ],
)
def test_other_hardware_is_not_compared(field: str, value: Any, said: str) -> None:
    changes: dict[str, Any] = {field: value}
    new = dataclasses.replace(after(0.1), stack=dataclasses.replace(NEXT, **changes))
    found = regression(BEFORE, new)
    assert (found.verdict, found.reason) == ("warn", f"not compared: {said}")
    assert not found.compared


def test_nothing_in_common_is_not_fine() -> None:
    found = regression(BEFORE, after(1.0, concurrencies=(2,)))
    assert found.verdict == "warn"
    assert "no point and setting in common" in found.reason


def test_figures_that_mean_nothing_are_compared_only_where_that_is_allowed() -> None:
    lab = Meaning(figures=False, reason="CPU stand-ins")
    old, new = at(1.0, repeats=3, meaning=lab), after(0.5, meaning=lab)
    assert regression(old, new).reason == (
        "not compared: the figures of synthetic-1 mean nothing (CPU stand-ins)"
    )
    assert regression(old, new, accept_meaningless=True).verdict == "worse"
    assert regression(BEFORE, new, accept_meaningless=True).verdict == "warn"


def test_accept_rates_are_not_compared() -> None:
    def accepting(length: float, whole: Document) -> Document:
        runs = tuple(
            dataclasses.replace(one, accept=Accept(length, 1, 1, "synthetic"))
            if one.accept
            else one
            for one in whole.runs
        )
        return dataclasses.replace(whole, runs=runs)

    found = regression(accepting(3.8, BEFORE), accepting(1.0, after(1.0)))
    assert found.verdict == "ok"
    assert {one.metric.id for one in found.compared} == {"output_tok_s", "ttft_ms.p50"}


@given(seed=st.integers(0, 10**6), noise=st.floats(0.0, 0.05))
def test_a_result_is_no_regression_of_itself_nor_of_a_slower_one(seed: int, noise: float) -> None:
    one = at(1.0, repeats=3, seed=seed, noise=noise, concurrencies=(1, 16))
    assert regression(one, one).verdict == "ok"
    assert regression(at(0.4, repeats=3, concurrencies=(1, 16)), one).verdict == "ok"
