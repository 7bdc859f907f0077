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
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.words import listed, percent


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
        text: All of it in one sentence.
    """

    kind: Literal["between", "always", "never", "from", "non_monotonic", "unknown"]
    pays_to: int | None
    stops_at: int | None
    points: tuple[Judged, ...]
    text: str


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
    return BreakEven(kind, pays_to, stops_at, judged, _text(kind, pays_to, stops_at, judged))


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


def _text(kind: str, pays_to: int | None, stops_at: int | None, judged: Sequence[Judged]) -> str:
    by = {
        verdict: [one for one in judged if one.verdict == verdict]
        for verdict in ("better", "worse", "same", "unknown")
    }
    if kind == "unknown":
        return "no point can be judged: it takes two runs with and two without speculation"
    where = {
        "between": f"pays up to concurrency {pays_to} and no longer at {stops_at}",
        "from": f"does not pay up to concurrency {pays_to} and pays from {stops_at} on",
        "always": "pays at every concurrency that was judged",
        "never": "pays at no concurrency that was judged",
        "non_monotonic": "pays at some concurrencies and not at others between them: no single"
        " break-even point",
    }[kind]
    parts = [where]
    if by["better"]:
        parts.append(f"gains {_at(by['better'])}")
    if by["worse"]:
        parts.append(f"costs {_at(by['worse'])}")
    if by["same"]:
        parts.append(f"within the noise {_at(by['same'])}")
    if by["unknown"]:
        parts.append(f"not judged at {listed([one.concurrency for one in by['unknown']])}")
    return "; ".join(parts)


def _at(points: Sequence[Judged]) -> str:
    return listed(
        [f"{percent(one.gain.change)} at {one.concurrency}" for one in points if one.gain]
    )
