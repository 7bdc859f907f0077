# SPDX-License-Identifier: Apache-2.0
"""Figures and lists as people read them; plan lines, verdicts and tables share these."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import Metric
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.stats import Gain


def number(value: float, digits: int) -> str:
    """A figure with commas and so many decimals: `2,370.0`."""
    return f"{value:,.{digits}f}"


def percent(share: float) -> str:
    """A relative change: `+31 %`, `-0.4 %`; a decimal below 10 %."""
    value = 100 * share
    digits = 0 if abs(value) >= 9.95 else 1
    text = f"{value:+.{digits}f}"
    return f"{'0' if float(text) == 0 else text} %"


def share(part: float) -> str:
    """A noise or a margin, without sign: `2.1 %`."""
    return percent(abs(part)).lstrip("+")


def gain(found: Gain) -> str:
    """A change with its noise: `+31 % (noise 2.1 %)`."""
    if found.noise is None:
        return f"{percent(found.change)} (one run: noise unknown)"
    return f"{percent(found.change)} (noise {share(found.noise)})"


def gain_cell(found: Gain | None) -> str:
    """The same in a table: `+31 % ± 2.1 %`; a dash where there is none."""
    if found is None:
        return "-"
    if found.noise is None:
        return f"{percent(found.change)}, one run"
    return f"{percent(found.change)} ± {share(found.noise)}"


def figure(value: float | None, metric: Metric) -> str:
    """A figure with its unit; a dash where there is none."""
    if value is None:
        return "-"
    return f"{number(value, metric.digits)} {metric.unit}".rstrip()


def listed(items: Sequence[object]) -> str:
    """`1, 4 and 16`."""
    texts = [str(item) for item in items]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def day(time: str) -> str:
    """The day and minute of an ISO time: `2026-11-30 10:05`."""
    return time[:16].replace("T", " ")
