# SPDX-License-Identifier: Apache-2.0
"""Whether a stack serves as fast as the one before it, outside the spread of both.

Accept rates are not compared: releases count them differently. Throughput and the wait for the
first token are, point by point and setting by setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    THROUGHPUT,
    TTFT,
    Metric,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    Point,
    Setting,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import Sample, Summary
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.words import percent

COMPARED = (THROUGHPUT, TTFT)
_SHORT = {THROUGHPUT.id: "tok/s", TTFT.id: "time to first token"}
TOLERANCE = 3.0
# Below this a difference is not worth a warning, however small the spread.
LEAST = 0.02


@dataclass(frozen=True)
class Compared:
    """One figure of one point under one setting, before and after.

    Attributes:
        change: Relative; above 0 where the figure grew.
        spreads: The change for the worse in multiples of the larger run-to-run spread; negative
            where it is for the better, None where neither side has two runs.
        verdict: `worse` beyond the tolerance, `unsure` where the change for the worse cannot be
            told from spread: a side has one run.
    """

    setting: str
    point: Point
    metric: Metric
    change: float
    spreads: float | None
    verdict: Literal["ok", "worse", "unsure"]

    @property
    def text(self) -> str:
        """`tok/s -12 % at c1-i1024-o256 off (9.1 spreads)`."""
        spread = "" if self.spreads is None else f" ({abs(self.spreads):.1f} spreads)"
        change = f"{_SHORT[self.metric.id]} {percent(self.change)}"
        return f"{change} at {self.point.id} {self.setting}{spread}"


@dataclass(frozen=True)
class Regression:
    """What a comparison of two results says.

    Attributes:
        verdict: `worse` where a figure is off by twice the tolerance, where most points are off
            by the tolerance, or where a point fails that was measured before; `warn` where one is
            off by the tolerance, or where nothing can be compared.
        reason: One line.
        compared: Every figure that was compared.
        incomparable: What was not, and why.
    """

    verdict: Literal["ok", "warn", "worse"]
    reason: str
    compared: tuple[Compared, ...] = ()
    incomparable: tuple[str, ...] = ()


def regression(
    before: Document,
    after: Document,
    tolerance: float = TOLERANCE,
    *,
    least: float = LEAST,
    accept_meaningless: bool = False,
) -> Regression:
    """Compare two results of one node.

    Args:
        before: Of the stack that served before.
        after: Of the one that serves now.
        tolerance: In multiples of the larger of the two measured run-to-run spreads.
        least: Relative change below which nothing is worse.
        accept_meaningless: Compare figures that mean nothing (a lab's), to exercise it.
    """
    if why := incomparable(before, after, accept_meaningless=accept_meaningless):
        return Regression("warn", f"not compared: {why}", incomparable=(why,))
    old, new = Summary(before), Summary(after)
    compared: list[Compared] = []
    gaps: list[str] = []
    failed: list[str] = []
    for setting, point, gap, broken in _pairs(old, new):
        if gap:
            (failed if broken else gaps).append(gap)
            continue
        for metric in COMPARED:
            was = old.sample(setting.id, point.id, metric)
            now = new.sample(setting.id, point.id, metric)
            if was is None or now is None or was.median <= 0:
                gaps.append(f"{_SHORT[metric.id]} at {point.id} {setting.id}: not measured in both")
            else:
                limits = {"tolerance": tolerance, "least": least}
                compared.append(_compare((setting.id, point, metric), was, now, **limits))
    verdict, reason = _verdict(compared, failed, tolerance)
    return Regression(verdict, reason, tuple(compared), tuple(failed + gaps))


def incomparable(before: Document, after: Document, *, accept_meaningless: bool = False) -> str:
    """Why two results say nothing about each other; empty where they do.

    Two stacks may differ in everything that an upgrade changes, not in node, GPUs or model.
    """
    if not accept_meaningless:
        for one in (before, after):
            if not one.meaning.figures:
                return f"the figures of {one.stack.stack} mean nothing ({one.meaning.reason})"
    if before.meaning.figures != after.meaning.figures:
        return "the figures of one mean something, those of the other do not"
    for what, was, now in (
        ("node", before.node, after.node),
        ("GPU", before.stack.gpu, after.stack.gpu),
        ("number of GPUs", before.stack.gpu_count, after.stack.gpu_count),
        ("model", before.stack.model, after.stack.model),
    ):
        if was != now:
            return f"another {what}: {was} before, {now} now"
    return ""


def _pairs(old: Summary, new: Summary) -> Iterator[tuple[Setting, Point, str, bool]]:
    """Setting and point of either result, why it cannot be compared, and whether it broke."""
    settings = {one.id: one for one in (*old.document.settings, *new.document.settings)}
    points = {one.id: one for one in (*old.document.points, *new.document.points)}
    for setting in settings.values():
        for point in points.values():
            where = f"{point.id} {setting.id}"
            was, now = old.cell(setting.id, point.id), new.cell(setting.id, point.id)
            if "missing" in {was.state, now.state} and was.state == now.state:
                continue
            if _changed(old.document, new.document, setting.id, point.id):
                yield setting, point, f"{where}: another load or draft setting of that name", False
            elif was.state == "measured" and now.state == "failed":
                yield setting, point, f"{where}: fails now: {now.reasons[0]}", True
            elif {was.state, now.state} == {"measured"}:
                yield setting, point, "", False
            else:
                yield setting, point, f"{where}: {was.state} before, {now.state} now", False


def _changed(before: Document, after: Document, setting: str, point: str) -> bool:
    def drafts(document: Document) -> list[object]:
        return [one.draft for one in document.settings if one.id == setting]

    def loads(document: Document) -> list[object]:
        return [
            (one.concurrency, one.input_tokens, one.output_tokens, one.dataset)
            for one in document.points
            if one.id == point
        ]

    return any(
        bool(was and now) and was != now
        for was, now in ((drafts(before), drafts(after)), (loads(before), loads(after)))
    )


def _compare(
    place: tuple[str, Point, Metric],
    was: Sample,
    now: Sample,
    *,
    tolerance: float,
    least: float,
) -> Compared:
    metric = place[-1]
    change = now.median / was.median - 1
    loss = -change if metric.better == "higher" else change
    noises = [one.noise / one.median for one in (was, now) if one.noise is not None and one.median]
    spreads = loss / max(*noises, 1e-6) if noises else None
    if loss <= least or (spreads is not None and spreads <= tolerance):
        verdict: Literal["ok", "worse", "unsure"] = "ok"
    else:
        verdict = "worse" if min(was.runs, now.runs) > 1 and spreads is not None else "unsure"
    return Compared(*place, change, spreads, verdict)


def _verdict(
    compared: list[Compared], failed: list[str], tolerance: float
) -> tuple[Literal["ok", "warn", "worse"], str]:
    worse = sorted(
        (one for one in compared if one.verdict == "worse"), key=lambda one: -(one.spreads or 0)
    )
    unsure = [one for one in compared if one.verdict == "unsure"]
    if failed:
        return "worse", "; ".join(failed)
    if not compared:
        return "warn", "not compared: the two results have no point and setting in common"
    if worse:
        far = [one for one in worse if one.spreads is not None and one.spreads > 2 * tolerance]
        places = {(one.setting, one.point.id) for one in compared}
        most = 2 * len({(one.setting, one.point.id) for one in worse}) > len(places)
        told = "; ".join(one.text for one in worse[:3])
        more = f"; and {len(worse) - 3} more" if len(worse) > 3 else ""
        return (
            "worse" if far or most else "warn",
            f"{told}{more}; tolerance {tolerance:g} spreads",
        )
    if unsure:
        return "warn", f"{unsure[0].text}: one run is not enough to tell it from spread"
    return "ok", f"{len(compared)} figures within {tolerance:g} spreads of the result before"
