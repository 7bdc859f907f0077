# SPDX-License-Identifier: Apache-2.0
"""Whether a node should speculate, from what was measured on it with the stack that serves.

A change needs a gain over what is configured that is outside its noise by a margin. Everything
else, a missing benchmark, another stack's, one run a point, a failed setting, keeps what is
configured, and the reason says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    RATE,
    THROUGHPUT,
    TTFT,
    Metric,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    OFF,
    Document,
    Draft,
    Point,
    Setting,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import (
    Gain,
    Summary,
    mean,
    shapes,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.words import (
    day,
    listed,
    percent,
    share,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.words import (
    gain as gain_words,
)

Profile = Literal["latency", "throughput"]
MARGIN = 0.03
# Up to here a person waits for each answer; above, requests share the engine.
_FEW_REQUESTS = 4


@dataclass(frozen=True)
class Decision:
    """What to serve with.

    Attributes:
        speculation: Whether to speculate.
        draft: How; None without speculation.
        measured: Whether a result decided, or confirmed what was configured; else that is kept
            for want of evidence, and the reason says what is missing.
        reason: One line for the plan.
    """

    speculation: bool
    draft: Draft | None
    measured: bool
    reason: str


@dataclass(frozen=True)
class _Question:
    """What is compared, where, and by how much it has to differ."""

    summary: Summary
    base: Setting
    points: Sequence[Point]
    profile: Profile
    margin: float

    @property
    def metric(self) -> Metric:
        """The figure that decides."""
        return RATE if self.profile == "latency" else THROUGHPUT

    @property
    def what(self) -> str:
        """Its figure, in words."""
        whose = "a request" if self.profile == "latency" else "all requests"
        return f"output tok/s of {whose}"


@dataclass(frozen=True)
class _Trial:
    """One setting against the one that it would replace.

    Attributes:
        gains: Where both were measured, by point.
        verdict: Of their mean.
        objection: What speaks against it all the same.
    """

    setting: Setting
    gains: Mapping[Point, Gain]
    verdict: Literal["better", "worse", "same", "unknown"]
    objection: str = ""

    def over(self, points: Iterable[Point]) -> float:
        """The mean gain over some of its points."""
        found = mean([self.gains[one] for one in points])
        return 0.0 if found is None else found.change

    def told(self, asked: _Question) -> str:
        """Setting, gain, figure, where, and against what; empty where nothing was compared."""
        whole = mean(list(self.gains.values()))
        if whole is None:
            return ""
        where = listed(sorted({one.concurrency for one in self.gains}))
        return (
            f"{self.setting.label} has {gain_words(whole)} {asked.what} at concurrency {where} "
            f"against {asked.base.label}"
        )


def decide_speculation(
    results: Sequence[Document],
    profile: Profile,
    margin: float = MARGIN,
    *,
    node: str,
    fingerprint: str,
    configured: Draft | None,
    accept_meaningless: bool = False,
) -> Decision:
    """Decide it.

    Args:
        results: Stored results, of whatever node and stack.
        profile: `latency` looks at a request's own rate at the lowest concurrencies and at the
            time to first token, `throughput` at all output tokens at the highest ones.
        margin: How far outside its noise a gain has to be, relative.
        node: The node's name; results of others decide nothing.
        fingerprint: Of the stack that is to serve; likewise.
        configured: The draft setting to keep when nothing is decided; None for none.
        accept_meaningless: Let figures decide that mean nothing (a lab's), to exercise it.

    Returns:
        The decision. It never raises for want of results.
    """
    own = [one for one in results if (one.node, one.stack.fingerprint) == (node, fingerprint)]
    usable = [one for one in own if one.meaning.figures or accept_meaningless]
    if not usable:
        return _keep(configured, _nothing(results, own, node, fingerprint))
    newest = max(usable, key=lambda one: one.started)
    base = _setting_of(newest, configured)
    when = f"benchmark of {day(newest.started)}, profile {profile}"
    if base is None:
        base = next((one for one in newest.settings if one.id == OFF), None)
        if base is None:
            return _keep(configured, f"neither it nor {OFF!r} was measured; {when}")
    points = decisive_points(newest, profile)
    asked = _Question(Summary(newest), base, points, profile, margin)
    trials = [_try(asked, one) for one in newest.settings if one.id != base.id]
    better = [one for one in trials if one.verdict == "better" and not one.objection]
    if not better:
        if base.draft != configured:
            # What is configured was not measured itself: all that is known is how off does.
            when = f"the configured setting was not measured; {when}"
        return _keep(
            configured,
            f"{_why_not(trials, asked)}; {when}",
            measured=base.draft == configured
            and {"worse"} == {one.verdict for one in trials if not one.objection},
        )
    # Where one misses a point, its others would be weighed against those of a longer row.
    common = [one for one in points if all(one in trial.gains for trial in better)]
    best = max(better, key=lambda one: one.over(common))
    on = best.setting.speculation
    reason = f"speculation {'on' if on else 'off'}: {best.told(asked)}; {when}"
    return Decision(on, best.setting.draft, measured=True, reason=reason)


def decisive_points(document: Document, profile: Profile) -> list[Point]:
    """The points that a profile looks at: of each shape those of few requests, or of most.

    `latency`: concurrency up to 4, or the lowest where none is. `throughput`: at least half of the
    highest concurrency.
    """
    found: list[Point] = []
    for group in shapes(document.points).values():
        lowest, highest = group[0].concurrency, group[-1].concurrency
        if profile == "latency":
            found += [one for one in group if one.concurrency <= max(_FEW_REQUESTS, lowest)]
        else:
            found += [one for one in group if 2 * one.concurrency >= highest]
    return found


def _needed(points: Sequence[Point], profile: Profile) -> list[Point]:
    """Of each shape the point that a profile is most about; without it nothing follows."""
    end = 0 if profile == "latency" else -1
    return [group[end] for group in shapes(points).values()]


def _try(asked: _Question, setting: Setting) -> _Trial:
    summary, base, points = asked.summary, asked.base, asked.points
    metric, margin = asked.metric, asked.margin
    needed = _needed(points, asked.profile)
    gains: dict[Point, Gain] = {}
    for point in points:
        for one in (setting, base):
            cell = summary.cell(one.id, point.id)
            if cell.state == "failed":
                told = f"failed at {point.id}: {cell.reasons[0]}"
                whose = "" if one is setting else f"cannot be compared, {one.label} "
                return _Trial(setting, {}, "unknown", whose + told)
        found = summary.gain(setting.id, base.id, point.id, metric)
        if found is not None and (found.noise is not None or point in needed):
            gains[point] = found
    whole = mean(list(gains.values()))
    missed = [
        f"{one.label} was not measured at {point.id}"
        for point in needed
        for one in (setting, base)
        if summary.sample(one.id, point.id, metric) is None
    ]
    if whole is None or missed:
        return _Trial(setting, gains, "unknown", f"cannot be compared, {listed(missed)}")
    verdict = whole.verdict(metric, margin)
    against = [p for p, one in gains.items() if one.verdict(metric, margin) == "worse"]
    if verdict == "better" and against:
        point = against[0]
        told = f"{percent(gains[point].change)} at concurrency {point.concurrency}"
        return _Trial(setting, gains, verdict, f"better in the mean, but {told}")
    if verdict == "better" and asked.profile == "latency":
        return _Trial(setting, gains, verdict, _first_token(asked, setting, whole))
    return _Trial(setting, gains, verdict)


def _first_token(asked: _Question, setting: Setting, gained: Gain) -> str:
    """An objection where the first token is later by more than the answer is faster."""
    waits = [
        asked.summary.gain(setting.id, asked.base.id, point.id, TTFT) for point in asked.points
    ]
    later = mean([one for one in waits if one is not None])
    if later is None or later.verdict(TTFT, max(gained.change, 0.0)) != "worse":
        return ""
    return (
        f"the first token comes later by {percent(later.change)}, more than the "
        f"{percent(gained.change)} that the answer gains"
    )


def _why_not(trials: Sequence[_Trial], asked: _Question) -> str:
    if not trials:
        return f"nothing but {asked.base.label} was measured"
    return "; ".join(
        f"{one.setting.label} {one.objection}"
        if one.objection
        else one.told(asked) + _weight(one, asked.margin)
        for one in trials
    )


def _weight(trial: _Trial, margin: float) -> str:
    return {
        "same": f", not outside the noise by the margin of {share(margin)}",
        "unknown": ", and it takes two runs of each to know",
    }.get(trial.verdict, "")


def _nothing(
    results: Sequence[Document], own: Sequence[Document], node: str, fingerprint: str
) -> str:
    if own:
        return f"the benchmark of this stack means nothing ({own[-1].meaning.reason})"
    others = sorted({one.stack.stack for one in results if one.node == node})
    if others:
        only = f"only of {listed(others)}"
        return f"no benchmark of this very stack ({fingerprint}) on this node, {only}"
    return "no benchmark of this stack on this node"


def _setting_of(document: Document, draft: Draft | None) -> Setting | None:
    return next((one for one in document.settings if one.draft == draft), None)


def _keep(configured: Draft | None, why: str, *, measured: bool = False) -> Decision:
    on = configured is not None
    return Decision(on, configured, measured, f"speculation stays {'on' if on else 'off'}: {why}")
