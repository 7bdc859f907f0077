# SPDX-License-Identifier: Apache-2.0
"""Statistics of synthetic results, whose truth is known."""

from __future__ import annotations

import dataclasses
import random
import statistics

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    ACCEPT,
    METRICS,
    RATE,
    THROUGHPUT,
    TTFT,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import (
    Gain,
    Summary,
    compare,
    mean,
    shapes,
    spread,
)
from hypothesis import given
from hypothesis import strategies as st

from tests import synthetic_benchmark as synthetic

EAGLE, C1, C4 = synthetic.EAGLE.id, synthetic.point(1).id, synthetic.point(4).id
FIGURES = st.floats(min_value=1, max_value=1e5)


def flat(_setting: str, concurrency: int) -> float:
    return 90.0 * concurrency


def paying(setting: str, concurrency: int) -> float:
    return flat(setting, concurrency) * (1.3 if setting == EAGLE else 1.0)


@pytest.mark.parametrize("count", range(2, 13))
def test_spread_finds_the_deviation_that_the_noise_was_made_with(count: int) -> None:
    """Over many samples the mean is right, however few values each has."""
    chance = random.Random(count)  # noqa: S311 - noise, not a secret
    found = [
        value
        for _ in range(4000)
        if (value := spread([chance.gauss(100, 2) for _ in range(count)])) is not None
    ]
    assert statistics.fmean(found) == pytest.approx(2, rel=0.05)


@given(values=st.lists(FIGURES, min_size=3, max_size=9), far=st.floats(1e6, 1e9))
def test_one_far_value_moves_neither_median_nor_spread_out_of_the_others(
    values: list[float], far: float
) -> None:
    whole = [*values, far]
    assert min(values) <= statistics.median(whole) <= max(values)
    found = spread(whole)
    assert found is not None
    assert found <= 1.4826 * 1.5 * (max(values) - min(values)) + 1e-6


@given(values=st.lists(FIGURES, min_size=2, max_size=9), factor=st.floats(0.1, 10))
def test_spread_scales_with_its_unit(values: list[float], factor: float) -> None:
    found, scaled = spread(values), spread([one * factor for one in values])
    assert found is not None
    assert scaled == pytest.approx(found * factor, rel=1e-6, abs=1e-9)


def test_one_run_has_no_spread() -> None:
    assert spread([90.0]) is None
    summary = Summary(synthetic.document(paying, repeats=1))
    sample = summary.sample(EAGLE, C1, THROUGHPUT)
    assert sample is not None
    assert (sample.spread, sample.noise, sample.outliers) == (None, None, ())
    gain = summary.gain(EAGLE, "off", C1, THROUGHPUT)
    assert gain is not None
    assert gain.change == pytest.approx(0.3, abs=0.05)
    assert gain.verdict(THROUGHPUT) == "unknown"


def test_a_clear_gain_and_a_clear_loss() -> None:
    summary = Summary(synthetic.document(paying))
    gain, loss = (
        summary.gain(EAGLE, "off", C1, THROUGHPUT),
        summary.gain("off", EAGLE, C1, THROUGHPUT),
    )
    assert gain is not None
    assert loss is not None
    assert (gain.verdict(THROUGHPUT), loss.verdict(THROUGHPUT)) == ("better", "worse")
    assert gain.change == pytest.approx(0.3, abs=0.03)
    wait = summary.gain(EAGLE, "off", C1, METRICS[5])
    assert wait is not None
    assert wait.verdict(METRICS[5]) == "better"  # the time between tokens fell
    assert wait.change < 0


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_noise_alone_is_seldom_taken_for_a_change(repeats: int) -> None:
    """At 95 % at most one point in twenty may be; with few repeats the noise is the wider."""
    verdicts = [
        gain.verdict(THROUGHPUT)
        for seed in range(60)
        for summary in [
            Summary(synthetic.document(flat, repeats=repeats, noise=0.03, seed=1000 + seed))
        ]
        for point in summary.document.points
        if (gain := summary.gain(EAGLE, "off", point.id, THROUGHPUT)) is not None
    ]
    assert len(verdicts) == 240
    assert sum(one != "same" for one in verdicts) <= 12


def test_a_change_of_ten_times_the_noise_is_found_with_three_runs() -> None:
    """The other side: what is there is seen, so that caution does not make the rule blind."""
    rates = {"off": 90.0, EAGLE: 99.0}
    verdicts = [
        gain.verdict(THROUGHPUT)
        for seed in range(40)
        for summary in [
            Summary(
                synthetic.document(
                    lambda setting, at: rates[setting] * at, repeats=3, noise=0.01, seed=seed
                )
            )
        ]
        for point in summary.document.points
        if (gain := summary.gain(EAGLE, "off", point.id, THROUGHPUT)) is not None
    ]
    assert len(verdicts) == 160
    assert verdicts.count("better") >= 156


def test_an_outlier_is_named_and_counted_and_moves_no_median() -> None:
    whole = synthetic.document(flat, repeats=5)
    runs = tuple(
        dataclasses.replace(one, output_tok_s=12.0)
        if (one.setting, one.point, one.repeat) == ("off", C4, 3)
        else one
        for one in whole.runs
    )
    summary = Summary(dataclasses.replace(whole, runs=runs))
    sample = summary.sample("off", C4, THROUGHPUT)
    assert sample is not None
    assert (sample.runs, sample.outliers) == (5, (3,))
    assert sample.median == pytest.approx(360, rel=0.02)
    assert [(one[0], one[1], one[3]) for one in summary.outliers([THROUGHPUT])] == [("off", C4, 3)]


def test_three_equal_runs_by_chance_do_not_make_the_noise_nothing() -> None:
    """A point whose runs agree has at least the noise that is usual in its document."""
    whole = synthetic.document(flat, repeats=3, noise=0.03)
    runs = tuple(
        dataclasses.replace(one, output_tok_s=90.0) if one.point == C1 else one
        for one in whole.runs
    )
    sample = Summary(dataclasses.replace(whole, runs=runs)).sample("off", C1, THROUGHPUT)
    assert sample is not None
    assert sample.spread == 0
    assert sample.noise is not None
    assert sample.noise > 0.5


def test_what_was_not_measured_is_told_apart() -> None:
    whole = synthetic.document(flat, repeats=2)
    failed = Summary(synthetic.fail(whole, EAGLE, reason="the engine died"))
    assert failed.cell(EAGLE, C1).state == "failed"
    assert failed.cell(EAGLE, C1).reasons == ("the engine died",)
    assert failed.sample(EAGLE, C1, THROUGHPUT) is None
    assert failed.gain(EAGLE, "off", C1, THROUGHPUT) is None
    assert Summary(synthetic.without(whole, EAGLE, C4)).cell(EAGLE, C4).state == "missing"
    half = tuple(
        dataclasses.replace(one, state="skipped", reason="out of time") if one.repeat == 2 else one
        for one in whole.runs
    )
    cell = Summary(dataclasses.replace(whole, runs=half)).cell(EAGLE, C1)
    assert (cell.state, cell.ok, cell.skipped) == ("measured", 1, 1)


def test_a_figure_of_a_run_that_failed_is_not_one() -> None:
    """A run that broke off may have left figures; they are of half a load."""
    whole = synthetic.document(flat, repeats=2)
    runs = tuple(
        dataclasses.replace(one, state="failed", reason="cut off") if one.repeat == 1 else one
        for one in whole.runs
    )
    sample = Summary(dataclasses.replace(whole, runs=runs)).sample("off", C1, THROUGHPUT)
    assert sample is not None
    assert list(sample.values) == [2]


def test_an_accept_length_is_neither_better_nor_worse() -> None:
    assert Gain(0.5, 0.01).verdict(ACCEPT) == "unknown"
    assert Gain(0.5, 0.01).verdict(TTFT) == "worse"
    assert Gain(0.5, 0.01).verdict(RATE, margin=0.6) == "same"


@given(changes=st.lists(st.floats(-0.5, 2), min_size=1, max_size=6), noise=st.floats(0, 0.2))
def test_a_mean_lies_among_its_gains_and_is_surer_than_they_are(
    changes: list[float], noise: float
) -> None:
    gains = [Gain(one, noise * (1 + one)) for one in changes]
    found = mean(gains)
    assert found is not None
    assert min(changes) - 1e-9 <= found.change <= max(changes) + 1e-9
    assert found.noise is not None
    assert found.noise / (1 + found.change) <= noise + 1e-9
    unsure = mean([*gains, Gain(0.1, None)])
    assert unsure is not None
    assert unsure.noise is None
    assert mean([]) is None


def test_a_gain_over_nothing_is_none() -> None:
    summary = Summary(synthetic.document(flat, repeats=2))
    sample = summary.sample("off", C1, THROUGHPUT)
    assert sample is not None
    assert compare(sample, dataclasses.replace(sample, median=0.0)) is None


def test_points_of_one_shape_belong_together() -> None:
    points = [synthetic.point(16), synthetic.point(1)]
    other = dataclasses.replace(points[0], id="long", input_tokens=32768)
    found = shapes([*points, other])
    assert [[one.id for one in group] for group in found.values()] == [
        [points[1].id, points[0].id],
        ["long"],
    ]
