# SPDX-License-Identifier: Apache-2.0
"""The node's result beside those of earlier stacks, and beside references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import words
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decode import decode
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import (
    RATE,
    THROUGHPUT,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.regression import (
    Regression,
    regression,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    Point,
    Setting,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import (
    Gain,
    Sample,
    Summary,
    compare,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.view import (
    launch_arguments,
)

# More columns than that nobody reads.
MOST = 4


@dataclass(frozen=True)
class Beside:
    """One point under one setting, in this result and in another.

    Attributes:
        ours: Output tokens a second here; None where it was not measured.
        theirs: There.
        gain: The change from there to here; None where one is missing.
    """

    setting: Setting
    point: Point
    ours: Sample | None
    theirs: Sample | None
    gain: Gain | None

    @property
    def change(self) -> str:
        """`+4.1 % ± 2.0 %`; a dash where one is missing."""
        return words.gain_cell(self.gain)


@dataclass(frozen=True)
class Comparison:
    """This result against one other."""

    other: Document
    regression: Regression
    rows: tuple[Beside, ...]


@dataclass(frozen=True)
class Reference:
    """A figure measured elsewhere, for orientation.

    Attributes:
        id: Names it.
        label: What was measured.
        load: `single_stream` (one request) or `peak` (all requests together).
        speculation: Whether it speculated.
        low: Output tokens a second; lowest of the range.
        high: Highest of it, the same for a single figure.
        source: Where the figure is from.
    """

    id: str
    label: str
    load: Literal["single_stream", "peak"]
    speculation: bool
    low: float
    high: float
    source: str

    @property
    def text(self) -> str:
        """`89.5 to 92.6 tok/s`."""
        digits = 0 if self.low >= 1000 else 1
        low, high = words.number(self.low, digits), words.number(self.high, digits)
        return f"{low if low == high else f'{low} to {high}'} tok/s"


@dataclass(frozen=True)
class References:
    """Figures of other places and what they were measured on."""

    hardware: str
    note: str
    rows: tuple[Reference, ...]


def references(data: object) -> References:
    """Read `references.yml`.

    Raises:
        SchemaError: it does not fit.
    """
    found: References = decode(References, data, "references")
    return found


def own(summary: Summary, reference: Reference) -> str:
    """The node's own figure beside a reference: of the same load, with or without speculation."""
    metric = RATE if reference.load == "single_stream" else THROUGHPUT
    document = summary.document
    points = [one for one in document.points if reference.load == "peak" or one.concurrency == 1]
    found = [
        (sample.median, setting.label, point.concurrency)
        for setting in document.settings
        if setting.speculation == reference.speculation
        for point in points
        if (sample := summary.sample(setting.id, point.id, metric)) is not None
    ]
    if not found:
        return "not measured"
    value, label, concurrency = max(found)
    return f"{words.figure(value, metric)} ({label}, concurrency {concurrency})"


def others(document: Document, stored: Sequence[Document]) -> list[Document]:
    """Which stored results are worth a comparison: of each other stack or node the newest.

    Returns:
        The newest first, the node's own before others'.
    """
    mine = (document.node, document.stack.fingerprint)
    newest: dict[tuple[str, str], Document] = {}
    for one in sorted(stored, key=lambda one: one.started):
        key = (one.node, one.stack.fingerprint)
        if key != mine:
            newest[key] = one
    found = sorted(newest.values(), key=lambda one: one.started, reverse=True)
    return sorted(found, key=lambda one: one.node != document.node)[:MOST]


def beside(document: Document, other: Document, tolerance: float) -> Comparison:
    """Compare with one other result, the other being the one before."""
    ours, theirs = Summary(document), Summary(other)
    found = regression(other, document, tolerance, accept_meaningless=True)
    rows = []
    for setting, point in _shared(document, other):
        mine = ours.sample(setting.id, point.id, THROUGHPUT)
        its = theirs.sample(setting.id, point.id, THROUGHPUT)
        if mine is None and its is None:
            continue
        gain = compare(mine, its) if mine and its else None
        rows.append(Beside(setting, point, mine, its, gain))
    return Comparison(other, found, tuple(rows))


def _shared(document: Document, other: Document) -> list[tuple[Setting, Point]]:
    """Settings and points of either, this document's first."""
    settings: dict[str, Setting] = {one.id: one for one in other.settings}
    settings.update({one.id: one for one in document.settings})
    points: dict[str, Point] = {one.id: one for one in other.points}
    points.update({one.id: one for one in document.points})
    by_load = sorted(
        points.values(), key=lambda p: (p.input_tokens, p.output_tokens, p.concurrency)
    )
    return [(setting, point) for point in by_load for setting in settings.values()]


def differences(document: Document, other: Document) -> list[tuple[str, str, str]]:
    """What differs between two stacks: name, there, here."""
    was, now = _facts(other), _facts(document)
    return [
        (name, was.get(name, "-"), now.get(name, "-"))
        for name in dict.fromkeys((*now, *was))
        if was.get(name, "-") != now.get(name, "-")
    ]


def _facts(document: Document) -> dict[str, str]:
    stack = document.stack
    named = {
        "release": stack.release,
        "SGLang": stack.sglang,
        "torch": stack.torch,
        "CUDA": stack.cuda,
        "driver": stack.driver,
        "patches": ", ".join(stack.patches),
        **{f"--{name}": said for name, said in launch_arguments(stack).items()},
        **stack.environment,
    }
    return {name: value for name, value in named.items() if value}
