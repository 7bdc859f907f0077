# SPDX-License-Identifier: Apache-2.0
"""The figures of a run that are summed up, compared and shown, each with its unit and direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import Run


@dataclass(frozen=True)
class Metric:
    """One figure of a run.

    Attributes:
        id: Its path in a run, such as `ttft_ms.p95`.
        label: For people.
        unit: Of its values; empty for a plain number.
        better: Which way is better; `neither` where a change alone says nothing.
        digits: Decimals worth showing.
    """

    id: str
    label: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    digits: int

    def of(self, run: Run) -> float | None:
        """The figure in this run; None where it was not measured."""
        value: object = run
        for name in self.id.split("."):
            if value is None:
                return None
            value = getattr(value, name)
        return float(value) if isinstance(value, (int, float)) else None


THROUGHPUT = Metric("output_tok_s", "Output tokens a second, all requests", "tok/s", "higher", 1)
RATE = Metric("request_tok_s", "Output tokens a second, one request", "tok/s", "higher", 1)
TTFT = Metric("ttft_ms.p50", "Time to first token, p50", "ms", "lower", 0)
ITL = Metric("itl_ms.p50", "Time between tokens, p50", "ms", "lower", 1)
ACCEPT = Metric("accept.length", "Accept length", "tokens a verify step", "neither", 2)
KV_USE = Metric("kv_use", "Used share of the KV pool, highest", "", "neither", 2)
POWER = Metric("gpu.power_w.median", "Power of a GPU, median", "W", "neither", 0)
CLOCK = Metric("gpu.sm_clock_mhz.median", "SM clock, median", "MHz", "neither", 0)
HOTTEST = Metric("gpu.temperature_c.max", "GPU temperature, highest", "°C", "neither", 0)

METRICS: tuple[Metric, ...] = (
    THROUGHPUT,
    RATE,
    TTFT,
    Metric("ttft_ms.p95", "Time to first token, p95", "ms", "lower", 0),
    Metric("ttft_ms.p99", "Time to first token, p99", "ms", "lower", 0),
    ITL,
    Metric("itl_ms.p95", "Time between tokens, p95", "ms", "lower", 1),
    Metric("itl_ms.p99", "Time between tokens, p99", "ms", "lower", 1),
    ACCEPT,
    KV_USE,
    POWER,
    CLOCK,
    HOTTEST,
)
BY_ID: dict[str, Metric] = {one.id: one for one in METRICS}
