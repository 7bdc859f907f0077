# SPDX-License-Identifier: Apache-2.0
"""What was counted and sampled beside a run: speculation, KV pool, GPUs. All functions are pure."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Accept,
    Gpu,
    Reading,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.accept_length import speculation
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.states import decode_batches

_MOMENT = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
GPU_COLUMNS = ("timestamp", "power.draw", "clocks.sm", "temperature.gpu")
"""Columns of `nvidia-smi --query-gpu` that `gpu` reads, in this order; all drivers have them."""


def accept(requests: Iterable[Mapping[str, int]]) -> Accept | None:
    """The accept length of the requests of one run.

    Args:
        requests: Of each request the figures of its last answer, as the engine counts them for it:
            accepted drafts (`accept_length.ACCEPTED`) and verify steps (`VERIFIED`). No other
            request is in them, so they are this run's own increments; the averages of
            `/server_info` and `/metrics` are not.

    Returns:
        None where not one request had a verify step: without speculation, or absent.
    """
    sums = speculation(Answer(200, {"meta_info": dict(request)}) for request in requests)
    if sums.accept_length is None:
        return None
    return Accept(
        length=round(sums.accept_length, 4),
        accepted=sums.accepted,
        verify_steps=sums.steps,
        source=f"meta_info of {sums.reported} requests",
    )


def kv_use(messages: Iterable[str]) -> float | None:
    """The highest used share of the KV pool that the engine logged, None without a decode line."""
    uses = [batch["kv_use"] for batch in decode_batches(messages)]
    return min(1.0, max(uses)) if uses else None


def strangers(messages: Iterable[str], concurrency: int) -> int:
    """How many requests ran at once beside the run's own; they spoil its figures.

    Args:
        messages: The engine's log during the run.
        concurrency: How many requests the run has at once.

    Returns:
        The most that was logged above `concurrency`; 0 where it was not exceeded, or nothing was
        logged.
    """
    running = [int(batch["running"] + batch["queued"]) for batch in decode_batches(messages)]
    return max(0, max(running, default=0) - concurrency)


def gpu(samples: str, window: Sequence[float] | None) -> Gpu | None:
    """Gauges of the GPUs while they answered.

    The load generator takes seconds to import what it needs and to write its figures; the cards
    rest meanwhile, and more of such samples than of others would make the median one of rest.

    Args:
        samples: What `nvidia-smi --query-gpu=<GPU_COLUMNS> --format=csv,noheader,nounits` printed,
            over and over: a line a GPU a sample.
        window: Seconds since 1970 of the first and the last answer; None where there was none.

    Returns:
        Median and highest over the samples of all GPUs in the window; a column that a card does not
        report (`[N/A]`) is None. None when nothing could be read.
    """
    columns: list[list[float]] = [[] for _ in GPU_COLUMNS[1:]]
    for line in samples.splitlines():
        moment, *cells = (cell.strip() for cell in line.split(","))
        if window is None or len(cells) != len(columns) or not _MOMENT.fullmatch(moment):
            continue
        if not window[0] <= _seconds(moment) <= window[1]:
            continue
        for values, cell in zip(columns, cells, strict=True):
            if _NUMBER.fullmatch(cell):
                values.append(float(cell))
    if not any(columns):
        return None
    return Gpu(*(_reading(values) for values in columns))


def _seconds(moment: str) -> float:
    """Seconds since 1970 of a moment in the node's own time, as nvidia-smi prints it."""
    whole, _, part = moment.partition(".")
    return time.mktime(time.strptime(whole, "%Y/%m/%d %H:%M:%S")) + float(f"0.{part or 0}")


def _reading(values: Sequence[float]) -> Reading | None:
    if not values:
        return None
    return Reading(round(statistics.median(values), 1), round(max(values), 1))
