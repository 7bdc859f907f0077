# SPDX-License-Identifier: Apache-2.0
"""Which charts the report has and what is drawn in them; nothing is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import words
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    ACCEPT,
    BY_ID,
    KV_USE,
    RATE,
    THROUGHPUT,
    Metric,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    OFF,
    Point,
    Setting,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import (
    Gain,
    Sample,
    shapes,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.comparison import (
    Comparison,
    References,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.view import (
    GAUGES,
    Row,
    Table,
    View,
    shape_words,
)


@dataclass(frozen=True)
class Mark:
    """One point of a line.

    Attributes:
        low: Lower end of its bar; the same as `y` where there is none.
        high: Upper end of it.
        told: What it says when pointed at.
        hollow: Drawn without filling: it says less than the others.
    """

    x: float
    y: float
    low: float
    high: float
    told: str
    hollow: bool = False


@dataclass(frozen=True)
class Line:
    """One setting in a chart; `style` is its index in the document, the same in every chart."""

    label: str
    style: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Band:
    """Where a setting stops paying: between two concurrencies."""

    low: float
    high: float
    style: int
    label: str


@dataclass(frozen=True)
class Chart:
    """One chart against concurrency.

    Attributes:
        id: Unique on the page.
        unit: Label of the vertical axis.
        alt: The same in words, for those who cannot see it.
        floor: Where the vertical axis begins; None leaves that to the figures.
        ceiling: Where it ends; likewise.
        sides: What lies above and below 0, where it shows changes; empty where it does not.
        large: Whether it is one of the two large ones.
    """

    id: str
    title: str
    unit: str
    alt: str
    lines: tuple[Line, ...]
    bands: tuple[Band, ...] = ()
    floor: float | None = 0.0
    ceiling: float | None = None
    sides: tuple[str, ...] = ()
    large: bool = False


@dataclass(frozen=True)
class Group:
    """Charts that stand side by side under one heading."""

    title: str
    charts: tuple[Chart, ...]


def groups(view: View, table: Table) -> list[Group]:
    """The charts of one shape; those without figures are left out."""
    number = view.tables.index(table)
    made = _Maker(view, table, number)
    latency = {
        what: [made.metric(BY_ID[f"{what}.{which}"], which) for which in ("p50", "p95", "p99")]
        for what in ("ttft_ms", "itl_ms")
    }
    found = [
        ("Throughput", [made.gains(), made.metric(THROUGHPUT, THROUGHPUT.label, large=True)]),
        (
            "One request and its drafts",
            [
                made.metric(RATE, RATE.label),
                made.metric(ACCEPT, ACCEPT.label, floor=1.0),
                made.share(),
            ],
        ),
        ("Time to first token", latency["ttft_ms"]),
        ("Time between tokens", latency["itl_ms"]),
        ("GPUs", [made.metric(one, one.label) for one in GAUGES]),
    ]
    return [
        Group(title, kept)
        for title, charts in found
        if (kept := tuple(one for one in charts if one is not None))
    ]


class _Maker:
    """Makes the charts of one table."""

    def __init__(self, view: View, table: Table, number: int) -> None:
        self.view, self.table, self.number = view, table, number
        self.settings = list(view.document.settings)

    def metric(
        self, metric: Metric, title: str, *, floor: float = 0.0, large: bool = False
    ) -> Chart | None:
        """A figure with its spread, a line for each setting."""

        def mark(row: Row, sample: Sample) -> Mark:
            spread = sample.spread or 0.0
            around = words.number(spread, metric.digits)
            told = f"{words.figure(sample.median, metric)}, spread {around}"
            return Mark(
                row.point.concurrency,
                sample.median,
                max(sample.median - spread, min(sample.values.values())),
                min(sample.median + spread, max(sample.values.values())),
                f"{self._name(row)}: {told}, {sample.runs} runs",
                hollow=sample.runs < 2,
            )

        bands = self._bands() if metric is THROUGHPUT else ()
        return self._chart(metric, title, mark, bands=bands, floor=floor, large=large)

    def share(self) -> Chart | None:
        """The used share of the KV pool, in per cent."""

        def mark(row: Row, sample: Sample) -> Mark:
            value = 100 * sample.median
            low, high = (100 * one(sample.values.values()) for one in (min, max))
            return Mark(
                row.point.concurrency, value, low, high, f"{self._name(row)}: {value:.0f} %"
            )

        return self._chart(KV_USE, KV_USE.label, mark, unit="%", ceiling=100.0)

    def gains(self) -> Chart | None:
        """Each setting's gain over `off`, with the interval that the noise leaves."""
        lines = []
        for style, setting in enumerate(self.settings):
            marks = [
                _change(row.gain, row.point, setting)
                for row in self._rows(setting)
                if row.gain is not None
            ]
            if marks:
                lines.append(Line(setting.label, style, tuple(marks)))
        if not lines:
            return None
        return Chart(
            id=f"gain-{self.number}",
            title="Gain in output tokens a second over no speculation",
            unit="%",
            alt=self._alt("Gain over no speculation by concurrency", lines),
            lines=tuple(lines),
            bands=self._bands(),
            floor=None,
            sides=("pays", "costs"),
            large=True,
        )

    def _chart(
        self,
        metric: Metric,
        title: str,
        mark: Callable[[Row, Sample], Mark],
        *,
        unit: str = "",
        bands: tuple[Band, ...] = (),
        floor: float | None = 0.0,
        ceiling: float | None = None,
        large: bool = False,
    ) -> Chart | None:
        lines = []
        for style, setting in enumerate(self.settings):
            marks = [
                mark(row, row.samples[metric.id])
                for row in self._rows(setting)
                if metric.id in row.samples
            ]
            if marks:
                lines.append(Line(setting.label, style, tuple(marks)))
        if not lines:
            return None
        return Chart(
            id=f"{metric.id.replace('.', '-')}-{self.number}",
            title=title,
            unit=unit or metric.unit,
            alt=self._alt(f"{metric.label} by concurrency", lines),
            lines=tuple(lines),
            bands=bands,
            floor=floor,
            ceiling=ceiling,
            large=large,
        )

    def _rows(self, setting: Setting) -> Iterator[Row]:
        return (row for row in self.table.rows if row.setting.id == setting.id)

    def _bands(self) -> tuple[Band, ...]:
        styles = {one.id: style for style, one in enumerate(self.settings)}
        return tuple(
            Band(
                one.found.pays_to,
                one.found.stops_at,
                styles[one.setting.id],
                f"break-even {one.found.pays_to} to {one.found.stops_at}",
            )
            for one in self.view.verdicts
            if one.shape == self.table.shape
            and one.found.pays_to is not None
            and one.found.stops_at is not None
        )

    @staticmethod
    def _name(row: Row) -> str:
        return f"{row.setting.label}, concurrency {row.point.concurrency}"

    def _alt(self, what: str, lines: Sequence[Line]) -> str:
        told = [_in_words(line) for line in lines]
        if what.startswith(("Gain", THROUGHPUT.label)):
            told += [f"{one.label} ({self.settings[one.style].label})" for one in self._bands()]
        return f"{what}, {shape_words(self.table.shape)}. {'. '.join(told)}."


def change_charts(view: View, comparison: Comparison, number: int) -> tuple[Chart, ...]:
    """How much faster or slower than another result, by concurrency; one chart a shape."""
    charts: list[Chart] = []
    for shape, points in shapes(view.document.points).items():
        lines = [
            Line(setting.label, style, marks)
            for style, setting in enumerate(view.document.settings)
            if (marks := _changes(comparison, setting, points))
        ]
        if lines:
            title = f"Change in output tokens a second, {shape_words(shape)}"
            charts.append(
                Chart(
                    id=f"change-{number}-{len(charts)}",
                    title=title,
                    unit="%",
                    alt=f"{title}, by concurrency. {'. '.join(map(_in_words, lines))}.",
                    lines=tuple(lines),
                    floor=None,
                    sides=("faster", "slower"),
                    large=True,
                )
            )
    return tuple(charts)


def _changes(comparison: Comparison, setting: Setting, points: Sequence[Point]) -> tuple[Mark, ...]:
    gains = {row.point.id: row.gain for row in comparison.rows if row.setting.id == setting.id}
    found = [(point, gains.get(point.id)) for point in points]
    return tuple(_change(gain, point, setting) for point, gain in found if gain is not None)


def _change(gain: Gain, point: Point, setting: Setting) -> Mark:
    """A mark of a chart of changes, its bar what the noise leaves open."""
    noise = gain.noise or 0.0
    return Mark(
        point.concurrency,
        100 * gain.change,
        100 * (gain.change - noise),
        100 * (gain.change + noise),
        f"{setting.label}, concurrency {point.concurrency}: {words.gain(gain)}",
        hollow=gain.verdict(THROUGHPUT) not in {"better", "worse"},
    )


def _in_words(line: Line) -> str:
    told = ", ".join(f"{mark.told.partition(': ')[2]} at {mark.x:g}" for mark in line.marks)
    return f"{line.label}: {told}"


@dataclass(frozen=True)
class Range:
    """One row of the reference chart; `style` is None for a reference."""

    label: str
    low: float
    high: float
    style: int | None
    told: str


def reference_ranges(view: View, references: References) -> tuple[Range, ...]:
    """One request's rate on this node and at the references; empty where it says nothing."""
    document = view.document
    if not document.meaning.figures:
        return ()
    own = []
    for style, setting in enumerate(document.settings):
        values = [
            row.samples[RATE.id].median
            for table in view.tables
            for row in table.rows
            if row.setting.id == setting.id
            and row.point.concurrency == 1
            and RATE.id in row.samples
        ]
        if values:
            told = f"{words.figure(max(values), RATE)} on this node"
            name = "no speculation" if setting.id == OFF else setting.label
            own.append(Range(f"this node, {name}", min(values), max(values), style, told))
    if not own:
        return ()
    return (
        *own,
        *(
            Range(one.label.partition(" (")[0], one.low, one.high, None, f"{one.text}, reference")
            for one in references.rows
            if one.load == "single_stream"
        ),
    )
