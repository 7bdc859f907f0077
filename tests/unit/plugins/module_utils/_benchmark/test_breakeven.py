# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.breakeven import (
    BreakEven,
    break_even,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import Summary
from hypothesis import given
from hypothesis import strategies as st

from tests import synthetic_benchmark as synthetic

EAGLE = synthetic.EAGLE.id


def found(gains: dict[int, float], noise: float = 0.005, repeats: int = 5) -> BreakEven:
    whole = synthetic.document(
        lambda setting, at: 90.0 * at * (1 + (gains[at] if setting == EAGLE else 0)),
        concurrencies=list(gains),
        noise=noise,
        repeats=repeats,
    )
    return break_even(Summary(whole), EAGLE, whole.points)


@pytest.mark.parametrize(
    ("gains", "kind", "between"),
    [
        ({1: 0.3, 4: 0.2, 8: 0.1, 16: -0.1, 64: -0.2}, "between", (8, 16)),
        ({1: 0.3, 8: 0.1, 16: 0.0, 64: -0.2}, "between", (8, 16)),
        ({1: 0.3, 8: 0.1, 64: 0.05}, "always", (None, None)),
        ({1: -0.3, 8: -0.1, 64: -0.05}, "never", (None, None)),
        ({1: 0.0, 8: 0.0}, "never", (None, None)),
        ({1: -0.1, 8: 0.1, 64: 0.2}, "from", (1, 8)),
        ({1: 0.3, 4: -0.1, 16: 0.2, 64: -0.2}, "non_monotonic", (None, None)),
    ],
)
def test_where_it_stops_paying(
    gains: dict[int, float], kind: str, between: tuple[int | None, int | None]
) -> None:
    one = found(gains)
    assert (one.kind, (one.pays_to, one.stops_at)) == (kind, between)


def test_the_sentence_tells_gains_costs_and_what_is_within_the_noise() -> None:
    assert found({1: 0.31, 8: 0.1, 16: 0.0, 64: -0.2}, noise=0.0001).text == (
        "pays up to concurrency 8 and no longer at 16; gains +31 % at 1 and +10 % at 8; "
        "costs 20 % at 64; within the noise: 0 % at 16"
    )


def test_one_run_a_point_says_nothing() -> None:
    one = found({1: 0.5, 64: -0.5}, repeats=1)
    assert one.kind == "unknown"
    assert "two runs" in one.text


def test_a_missing_point_is_named_and_the_next_ones_are_taken() -> None:
    whole = synthetic.document(
        lambda setting, at: (
            90.0 * at * (1.2 if setting == EAGLE and at < 16 else 1.0)
            if at != 64 or setting == "off"
            else 80.0 * at
        )
    )
    gone = synthetic.without(whole, EAGLE, synthetic.point(16).id)
    one = break_even(Summary(gone), EAGLE, gone.points)
    assert (one.kind, one.pays_to, one.stops_at) == ("between", 4, 64)
    assert one.text.endswith("not measured at 16")


def test_a_setting_that_failed_everywhere_is_unknown() -> None:
    whole = synthetic.document(lambda _setting, at: 90.0 * at)
    broken = synthetic.fail(whole, EAGLE, reason="out of memory")
    assert break_even(Summary(broken), EAGLE, broken.points).kind == "unknown"


@given(signs=st.lists(st.sampled_from([-0.2, 0.2]), min_size=1, max_size=5))
def test_it_lies_between_neighbours_of_opposite_sign(signs: list[float]) -> None:
    """Whatever the row of gains and losses."""
    gains = dict(zip((1, 2, 8, 32, 128), signs, strict=False))
    one = found(gains, repeats=3)
    changes = [at for at in range(1, len(signs)) if signs[at] != signs[at - 1]]
    if len(changes) == 1:
        order = list(gains)
        assert (one.pays_to, one.stops_at) == (order[changes[0] - 1], order[changes[0]])
        assert one.kind == ("between" if signs[0] > 0 else "from")
    else:
        assert one.pays_to is None
        assert one.kind == ("non_monotonic" if changes else "always" if signs[0] > 0 else "never")
