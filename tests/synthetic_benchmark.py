# SPDX-License-Identifier: Apache-2.0
"""Synthetic benchmark documents: figures made up by a rule, never measured.

`document` makes one from a function of setting and concurrency, so that a test says what is true
and asks what the statistics find.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Accept,
    Document,
    Draft,
    Gpu,
    Latency,
    Meaning,
    Point,
    Reading,
    Run,
    Setting,
    Stack,
)

OFF = Setting("off", "no speculation", speculation=False)
EAGLE = Setting("eagle3-3-1-4", "EAGLE-3 3/1/4", speculation=True, draft=Draft(3, 1, 4))
DEEPER = Setting("eagle3-5-1-6", "EAGLE-3 5/1/6", speculation=True, draft=Draft(5, 1, 6))
STACK = Stack(
    fingerprint="0123456789ab",
    release="synthetic-1-0123456789ab",
    stack="synthetic-1",
    sglang="0.0.0",
    torch="0.0.0",
    cuda="13.0",
    driver="590.00.00",
    gpu="SYNTHETIC GPU",
    gpu_count=8,
    patches=("kimi_k25_eagle3_delegation",),
    arguments={"tp-size": 8, "attention-backend": "triton"},
    environment={"NCCL_P2P_LEVEL": "SYS"},
    model="synthetic-target",
    draft_model="synthetic-draft",
)

Rate = Callable[[str, int], float]


def point(concurrency: int) -> Point:
    return Point(
        f"c{concurrency}-i1024-o256", concurrency, 1024, 256, "random-ids", 4 * concurrency
    )


def run(setting: Setting, at: Point, repeat: int, order: int, output_tok_s: float) -> Run:
    """A run with this output rate; the latencies follow from it."""
    itl = 1000 * at.concurrency / output_tok_s
    ttft = 150 + 20 * at.concurrency
    return Run(
        setting=setting.id,
        point=at.id,
        repeat=repeat,
        order=order,
        state="ok",
        started="2026-11-30T10:00:00Z",
        duration_s=at.requests * at.output_tokens / output_tok_s,
        completed=at.requests,
        output_tok_s=output_tok_s,
        request_tok_s=output_tok_s / at.concurrency,
        ttft_ms=Latency(ttft, ttft * 0.95, ttft * 1.5, ttft * 2.0),
        itl_ms=Latency(itl, itl * 0.95, itl * 1.4, itl * 2.2),
        accept=Accept(2.6, 1600, 1000, "synthetic") if setting.speculation else None,
        kv_use=min(1.0, at.concurrency / 200),
        gpu=Gpu(Reading(300.0, 410.0), Reading(2400.0, 2600.0), Reading(61.0, 68.0)),
        raw=f"raw/{setting.id}-{at.id}-{repeat}.jsonl",
    )


def document(
    rate: Rate,
    *,
    settings: Sequence[Setting] = (OFF, EAGLE),
    concurrencies: Sequence[int] = (1, 4, 16, 64),
    repeats: int = 5,
    noise: float = 0.01,
    seed: int = 1,
    configured: str | None = EAGLE.id,
    stack: Stack = STACK,
    node: str = "synthetic-node",
    meaning: Meaning | None = None,
) -> Document:
    """A document whose output rates are `rate(setting id, concurrency)` with relative noise.

    Args:
        rate: Output tokens a second.
        settings: Settings measured.
        concurrencies: One point for each.
        repeats: Runs of each point under each setting, interleaved.
        noise: Standard deviation of a run's rate, relative to it.
        seed: Of the noise.
        configured: What served before.
        stack: What served.
        node: Its name.
        meaning: Whether the figures decide; they do by default.
    """
    chance = random.Random(seed)  # noqa: S311 - noise, not a secret
    points = tuple(point(one) for one in concurrencies)
    runs: list[Run] = []
    for repeat in range(1, repeats + 1):
        for setting in settings:
            for at in points:
                value = rate(setting.id, at.concurrency) * max(0.05, chance.gauss(1, noise))
                runs.append(run(setting, at, repeat, len(runs) + 1, value))
    return Document(
        schema=1,
        node=node,
        started="2026-11-30T10:00:00Z",
        finished="2026-11-30T11:00:00Z",
        meaning=meaning or Meaning(figures=True),
        stack=stack,
        settings=tuple(settings),
        points=points,
        runs=tuple(runs),
        configured=configured,
    )


def fail(whole: Document, setting: str, *, at: str | None = None, reason: str) -> Document:
    """The document with the runs of a setting (of one point with `at`) failed."""
    runs = tuple(
        Run(one.setting, one.point, one.repeat, one.order, "failed", reason)
        if one.setting == setting and at in {None, one.point}
        else one
        for one in whole.runs
    )
    return replace(whole, runs=runs)


def without(whole: Document, setting: str, at: str) -> Document:
    """The document without the runs of a setting at a point."""
    return replace(
        whole,
        runs=tuple(one for one in whole.runs if (one.setting, one.point) != (setting, at)),
    )
