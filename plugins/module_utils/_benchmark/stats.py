# SPDX-License-Identifier: Apache-2.0
"""Sum the runs of a benchmark up: medians, spread, outliers, gains and their noise.

Nothing is dropped. A median bears an outlier, which is named; a spread comes from the median
absolute deviation, which bears it too. Few repeats make both uncertain, and the noise of a gain
says so: with one run of a point there is none, and nothing follows from the gain.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    METRICS,
    Metric,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    Point,
    Run,
)

# The median absolute deviation of normal noise, times this, is its standard deviation; on few
# values it is too small by the second factor (Croux and Rousseeuw, Time-efficient algorithms for
# two highly robust estimators of scale, 1992).
_NORMAL = 1.4826
_FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
# Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993: a modified z-score above 3.5.
_OUTLYING = 3.5
# The median of normal noise strays this much further than its mean does.
_MEDIAN = 1.2533
# Student's t, two-sided 95 %, by degrees of freedom; the last holds from there on.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14)


@dataclass(frozen=True)
class Sample:
    """One figure over the repeats of one point under one setting.

    Attributes:
        values: By repeat.
        median: Of all values, outliers included.
        spread: Standard deviation of one run, robustly; None from a single run.
        noise: `spread`, or that of the figure over the whole document where it is larger: two or
            three runs agree by chance now and then. None where no point has two runs.
        outliers: Repeats far off the median, by `noise`.
    """

    values: Mapping[int, float]
    median: float
    spread: float | None
    noise: float | None
    outliers: tuple[int, ...]

    @property
    def runs(self) -> int:
        """How many runs have the figure."""
        return len(self.values)


@dataclass(frozen=True)
class Cell:
    """What became of the runs of one point under one setting.

    Attributes:
        ok: Runs with figures.
        failed: Runs that were tried without.
        skipped: Runs that were not tried.
        reasons: Why, each once.
        lost_requests: Requests that were not answered, in the runs with figures.
    """

    ok: int
    failed: int
    skipped: int
    reasons: tuple[str, ...]
    lost_requests: int

    @property
    def state(self) -> Literal["measured", "failed", "skipped", "missing"]:
        """In one word; `measured` with at least one run with figures."""
        if self.ok:
            return "measured"
        if self.failed:
            return "failed"
        return "skipped" if self.skipped else "missing"


@dataclass(frozen=True)
class Gain:
    """One figure under one setting against another, at one point or over several.

    Attributes:
        change: Relative change, above 0 where the figure grew.
        noise: Half the width of its 95 % interval, relative too; None where a side has one run.
    """

    change: float
    noise: float | None

    def verdict(
        self, metric: Metric, margin: float = 0.0
    ) -> Literal["better", "worse", "same", "unknown"]:
        """Whether the change is outside its noise by more than `margin`, and which way.

        Args:
            metric: Says which way is better.
            margin: Relative.

        Returns:
            `same` where it is inside, `unknown` where the noise is.
        """
        if self.noise is None or metric.better == "neither":
            return "unknown"
        change = self.change if metric.better == "higher" else -self.change
        if change - self.noise > margin:
            return "better"
        return "worse" if change + self.noise < -margin else "same"


class Summary:
    """The statistics of one document."""

    def __init__(self, document: Document) -> None:
        """Sum it up; the document is kept as `document`."""
        self.document = document
        self._runs: dict[tuple[str, str], list[Run]] = {}
        for run in document.runs:
            self._runs.setdefault((run.setting, run.point), []).append(run)
        self._samples: dict[tuple[str, str, str], Sample] = {}
        for metric in METRICS:
            self._sum_up(metric)

    def _sum_up(self, metric: Metric) -> None:
        values = {
            key: {run.repeat: value for run in runs if (value := _figure(metric, run)) is not None}
            for key, runs in self._runs.items()
        }
        spreads = {key: spread(list(found.values())) for key, found in values.items()}
        relative = [
            one / statistics.median(values[key].values())
            for key, one in spreads.items()
            if one is not None and statistics.median(values[key].values()) > 0
        ]
        usual = statistics.median(relative) if relative else None
        for key, found in values.items():
            if found:
                self._samples[(*key, metric.id)] = _sample(found, spreads[key], usual)

    def cell(self, setting: str, point: str) -> Cell:
        """What became of the runs of a point under a setting."""
        runs = self._runs.get((setting, point), [])
        return Cell(
            ok=sum(run.state == "ok" for run in runs),
            failed=sum(run.state == "failed" for run in runs),
            skipped=sum(run.state == "skipped" for run in runs),
            reasons=tuple(dict.fromkeys(run.reason for run in runs if run.state != "ok")),
            lost_requests=sum(run.failed for run in runs if run.state == "ok"),
        )

    def sample(self, setting: str, point: str, metric: Metric) -> Sample | None:
        """A figure of a point under a setting; None where no run has it."""
        return self._samples.get((setting, point, metric.id))

    def gain(self, setting: str, over: str, point: str, metric: Metric) -> Gain | None:
        """A figure under one setting against another, at one point.

        Returns:
            None where one of the two was not measured.
        """
        new, old = self.sample(setting, point, metric), self.sample(over, point, metric)
        return None if new is None or old is None else compare(new, old)

    def outliers(self, metrics: Iterable[Metric]) -> list[tuple[str, str, Metric, int, Sample]]:
        """Setting, point, figure, repeat and sample of each outlier of these figures."""
        return [
            (setting.id, point.id, metric, repeat, sample)
            for metric in metrics
            for setting in self.document.settings
            for point in self.document.points
            if (sample := self.sample(setting.id, point.id, metric)) is not None
            for repeat in sample.outliers
        ]


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation of one run, from the median absolute deviation.

    Returns:
        None for fewer than two values.
    """
    count = len(values)
    if count < 2:
        return None
    middle = statistics.median(values)
    deviation = statistics.median(abs(one - middle) for one in values)
    return deviation * _NORMAL * _FEW.get(count, count / (count - 0.8))


def compare(new: Sample, old: Sample) -> Gain | None:
    """The relative change between two samples of a figure.

    Returns:
        None where the old one is 0: nothing is relative to that.
    """
    if old.median <= 0:
        return None
    ratio = new.median / old.median
    if new.runs < 2 or old.runs < 2 or new.noise is None or old.noise is None:
        return Gain(ratio - 1, None)
    errors = [
        one.noise / math.sqrt(one.runs) * (_MEDIAN if one.runs > 2 else 1) / old.median
        for one in (new, old)
        if one.noise is not None
    ]
    # The old figure stands below the line: its error counts times the ratio.
    error = math.hypot(errors[0], errors[1] * ratio)
    freedom = new.runs + old.runs - 2
    return Gain(ratio - 1, _STUDENT[min(freedom, len(_STUDENT)) - 1] * error)


def mean(gains: Sequence[Gain]) -> Gain | None:
    """The geometric mean of several gains; its noise is unknown where one's is.

    Returns:
        None without any.
    """
    if not gains:
        return None
    ratio = math.exp(statistics.fmean(math.log1p(one.change) for one in gains))
    noises = [one.noise / (1 + one.change) for one in gains if one.noise is not None]
    if len(noises) < len(gains):
        return Gain(ratio - 1, None)
    return Gain(ratio - 1, ratio * math.hypot(*noises) / len(gains))


def shapes(points: Iterable[Point]) -> dict[tuple[str, int, int], list[Point]]:
    """Points that differ by concurrency alone, lowest first; by dataset and lengths."""
    found: dict[tuple[str, int, int], list[Point]] = {}
    for point in points:
        found.setdefault((point.dataset, point.input_tokens, point.output_tokens), []).append(point)
    return {shape: sorted(group, key=lambda one: one.concurrency) for shape, group in found.items()}


def _figure(metric: Metric, run: Run) -> float | None:
    return metric.of(run) if run.state == "ok" else None


def _sample(values: Mapping[int, float], own: float | None, usual: float | None) -> Sample:
    middle = statistics.median(values.values())
    noise = None if usual is None else max(own or 0.0, usual * middle)
    outliers = (
        tuple(
            repeat
            for repeat, value in values.items()
            if abs(value - middle) > _OUTLYING * noise + 1e-9 * abs(middle)
        )
        if noise is not None and len(values) > 2
        else ()
    )
    return Sample(values, middle, own, noise, outliers)
