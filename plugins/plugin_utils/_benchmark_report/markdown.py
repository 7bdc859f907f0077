# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown, for a ticket or a terminal, and as JSON, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import words
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    ACCEPT,
    BY_ID,
    RATE,
    THROUGHPUT,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.comparison import (
    Comparison,
    References,
    differences,
    own,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.view import (
    LATENCIES,
    Row,
    View,
    facts,
    kv_percent,
    launch_arguments,
    serving,
    shape_words,
)


def markdown(view: View, comparisons: Sequence[Comparison], references: References) -> str:
    """The report as Markdown."""
    document = view.document
    lines = [f"# {view.title}", ""]
    if not document.meaning.figures:
        lines += [f"**These figures mean nothing.** {document.meaning.reason}", ""]
    lines += [f"- {line}" for line in verdict_lines(view)]
    lines += [f"- serves with: {serving(view) or 'none of the settings measured'}"]
    lines += [f"- profile {profile}: {reason}" for profile, reason in view.decisions.items()]
    for table in view.tables:
        lines += ["", f"## {shape_words(table.shape)}", ""]
        lines += _table(
            (
                "requests at a time",
                "setting",
                "runs",
                "tok/s, all",
                "against no speculation",
                "tok/s, one",
                "TTFT p50/p95/p99 ms",
                "between tokens p50/p95/p99 ms",
                "accept length",
                "KV pool",
            ),
            (_cells(row) for row in table.rows),
        )
    if view.notes:
        lines += ["", "## What to know before trusting this", ""]
        lines += [f"- {note}" for note in view.notes]
    for one in comparisons:
        lines += [
            "",
            f"## Against {one.other.stack.stack} ({words.day(one.other.started)} UTC)",
            "",
        ]
        lines += [f"{one.regression.verdict}: {one.regression.reason}", ""]
        lines += _table(
            ("load", "setting", "before, tok/s", "now, tok/s", "change"),
            (
                (
                    row.point.id,
                    row.setting.label,
                    words.number(row.theirs.median, 1) if row.theirs else "-",
                    words.number(row.ours.median, 1) if row.ours else "-",
                    row.change,
                )
                for row in one.rows
            ),
        )
    lines += ["", f"## References: {references.hardware}", "", references.note.strip(), ""]
    lines += _table(
        ("reference", "figure", "this node", "source"),
        ((o.label, o.text, own(view.summary, o), o.source) for o in references.rows),
    )
    # What an engine or an operator wrote must not become markup where this is pasted.
    lines = [line.replace("<", "&lt;") for line in lines]
    lines += ["", "## The stack", ""]
    lines += [f"- {name}: {value}" for name, value in facts(document.stack)]
    lines += [f"- `{one}`" for one in launch_arguments(document.stack).values()]
    lines += [f"- `{name}={value}`" for name, value in document.stack.environment.items()]
    return "\n".join(lines) + "\n"


def verdict_lines(view: View) -> list[str]:
    """One line for each setting and shape, such as an operator reads at the end of a run."""
    return [
        f"{one.setting.label} {one.found.text} ({shape_words(one.shape)})" for one in view.verdicts
    ] or ["nothing was measured with speculation"]


def plain(view: View, comparisons: Sequence[Comparison], references: References) -> dict[str, Any]:
    """The report's figures as JSON values; docs/benchmark.md explains the keys."""
    document = view.document
    return {
        "schema": 1,
        "node": document.node,
        "started": document.started,
        "fingerprint": document.stack.fingerprint,
        "means_something": document.meaning.figures,
        "verdicts": [
            {
                "setting": one.setting.id,
                "shape": shape_words(one.shape),
                "kind": one.found.kind,
                "pays_to": one.found.pays_to,
                "stops_at": one.found.stops_at,
                "text": one.found.text,
            }
            for one in view.verdicts
        ],
        "decisions": dict(view.decisions),
        "points": [_plain_row(row) for table in view.tables for row in table.rows],
        "notes": list(view.notes),
        "comparisons": [
            {
                "node": one.other.node,
                "stack": one.other.stack.stack,
                "started": one.other.started,
                "verdict": one.regression.verdict,
                "reason": one.regression.reason,
                "incomparable": list(one.regression.incomparable),
                "changed": [list(change) for change in differences(document, one.other)],
            }
            for one in comparisons
        ],
        "references": [
            {"id": o.id, "low": o.low, "high": o.high, "this_node": own(view.summary, o)}
            for o in references.rows
        ],
    }


def _plain_row(row: Row) -> dict[str, Any]:
    return {
        "setting": row.setting.id,
        "point": row.point.id,
        "concurrency": row.point.concurrency,
        "state": row.state,
        "why": row.why,
        "gain": None
        if row.gain is None
        else {"change": row.gain.change, "noise": row.gain.noise, "verdict": row.word},
        "figures": {
            name: {
                "unit": BY_ID[name].unit,
                "median": sample.median,
                "spread": sample.spread,
                "runs": sample.runs,
                "outliers": list(sample.outliers),
            }
            for name, sample in row.samples.items()
        },
    }


def _cells(row: Row) -> tuple[str, ...]:
    at = (str(row.point.concurrency), row.setting.label)
    if row.state != "measured":
        why = f"{row.state}: {row.why}" if row.why else row.state
        return (*at, why, *["-"] * 7)
    latencies = [row.cell(one) for one in LATENCIES]
    return (
        *at,
        str(row.samples[THROUGHPUT.id].runs),
        row.cell(THROUGHPUT, spread=True),
        words.gain_cell(row.gain),
        row.cell(RATE, spread=True),
        " / ".join(latencies[:3]),
        " / ".join(latencies[3:]),
        row.cell(ACCEPT),
        kv_percent(row),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return [line(head), "|" + " --- |" * len(head), *map(line, rows)]
