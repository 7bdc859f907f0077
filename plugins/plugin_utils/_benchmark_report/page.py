# SPDX-License-Identifier: Apache-2.0
"""Lays the report out as one HTML page that needs nothing beside it."""

from __future__ import annotations

from pathlib import Path

import jinja2
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import words
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    BY_ID,
    THROUGHPUT,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import Sample
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report import charts
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.comparison import (
    Comparison,
    Reference,
    References,
    differences,
    own,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.figures import (
    Chart,
    Range,
    change_charts,
    groups,
    reference_ranges,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.view import (
    GAUGES,
    LATENCIES,
    View,
    facts,
    kv_percent,
    launch_arguments,
    serving,
    shape_words,
)
from markupsafe import Markup

_HERE = Path(__file__).parent


def page(view: View, comparisons: list[Comparison], references: References) -> str:
    """The page."""
    document = view.document
    ranges = reference_ranges(view, references)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        day=words.day,
        shape=shape_words,
        gain=words.gain_cell,
        kv=kv_percent,
        draw=_draw,
        rate=_rate,
        own=lambda reference: _own(view, reference),
    )
    return environment.get_template("page.html.j2").render(
        view=view,
        style=Markup((_HERE / "page.css").read_text("utf-8")),  # noqa: S704 - our own file
        serving=serving(view),
        legend=lambda number: [
            (one, Markup(charts.legend(style, f"legend-{number}-{style}")))  # noqa: S704 - drawn
            for style, one in enumerate(document.settings)
        ],
        charts=[groups(view, table) for table in view.tables],
        metrics=BY_ID,
        latencies=LATENCIES,
        gauges=[one for one in GAUGES if one.id in view.has],
        comparisons=comparisons,
        changes=lambda one: change_charts(view, one, comparisons.index(one)),
        differences=lambda other: differences(document, other),
        references=references,
        ranges=_ranges(ranges),
        facts=facts(document.stack),
        arguments=launch_arguments(document.stack),
        repeats=_times(max((run.repeat for run in document.runs), default=0)),
    )


def _draw(chart: Chart) -> Markup:
    return Markup(charts.draw(chart))  # noqa: S704 - the drawing escapes the texts in it


def _ranges(ranges: tuple[Range, ...]) -> Markup:
    if not ranges:
        return Markup("")
    alt = "One request, output tokens a second. " + ". ".join(
        f"{one.label}: {one.told}" for one in ranges
    )
    return Markup(charts.draw_ranges(ranges, "references", alt))  # noqa: S704 - as above


def _rate(sample: Sample | None) -> str:
    return "-" if sample is None else words.number(sample.median, THROUGHPUT.digits)


def _own(view: View, reference: Reference) -> str:
    return own(view.summary, reference)


def _times(repeats: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(repeats, f"{repeats} times")
