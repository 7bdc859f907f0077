# SPDX-License-Identifier: Apache-2.0
"""How much memory the GPUs have left beside a serving engine."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    OK,
    SKIPPED,
    WARN,
    Check,
    shorten,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node.processes import (
    GPU_QUERY,
    Gpu,
    parse_gpus,
)

_TIMED_OUT, _NOT_FOUND = (124, 137), 127  # timeout(1)


def query(seconds: float) -> list[str]:
    """The command to read the GPUs with; where the driver hangs it ends after `seconds`."""
    return ["timeout", "--kill-after=1", f"{seconds:g}", *GPU_QUERY]


@dataclass(frozen=True)
class GpuMemory:
    """The GPUs that were read, or `problem`, why they were not; neither where there are none."""

    gpus: tuple[Gpu, ...] = ()
    problem: str = ""


def read(status: int, out: str, err: str) -> GpuMemory:
    """What `query` says, by its exit status and what it wrote."""
    if status == _NOT_FOUND:
        return GpuMemory()
    if status in _TIMED_OUT:
        return GpuMemory(problem="nvidia-smi does not end")
    gpus = parse_gpus(out) if status == 0 else []
    if gpus and all(gpu.total for gpu in gpus):
        return GpuMemory(tuple(gpus))
    said = shorten(f"{out} {err}") or "nothing"
    return GpuMemory(problem=f"nvidia-smi ended with status {status} and says: {said}")


def judge_gpu_memory(memory: GpuMemory, floor: int) -> Check:
    """After all other checks every GPU has some memory left.

    What cannot be read warns, as too little does: the engine has just answered everything, and
    another launch would meet the same driver.

    Args:
        memory: What was read, in MiB.
        floor: MiB that should be free on each GPU.
    """
    name = "gpu_memory"
    if memory.problem:
        remedy = "look at the driver: `nvidia-smi` and `journalctl -k` on the node"
        return Check(name, WARN, "unknown", floor, memory.problem, remedy)
    if not memory.gpus:
        return Check(name, SKIPPED, evidence="there is no nvidia-smi on this node")
    least = min(memory.gpus, key=lambda gpu: gpu.free)
    evidence = f"GPU {least.index} has least: {least.used} of {least.total} MiB in use"
    if least.free < floor:
        return Check(
            name,
            WARN,
            f"{least.free} MiB free",
            floor,
            evidence,
            "a longer prompt or a larger batch may run out of memory: lower mem-fraction-static",
        )
    return Check(name, OK, f"{least.free} MiB free", floor, evidence)
