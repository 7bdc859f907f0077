# SPDX-License-Identifier: Apache-2.0
"""What is served follows from evidence alone, and from none that is another's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decide import (
    Decision,
    Profile,
    decide_speculation,
    decisive_points,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    Draft,
    Latency,
    Meaning,
)
from hypothesis import given
from hypothesis import strategies as st

from tests import synthetic_benchmark as synthetic

EAGLE, DEEPER = synthetic.EAGLE, synthetic.DEEPER
PROFILES: list[Profile] = ["latency", "throughput"]
LAB = Meaning(figures=False, reason="CPU stand-ins")


def crossing(setting: str, at: int) -> float:
    """+30 % at low concurrency, -20 % at high: the usual picture."""
    return 90.0 * at * ((1.3 if at <= 4 else 0.8) if setting == EAGLE.id else 1.0)


def by_setting(rates: dict[str, float]) -> synthetic.Rate:
    """So many tokens a second for each of the requests."""
    return lambda setting, at: rates[setting] * at


def decide(
    results: Sequence[Document],
    profile: Profile = "latency",
    configured: Draft | None = EAGLE.draft,
    **more: Any,
) -> Decision:
    given_more = {"node": "synthetic-node", "fingerprint": "0123456789ab", **more}
    return decide_speculation(results, profile, configured=configured, **given_more)


@pytest.mark.parametrize("configured", [None, EAGLE.draft])
def test_the_profile_asks_its_own_question(configured: Draft | None) -> None:
    whole = synthetic.document(crossing)
    latency = decide([whole], "latency", configured)
    throughput = decide([whole], "throughput", configured)
    assert latency.draft == EAGLE.draft
    assert throughput.draft is None
    assert latency.measured
    assert throughput.measured
    stays = latency if configured else throughput
    assert stays.reason.startswith(f"speculation stays {'on' if configured else 'off'}: ")


def test_the_reason_has_the_figures_and_where_they_are_from() -> None:
    reason = decide([synthetic.document(crossing, noise=0.001)], "latency", None).reason
    assert reason.startswith("speculation on: EAGLE-3 3/1/4 has +30 % (noise 0.")
    assert reason.endswith(
        "output tok/s of a request at concurrency 1 and 4 against no speculation; "
        "benchmark of 2026-11-30 10:00, profile latency"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node": "other"}, "no benchmark of this stack on this node"),
        ({"fingerprint": "ffffffffffff"}, "no benchmark of this very stack (ffffffffffff)"),
    ],
)
@pytest.mark.parametrize("configured", [None, EAGLE.draft])
def test_results_of_another_node_or_stack_decide_nothing(
    change: dict[str, str], said: str, configured: Draft | None
) -> None:
    found = decide([synthetic.document(crossing)], "throughput", configured, **change)
    assert (found.measured, found.draft) == (False, configured)
    assert found.reason.startswith(f"speculation stays {'on' if configured else 'off'}: {said}")


def test_figures_that_mean_nothing_decide_only_where_that_is_allowed() -> None:
    lab = synthetic.document(crossing, meaning=LAB)
    kept = decide([lab], "throughput")
    assert not kept.measured
    assert "means nothing (CPU stand-ins)" in kept.reason
    assert decide([lab], "throughput", accept_meaningless=True).draft is None


def test_no_result_at_all() -> None:
    assert decide([]).reason == "speculation stays on: no benchmark of this stack on this node"


def test_a_small_gain_inside_noise_or_margin_changes_nothing() -> None:
    for gain, noise in ((1.02, 0.0001), (1.05, 0.05)):
        rates = {"off": 90.0, EAGLE.id: 90.0 * gain}
        whole = synthetic.document(by_setting(rates), noise=noise, repeats=3)
        found = decide([whole], "latency", None)
        assert (found.measured, found.speculation) == (False, False)
        assert "not outside the noise by the margin of 3.0 %" in found.reason


def test_one_run_a_point_decides_nothing() -> None:
    found = decide([synthetic.document(crossing, repeats=1)], "throughput")
    assert not found.measured
    assert "it takes two runs of each" in found.reason


def test_the_newest_result_counts() -> None:
    old = synthetic.document(crossing)
    new = dataclasses.replace(
        synthetic.document(lambda _setting, at: 90.0 * at), started="2026-12-01T10:00:00Z"
    )
    assert not decide([new, old], "throughput").measured
    assert decide([old], "throughput").measured


@pytest.mark.parametrize("failed", ["off", EAGLE.id])
def test_a_failed_setting_neither_wins_nor_loses(failed: str) -> None:
    whole = synthetic.fail(synthetic.document(crossing), failed, reason="out of memory")
    found = decide([whole], "throughput")
    assert not found.measured
    assert "failed at c64-i1024-o256: out of memory" in found.reason


def test_a_missing_point_is_named() -> None:
    whole = synthetic.without(synthetic.document(crossing), "off", synthetic.point(64).id)
    found = decide([whole], "throughput")
    assert not found.measured
    assert "no speculation was not measured at c64-i1024-o256" in found.reason


def test_a_point_that_matters_less_may_be_missing() -> None:
    """The lowest concurrency speaks for latency, the highest for throughput."""
    whole = synthetic.without(synthetic.document(crossing), EAGLE.id, synthetic.point(4).id)
    assert decide([whole], "latency", None).draft == EAGLE.draft
    whole = synthetic.without(synthetic.document(crossing), EAGLE.id, synthetic.point(1).id)
    assert not decide([whole], "latency", None).measured


def test_outliers_change_no_decision() -> None:
    whole = synthetic.document(crossing, repeats=5)
    runs = tuple(
        dataclasses.replace(one, request_tok_s=1.0)
        if one.setting == EAGLE.id and one.repeat == 2
        else one
        for one in whole.runs
    )
    assert decide([dataclasses.replace(whole, runs=runs)], "latency", None).speculation


def test_of_two_draft_settings_the_better_one_is_taken() -> None:
    settings = (synthetic.OFF, EAGLE, DEEPER)
    whole = synthetic.document(
        lambda setting, at: 90.0 * at * {"off": 1.0, EAGLE.id: 1.2, DEEPER.id: 1.4}[setting],
        settings=settings,
    )
    for configured in (None, EAGLE.draft):
        assert decide([whole], "latency", configured).draft == DEEPER.draft
    kept = decide([whole], "latency", DEEPER.draft)
    assert (kept.draft, kept.measured) == (DEEPER.draft, True)
    assert kept.reason.startswith("speculation stays on: no speculation has -2")


def test_settings_are_weighed_where_all_were_measured() -> None:
    """At 1 the one is far ahead, at 4, where the other is ahead, it was not measured."""
    rates = {
        "off": {1: 1.0, 4: 1.0},
        EAGLE.id: {1: 1.3, 4: 1.3},
        DEEPER.id: {1: 1.4, 4: 1.1},
    }
    whole = synthetic.document(
        lambda setting, at: 90.0 * at * rates[setting][at],
        settings=(synthetic.OFF, EAGLE, DEEPER),
        concurrencies=(1, 4),
    )
    assert decide([whole], "latency", None).draft == EAGLE.draft
    found = decide([synthetic.without(whole, EAGLE.id, synthetic.point(4).id)], "latency", None)
    assert found.draft == DEEPER.draft
    assert "at concurrency 1 and 4 against" in found.reason
    found = decide([synthetic.without(whole, DEEPER.id, synthetic.point(4).id)], "latency", None)
    assert found.draft == DEEPER.draft
    assert "at concurrency 1 against" in found.reason


def test_a_point_with_one_run_left_does_not_hide_the_others() -> None:
    whole = synthetic.document(crossing)
    runs = tuple(
        dataclasses.replace(one, state="skipped", reason="out of time")
        if one.point == synthetic.point(4).id and one.repeat > 1
        else one
        for one in whole.runs
    )
    found = decide([dataclasses.replace(whole, runs=runs)], "latency", None)
    assert found.draft == EAGLE.draft
    assert "at concurrency 1 against" in found.reason


def test_a_configured_draft_that_was_not_measured_is_told() -> None:
    other = Draft(1, 1, 2)
    whole = synthetic.document(crossing)
    assert decide([whole], "latency", other).draft == EAGLE.draft
    kept = decide([whole], "throughput", other)
    assert (kept.draft, kept.measured) == (other, False)
    assert "the configured setting was not measured" in kept.reason


def test_a_later_first_token_speaks_against_a_smaller_gain() -> None:
    whole = synthetic.document(crossing)
    runs = tuple(
        dataclasses.replace(one, ttft_ms=Latency(900, 900, 950, 990))
        if one.setting == EAGLE.id
        else one
        for one in whole.runs
    )
    found = decide([dataclasses.replace(whole, runs=runs)], "latency", None)
    assert not found.measured
    assert "the first token comes later by" in found.reason


def test_better_in_the_mean_is_not_enough_where_one_point_loses() -> None:
    whole = synthetic.document(
        lambda setting, at: 90.0 * at * ({1: 1.6, 4: 0.8}.get(at, 1) if setting != "off" else 1)
    )
    found = decide([whole], "latency", None)
    assert not found.measured
    assert "better in the mean, but -2" in found.reason


def test_which_points_decide() -> None:
    points = synthetic.document(crossing, concurrencies=(1, 2, 4, 8, 32, 64), repeats=1)
    assert [one.concurrency for one in decisive_points(points, "latency")] == [1, 2, 4]
    assert [one.concurrency for one in decisive_points(points, "throughput")] == [32, 64]
    only = synthetic.document(crossing, concurrencies=(16, 64), repeats=1)
    assert [one.concurrency for one in decisive_points(only, "latency")] == [16]


@given(
    gain=st.floats(-0.4, 0.6),
    noise=st.floats(0.0, 0.1),
    repeats=st.integers(1, 4),
    asked=st.tuples(st.sampled_from([None, EAGLE.draft]), st.sampled_from(PROFILES)),
    seed=st.integers(0, 10**6),
)
def test_a_decision_never_goes_against_what_was_measured(
    gain: float, noise: float, repeats: int, asked: tuple[Draft | None, Profile], seed: int
) -> None:
    """It changes only towards the side with the better medians, and never from one run."""
    configured, profile = asked
    whole = synthetic.document(
        by_setting({"off": 90.0, EAGLE.id: 90.0 * (1 + gain)}),
        noise=noise,
        repeats=repeats,
        seed=seed,
        concurrencies=(1, 64),
    )
    found = decide([whole], profile, configured)
    assert found.draft in {None, EAGLE.draft}
    if repeats == 1:
        assert not found.measured
    if not found.measured:
        assert found.draft == configured
    elif noise < 0.02:
        assert found.speculation is (gain > 0)
        assert abs(gain) > 0.01
    if gain == 0 and noise < 0.001:
        assert not found.measured
