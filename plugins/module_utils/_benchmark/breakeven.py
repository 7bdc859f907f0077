# SPDX-License-Identifier: Apache-2.0
"""From which concurrency on speculation stops paying, between which measured points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    THROUGHPUT,
    Metric,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import OFF, Point
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import Gain, Summary
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.words import (
    listed,
    percent,
    share,
)


@dataclass(frozen=True)
class Judged:
    """One point: the gain of the setting over `off`, and whether it pays there.

    Attributes:
        verdict: `better` pays, `worse` costs, `same` is within the noise; `unknown` with a single
            run, or where one of the two was not measured (then `gain` is None).
    """

    concurrency: int
    gain: Gain | None
    verdict: Literal["better", "worse", "same", "unknown"]


@dataclass(frozen=True)
class BreakEven:
    """Where a setting's gain over `off` ends, on points that differ by concurrency alone.

    Attributes:
        kind: `between` pays up to a concurrency and not from a later one on; `always` and `never`
            pay at every or at no judged point; `from` pays only from a concurrency on;
            `non_monotonic` pays, stops, and pays again; `unknown` where no point can be judged.
        pays_to: The last point that pays (`between`), or the last that does not (`from`).
        stops_at: The next judged point: it does not pay (`between`), or is the first that does.
        points: All points, lowest concurrency first.
        headline: Where it pays, without figures: `pays up to concurrency 8 and no longer at 16`.
        details: What it gains or costs at which point.
    """

    kind: Literal["between", "always", "never", "from", "non_monotonic", "unknown"]
    pays_to: int | None
    stops_at: int | None
    points: tuple[Judged, ...]
    headline: str
    details: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it in one sentence."""
        return "; ".join([self.headline, *self.details])


def break_even(
    summary: Summary, setting: str, points: Sequence[Point], metric: Metric = THROUGHPUT
) -> BreakEven:
    """Find it.

    Args:
        summary: Statistics of one document, `off` among its settings.
        setting: Id of a setting that speculates.
        points: Points that differ by concurrency alone.
        metric: What has to be better to pay.
    """
    judged = tuple(
        Judged(
            point.concurrency,
            gain := summary.gain(setting, OFF, point.id, metric),
            gain.verdict(metric) if gain is not None else "unknown",
        )
        for point in sorted(points, key=lambda one: one.concurrency)
    )
    known = [one for one in judged if one.verdict != "unknown"]
    kind, crossing = _kind([one.verdict == "better" for one in known])
    pays_to, stops_at = (
        (known[crossing - 1].concurrency, known[crossing].concurrency) if crossing else (None, None)
    )
    headline = _headline(kind, pays_to, stops_at)
    return BreakEven(kind, pays_to, stops_at, judged, headline, _details(judged))


def _kind(
    pays: Sequence[bool],
) -> tuple[Literal["between", "always", "never", "from", "non_monotonic", "unknown"], int]:
    """What the row of points says, and at which index it changes (0 where it does not)."""
    if not pays:
        return "unknown", 0
    changes = [index for index in range(1, len(pays)) if pays[index] != pays[index - 1]]
    if not changes:
        return ("always" if pays[0] else "never"), 0
    if len(changes) > 1:
        return "non_monotonic", 0
    return ("between" if pays[0] else "from"), changes[0]


def _headline(kind: str, pays_to: int | None, stops_at: int | None) -> str:
    return {
        "between": f"pays up to concurrency {pays_to} and no longer at {stops_at}",
        "from": f"does not pay up to concurrency {pays_to} and pays from {stops_at} on",
        "always": "pays at every concurrency that was judged",
        "never": "pays at no concurrency that was judged",
        "non_monotonic": "pays at some concurrencies and not at others between them: there is no "
        "single break-even point",
        "unknown": "cannot be judged: it takes two runs of a point with it and two without",
    }[kind]


def _details(judged: Sequence[Judged]) -> tuple[str, ...]:
    def at(verdict: str, *, signed: bool = True) -> str:
        return listed(
            [
                f"{(percent if signed else share)(one.gain.change)} at {one.concurrency}"
                for one in judged
                if one.verdict == verdict and one.gain is not None
            ]
        )

    found = [
        ("gains", at("better")),
        ("costs", at("worse", signed=False)),
        ("within the noise:", at("same")),
        ("a single run says:", at("unknown")),
        ("not measured at", listed([one.concurrency for one in judged if one.gain is None])),
    ]
    return tuple(f"{word} {told}" for word, told in found if told)
