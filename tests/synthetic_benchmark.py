# SPDX-License-Identifier: Apache-2.0
"""Synthetic benchmark documents: figures made up by a rule, never measured.

`document` makes one from a function of setting and concurrency, so that a test says what is true
and asks what the statistics find. `python -m tests.synthetic_benchmark FOLDER` renders one.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Accept,
    Check,
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
    busy = math.log2(at.concurrency)
    hits = 0 if setting.draft is None else 900 + 250 * setting.draft.num_steps - 20 * repeat
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
        accept=Accept(1 + hits / 1000, hits, 1000, "synthetic") if setting.draft else None,
        kv_use=min(1.0, at.concurrency / 200),
        gpu=Gpu(
            Reading(260 + 25 * busy, 300 + 30 * busy),
            Reading(2600 - 40 * busy, 2700.0),
            Reading(55 + 2 * busy, 60 + 3 * busy),
        ),
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


HOSTILE = "<script>alert('x')</script>\" onload=\"alert(1)"


def story() -> Document:
    """A document in which everything happens that a report has to show.

    Two shapes; a setting that pays at low concurrency, one that fails at the highest; an outlier,
    a missing point, lost requests; and texts that would be code if a page did not quote them.
    """

    def rate(setting: str, concurrency: int) -> float:
        gain = {1: 1.31, 4: 1.22, 8: 1.10, 16: 0.96, 64: 0.85}[concurrency]
        deeper = {1: 1.38, 4: 1.2, 8: 1.0, 16: 0.9, 64: 0.7}[concurrency]
        alone = 90.0 * math.pow(concurrency, 0.8)
        return alone * {"off": 1.0, EAGLE.id: gain, DEEPER.id: deeper}[setting]

    whole = document(rate, settings=(OFF, EAGLE, DEEPER), concurrencies=(1, 4, 8, 16, 64))
    whole = fail(whole, DEEPER.id, at=point(64).id, reason=f"out of memory {HOSTILE}")
    whole = without(whole, EAGLE.id, point(4).id)
    long = tuple(
        replace(one, id=f"c{one.concurrency}-i32768-o512", input_tokens=32768, output_tokens=512)
        for one in whole.points[:3]
    )
    names = {short.id: longer.id for short, longer in zip(whole.points, long, strict=False)}
    runs = [
        replace(one, output_tok_s=40.0, request_tok_s=10.0, failed=3)
        if (one.setting, one.point, one.repeat) == ("off", point(4).id, 2)
        else one
        for one in whole.runs
    ]
    runs += [
        replace(one, point=names[one.point], order=len(runs) + place)
        for place, one in enumerate(whole.runs, start=1)
        if one.point in names and one.state == "ok"
    ]
    arguments = {f"argument-{number}": number * 1000 for number in range(12)}
    return replace(
        whole,
        points=(*whole.points, *long),
        runs=tuple(runs),
        stack=replace(
            STACK,
            arguments={**STACK.arguments, **arguments, "chat-template": HOSTILE},
            environment={**STACK.environment, "NCCL_IB_DISABLE": "1"},
        ),
        preflight=(
            Check("driver", "ok", "590.00.00"),
            Check("acs", "warn", f"ACS is on at 2 bridges {HOSTILE}"),
        ),
    )


def earlier(whole: Document, factor: float, *, stack: str = "synthetic-0") -> Document:
    """The result of the stack before, all output rates times `factor`."""
    return replace(
        whole,
        started="2026-10-30T10:00:00Z",
        finished="2026-10-30T11:00:00Z",
        stack=replace(whole.stack, fingerprint="ba9876543210", stack=stack, driver="580.00.00"),
        runs=tuple(
            replace(one, output_tok_s=one.output_tok_s * factor) if one.output_tok_s else one
            for one in whole.runs
        ),
    )


def main(folder: str) -> None:
    """Write the report of `story`, with a banner that it is made up, into a folder."""
    from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.files import (
        report,
        write,
    )

    told = "They are synthetic: made by a rule, to show what a report looks like."
    shown = replace(story(), meaning=Meaning(figures=False, reason=told))
    write(Path(folder), report(shown, [earlier(shown, 1.1)]).files)
    sys.stdout.write(f"{Path(folder) / 'report.html'}\n")


if __name__ == "__main__":
    main(sys.argv[1])
