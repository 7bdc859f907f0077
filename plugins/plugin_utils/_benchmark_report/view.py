# SPDX-License-Identifier: Apache-2.0
"""What stands in the report of a benchmark: verdict, tables, notes, comparison, stack.

Page, Markdown and JSON show this one view, so they cannot differ.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils import _launch
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import words
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.breakeven import (
    BreakEven,
    break_even,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decide import (
    Profile,
    decide_speculation,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    ACCEPT,
    KV_USE,
    METRICS,
    RATE,
    THROUGHPUT,
    Metric,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    OFF,
    Document,
    Point,
    Setting,
    Stack,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import (
    Gain,
    Sample,
    Summary,
    shapes,
)

Shape = tuple[str, int, int]
LATENCIES = tuple(one for one in METRICS if one.id.partition(".")[0] in {"ttft_ms", "itl_ms"})
GAUGES = tuple(one for one in METRICS if one.id.startswith("gpu."))
PROFILES: tuple[Profile, ...] = ("latency", "throughput")


@dataclass(frozen=True)
class Verdict:
    """Whether one setting pays on points of one shape.

    Attributes:
        mood: `gain`, `mixed`, `loss` or `unknown`, for the eye; the words say the same.
    """

    setting: Setting
    shape: Shape
    found: BreakEven
    mood: str


@dataclass(frozen=True)
class Row:
    """One point under one setting.

    Attributes:
        state: As of `Cell`.
        why: What went wrong; empty where nothing did.
        samples: By figure.
        gain: Of `THROUGHPUT` over `off`; None for `off` itself or where it cannot be had.
        word: The gain's verdict.
    """

    setting: Setting
    point: Point
    state: str
    why: str
    samples: Mapping[str, Sample]
    gain: Gain | None
    word: str

    def cell(self, metric: Metric, *, spread: bool = False) -> str:
        """A figure as a table shows it, with its spread on demand."""
        sample = self.samples.get(metric.id)
        if sample is None:
            return "-"
        text = words.number(sample.median, metric.digits)
        if not spread or sample.spread is None:
            return text
        return f"{text} ± {words.number(sample.spread, metric.digits)}"


@dataclass(frozen=True)
class Table:
    """All points of one shape, by concurrency, each under every setting."""

    shape: Shape
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Tile:
    """One figure to see at once."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class View:
    """Everything that the report says, before it is laid out."""

    document: Document
    summary: Summary
    verdicts: tuple[Verdict, ...]
    decisions: Mapping[str, str]
    tiles: tuple[Tile, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The page's question."""
        return f"Does speculation pay on {self.document.node}?"

    @property
    def has(self) -> frozenset[str]:
        """Ids of the figures that any point has."""
        return frozenset(
            metric for table in self.tables for row in table.rows for metric in row.samples
        )


def view(document: Document) -> View:
    """Sum a document up for its report."""
    summary = Summary(document)
    grouped = shapes(document.points)
    verdicts = tuple(
        _verdict(summary, setting, shape, points)
        for setting in document.settings
        if setting.speculation
        for shape, points in grouped.items()
    )
    return View(
        document=document,
        summary=summary,
        verdicts=verdicts,
        decisions={profile: _decision(document, profile) for profile in PROFILES},
        tiles=tuple(_tiles(summary)),
        tables=tuple(
            Table(
                shape,
                tuple(_row(summary, one, at) for at in points for one in document.settings),
            )
            for shape, points in grouped.items()
        ),
        notes=tuple(_notes(summary)),
    )


def shape_words(shape: Shape) -> str:
    """`1,024 tokens in, 256 out, random-ids`."""
    dataset, given, asked = shape
    return f"{given:,} tokens in, {asked:,} out, {dataset}"


def _verdict(summary: Summary, setting: Setting, shape: Shape, points: Sequence[Point]) -> Verdict:
    found = break_even(summary, setting.id, points)
    mood = {"always": "gain", "never": "loss", "unknown": "unknown"}.get(found.kind, "mixed")
    if found.kind == "never" and not any(one.verdict == "worse" for one in found.points):
        mood = "mixed"
    return Verdict(setting, shape, found, mood)


def _decision(document: Document, profile: Profile) -> str:
    """What `auto` does with this document alone; a lab's figures are shown the same way."""
    configured = next((o.draft for o in document.settings if o.id == document.configured), None)
    return decide_speculation(
        [document],
        profile,
        node=document.node,
        fingerprint=document.stack.fingerprint,
        configured=configured,
        accept_meaningless=True,
    ).reason


def _row(summary: Summary, setting: Setting, point: Point) -> Row:
    cell = summary.cell(setting.id, point.id)
    samples = {
        metric.id: sample
        for metric in METRICS
        if (sample := summary.sample(setting.id, point.id, metric)) is not None
    }
    gain = None if setting.id == OFF else summary.gain(setting.id, OFF, point.id, THROUGHPUT)
    return Row(
        setting,
        point,
        cell.state,
        "; ".join(cell.reasons),
        samples,
        gain,
        gain.verdict(THROUGHPUT) if gain else "",
    )


def _tiles(summary: Summary) -> Iterator[Tile]:
    """The figures that people compare: one request alone, the peak, the accept length."""
    document = summary.document
    lowest = min(document.points, key=lambda one: one.concurrency, default=None)
    off = {OFF} & {one.id for one in document.settings}
    on = [one for one in document.settings if one.speculation]
    if lowest is not None:
        for setting in (*(one for one in document.settings if one.id in off), *on):
            sample = summary.sample(setting.id, lowest.id, RATE)
            if sample is not None:
                yield Tile(
                    f"One request, {setting.label}",
                    words.figure(sample.median, RATE),
                    f"at concurrency {lowest.concurrency}",
                )
    best = _best(summary, THROUGHPUT)
    if best is not None:
        setting, point, sample = best
        yield Tile(
            "Peak, all requests",
            words.figure(sample.median, THROUGHPUT),
            f"{setting.label}, at concurrency {point.concurrency}",
        )
    for setting in on:
        lengths = [
            sample.median
            for point in document.points
            if (sample := summary.sample(setting.id, point.id, ACCEPT)) is not None
        ]
        if lengths:
            low, high = (words.number(one, ACCEPT.digits) for one in (min(lengths), max(lengths)))
            yield Tile(
                f"Accept length, {setting.label}",
                low if low == high else f"{low} to {high}",
                "tokens a verify step",
            )


def _best(summary: Summary, metric: Metric) -> tuple[Setting, Point, Sample] | None:
    found = [
        (setting, point, sample)
        for setting in summary.document.settings
        for point in summary.document.points
        if (sample := summary.sample(setting.id, point.id, metric)) is not None
    ]
    return max(found, key=lambda one: one[2].median, default=None)


def _notes(summary: Summary) -> Iterator[str]:
    """What a reader must know before trusting the figures."""
    labels = {one.id: one.label for one in summary.document.settings}
    for setting in summary.document.settings:
        for point in summary.document.points:
            cell = summary.cell(setting.id, point.id)
            where = f"{setting.label}, {point.id}"
            why = f": {'; '.join(cell.reasons)}" if cell.reasons else ""
            if cell.state == "missing":
                yield f"{where}: not measured"
            elif cell.failed or cell.skipped:
                counts = [
                    f"{count} {word}"
                    for count, word in (
                        (cell.ok, "ok"),
                        (cell.failed, "failed"),
                        (cell.skipped, "skipped"),
                    )
                    if count
                ]
                yield f"{where}: of its runs {words.listed(counts)}{why}"
            if cell.lost_requests:
                yield f"{where}: {cell.lost_requests} requests were not answered in full"
    for setting_id, point_id, metric, repeat, sample in summary.outliers(
        (THROUGHPUT, RATE, *LATENCIES)
    ):
        yield (
            f"{labels[setting_id]}, {point_id}: run {repeat} is an outlier in "
            f"{metric.label.lower()}: {words.figure(sample.values[repeat], metric)} against a "
            f"median of {words.number(sample.median, metric.digits)}; it stays in the median"
        )
    if any(len(one) == 1 for one in _repeats(summary)):
        yield "Points with a single run have no spread: nothing follows from their differences"


def _repeats(summary: Summary) -> Iterator[Mapping[int, float]]:
    for setting in summary.document.settings:
        for point in summary.document.points:
            if (sample := summary.sample(setting.id, point.id, THROUGHPUT)) is not None:
                yield sample.values


def kv_percent(row: Row) -> str:
    """The used share of the KV pool, `55 %`."""
    sample = row.samples.get(KV_USE.id)
    return "-" if sample is None else f"{100 * sample.median:.0f} %"


def launch_arguments(stack: Stack) -> dict[str, str]:
    """Each launch argument as it stands on the command line, by name; those left out are not there.

    A result may hold what is no argument here; it is shown as it is.
    """
    found = {}
    for name, value in sorted(stack.arguments.items()):
        try:
            words_of = _launch.render_arguments({name: value})
        except _launch.LaunchError:
            words_of = [f"--{name}", str(value)]
        if words_of:
            found[name] = shlex.join(words_of)
    return found


def serving(view: View) -> str:
    """Label of the setting that serves; empty where it is none of those measured."""
    document = view.document
    return next((o.label for o in document.settings if o.id == document.configured), "")


def facts(stack: Stack) -> list[tuple[str, str]]:
    """Name and value of what served, without arguments and environment."""
    gpus = f"{stack.gpu_count}x {stack.gpu}" if stack.gpu else "none"
    return [
        ("fingerprint", stack.fingerprint),
        ("release", stack.release),
        ("stack", stack.stack),
        ("SGLang", stack.sglang),
        ("torch", stack.torch or "unknown"),
        ("CUDA", stack.cuda or "none"),
        ("driver", stack.driver or "none"),
        ("GPUs", gpus),
        ("target model", stack.model or "unknown"),
        ("draft model", stack.draft_model or "none"),
        ("patches", ", ".join(stack.patches) or "none"),
    ]
