# SPDX-License-Identifier: Apache-2.0
"""Draws charts as SVG that takes its colours from the page, so one drawing serves both themes.

Importing this costs a second, and matplotlib has to be there: only `files.report` does, on demand.
matplotlib draws with placeholder colours; each is then replaced by a custom property of the page.
Text stays text: it is set in the page's font, can be searched, and is small.
"""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.figures import (
    Chart,
    Mark,
    Range,
)
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

STYLES = 6
"""How many settings look different; further ones begin anew."""
_COLOURS = {
    "ink": "#010101",
    "muted": "#010102",
    "grid": "#010103",
    "surface": "#010104",
    **{f"s{style}": f"#01010{5 + style}" for style in range(STYLES)},
}
_MARKERS = "osD^vP"
_DASHES: tuple[Any, ...] = ((0, (4, 2)), "-", (0, (6, 2, 1, 2)), (0, (1, 1.2)), "-.", "--")
# Points to the inch of the drawing's own size, and that size: large and small charts.
_LARGE, _SMALL = (4.6, 3.0), (3.5, 2.35)
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sm120.sglang",
    "font.size": 9,
    "axes.linewidth": 0.8,
    "text.color": _COLOURS["ink"],
    "axes.edgecolor": _COLOURS["muted"],
    "axes.labelcolor": _COLOURS["muted"],
    "xtick.color": _COLOURS["muted"],
    "ytick.color": _COLOURS["muted"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _COLOURS["grid"],
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(chart: Chart) -> str:
    """Draw a chart.

    Returns:
        An `svg` element to stand in a page that has the custom properties `--ink`, `--muted`,
        `--grid`, `--surface` and `--s0` to `--s5`.
    """
    with rc_context(_RC):
        figure = Figure(figsize=_LARGE if chart.large else _SMALL, layout="constrained")
        axes = figure.subplots()
        told = _lines(axes, chart)
        _across(axes, chart)
        _upwards(axes, chart)
        for band in chart.bands:
            axes.axvspan(band.low, band.high, color=_series(band.style), alpha=0.14, linewidth=0)
            if len(chart.bands) == 1:
                axes.annotate(
                    band.label,
                    (math.sqrt(band.low * band.high), 1),
                    xycoords=("data", "axes fraction"),
                    xytext=(0, 4),
                    textcoords="offset points",
                    ha="center",
                    color=_COLOURS["ink"],
                )
        return _svg(figure, chart.id, chart.alt, told)


def draw_ranges(ranges: Sequence[Range], identity: str, alt: str) -> str:
    """Draw rows of figures or ranges from zero on, each with its label and value."""
    with rc_context({**_RC, "axes.grid.axis": "x", "axes.spines.left": False}):
        figure = Figure(figsize=(4.1, 0.5 + 0.45 * len(ranges)), layout="constrained")
        axes = figure.subplots()
        told = {}
        top = max(one.high for one in ranges)
        for index, one in enumerate(ranges):
            colour = _COLOURS["muted"] if one.style is None else _series(one.style)
            marker = "|" if one.style is None else _MARKERS[one.style % STYLES]
            name = f"mark-{index}"
            (drawn,) = axes.plot(
                [one.low, one.high],
                [index, index],
                color=colour,
                marker=marker,
                markersize=10 if marker == "|" else 7,
                markeredgewidth=2,
                linewidth=3,
                gid=name,
            )
            drawn.set_solid_capstyle("butt")
            told[name] = one.told
            value = one.told.partition(" tok/s")[0]
            axes.annotate(one.label, (0, index), (2, 9), textcoords="offset points")
            axes.annotate(value, (one.high, index), (8, 0), textcoords="offset points", va="center")
        axes.set_xlim(0, top * 1.28)
        axes.set_ylim(len(ranges) - 0.5, -0.8)
        axes.set_yticks([])
        axes.set_xlabel("tok/s, one request")
        return _svg(figure, identity, alt, told)


def _series(style: int) -> str:
    return _COLOURS[f"s{style % STYLES}"]


def _lines(axes: Axes, chart: Chart) -> dict[str, str]:
    """Draw the lines; returns what each mark says, by its id."""
    told = {}
    middle = (len(chart.lines) - 1) / 2
    for number, line in enumerate(chart.lines):
        # Bars of lines that run together stand beside each other, not on top of each other.
        shift = 1.045 ** (number - middle)
        colour, marker = _series(line.style), _MARKERS[line.style % STYLES]
        axes.plot(
            [mark.x * shift for mark in line.marks],
            [mark.y for mark in line.marks],
            color=colour,
            linewidth=1.8,
            linestyle=_DASHES[line.style % STYLES],
            gid=f"line-{line.style}",
        )
        for index, mark in enumerate(line.marks):
            name = f"mark-{line.style}-{index}"
            told[name] = mark.told
            _mark(axes, mark, mark.x * shift, (colour, marker, name))
    return told


def _mark(axes: Axes, mark: Mark, at: float, look: tuple[str, str, str]) -> None:
    colour, marker, name = look
    if mark.high > mark.low:
        axes.errorbar(
            [at],
            [mark.y],
            yerr=[[max(0.0, mark.y - mark.low)], [max(0.0, mark.high - mark.y)]],
            color=colour,
            elinewidth=1.2,
            capsize=2.6,
            fmt="none",
        )
    axes.plot(
        [at],
        [mark.y],
        marker=marker,
        markersize=5.5,
        markeredgewidth=1.4,
        color=colour,
        markerfacecolor=_COLOURS["surface"] if mark.hollow else colour,
        gid=name,
    )


def _across(axes: Axes, chart: Chart) -> None:
    """The horizontal axis: concurrency, doubling, a tick at each that was measured."""
    values = sorted({mark.x for line in chart.lines for mark in line.marks})
    ticks: list[float] = []
    for one in values:
        if not ticks or one / ticks[-1] > 1.4:
            ticks.append(one)
    axes.set_xscale("log", base=2)
    axes.set_xlim(values[0] / 1.35, values[-1] * 1.35)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("concurrent requests")


def _upwards(axes: Axes, chart: Chart) -> None:
    """The vertical axis: from `floor`, or logarithmic where figures differ much."""
    axes.set_ylabel(chart.unit)
    marks = [mark for line in chart.lines for mark in line.marks]
    low, high = min(mark.low for mark in marks), max(mark.high for mark in marks)
    if chart.sides:
        reach = max(high, -low, 2.0) * 1.15
        axes.set_ylim(min(low * 1.3, -0.25 * reach), max(high * 1.25, 0.25 * reach))
        axes.axhline(0, color=_COLOURS["ink"], linewidth=1.1)
        above, below = chart.sides
        for text, where, side in ((above, 4, "bottom"), (below, -4, "top")):
            axes.annotate(
                text,
                (1, 0),
                (4, where),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="left",
                va=side,
                color=_COLOURS["muted"],
            )
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(
            lambda value, _: f"{value:+.0f}".replace("-", "\N{MINUS SIGN}") if value else "0"
        )
        return
    if chart.floor == 0.0 and not chart.ceiling and low > 0 and high / low > 5:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(low / 1.25, high * 1.25)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        if chart.floor is not None:
            top = chart.ceiling or chart.floor + (high - chart.floor or 1.0) * 1.15
            axes.set_ylim(chart.floor, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.5g}")


def _svg(figure: Figure, identity: str, alt: str, told: dict[str, str]) -> str:
    """The drawing as an element of a page: own ids, the page's colours, words at the marks."""
    stream = io.StringIO()
    FigureCanvasSVG(figure)
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    # Its style sheet would hold for the whole page, and its fonts are none that a page has.
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r" font-family: [^;\"]+;", "", text)
    # Of the groups only marks and lines keep a name; the rest is matplotlib's own.
    text = re.sub(r'<g id="(?!line-|mark-)[^"]+"', "<g", text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{identity}-\1"', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{identity}-", text)
    for name, colour in _COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    for name, said in told.items():
        text = text.replace(
            f'<g id="{identity}-{name}">',
            f'<g id="{identity}-{name}"><title>{html.escape(said)}</title>',
        )
    size = re.search(r'viewBox="([^"]+)"', text)
    box = size[1] if size else ""
    head = (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}" role="img" '
        f'aria-label="{html.escape(alt, quote=True)}">'
    )
    return head + text[text.index(">") + 1 :].strip()


def legend(style: int, identity: str) -> str:
    """A setting's line with its marker, as in the charts, to stand before its name."""
    with rc_context(_RC):
        figure = Figure(figsize=(0.5, 0.17))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.plot(
            [0, 1, 2],
            [0, 0, 0],
            color=_series(style),
            linewidth=1.8,
            linestyle=_DASHES[style % STYLES],
            marker=_MARKERS[style % STYLES],
            markevery=[1],
            markersize=5.5,
        )
        axes.set_xlim(-0.1, 2.1)
        drawn = _svg(figure, identity, "", {})
        return drawn.replace('role="img" aria-label=""', 'aria-hidden="true"')
