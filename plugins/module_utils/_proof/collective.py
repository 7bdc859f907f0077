# SPDX-License-Identifier: Apache-2.0
"""Judge timed all-reduces, and tell why they fail by what helps. All functions are pure.

A run is one set of ranks of the program `probe_collective`. When the engine's own settings fail, a
few more runs with other NCCL settings tell the causes apart: what hangs or crawls behind an IOMMU
or ACS works without peer-to-peer (nccl#1999, nccl#2079), a wrong NCCL_P2P_LEVEL works at another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ansible_collections.sm120.sglang.plugins.module_utils._proof.probe_collective import MARKER

Outcome = Literal["ok", "hang", "died", "wrong", "error"]
# Settings by which a failure is told apart. Names, never integers: their meaning has been written
# down differently (club-3090#873).
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}
LEVEL_NEAR = {"NCCL_P2P_LEVEL": "PHB"}
LEVEL_FAR = {"NCCL_P2P_LEVEL": "SYS"}
# Peer-to-peer that is slower than the way over host memory by this factor is broken.
_CLEARLY_FASTER = 1.5


@dataclass(frozen=True)
class Run:
    """One set of ranks.

    Attributes:
        ranks: How many.
        settings: Variables beside the engine's own.
        outcome: `ok`, `hang` (stopped at the deadline), `died` (a rank ended by itself), `wrong`
            (a sum was not right) or `error` (the program did not start).
        detail: In which phase which ranks were, or the error.
        latency: Microseconds for the small message, the slowest rank's.
        bandwidth: GB/s of bus bandwidth for the large message, the slowest rank's: message size
            over time, times 2 (ranks - 1) / ranks, as NCCL's own tests count it.
    """

    ranks: int
    settings: Mapping[str, str] = field(default_factory=dict)
    outcome: Outcome = "ok"
    detail: str = ""
    latency: float = 0.0
    bandwidth: float = 0.0

    def words(self) -> str:
        """The run for people."""
        named = " ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        label = f"{self.ranks} rank(s){f' with {named}' if named else ''}"
        if self.outcome != "ok":
            return f"{label}: {self.outcome}{f' ({self.detail})' if self.detail else ''}"
        if self.ranks == 1:
            return f"{label}: {self.latency:.0f} us"
        return f"{label}: {self.bandwidth:.2f} GB/s, {self.latency:.0f} us"


@dataclass(frozen=True)
class Floors:
    """What is good enough: GB/s of bus bandwidth at least, microseconds at most."""

    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Verdict:
    """The outcome.

    Attributes:
        verdict: `ok` or `fail`.
        cause: `iommu_acs`, `p2p_level`, `links`, `collective`, `torch`, `stuck`, empty when ok.
        reason: What was seen.
        remedy: What to do.
    """

    verdict: Literal["ok", "fail"]
    cause: str = ""
    reason: str = ""
    remedy: str = ""


def read_runs(
    output: str, sets: Sequence[int], settings: Mapping[str, str], error: str
) -> list[Run]:
    """Read the program's output.

    Args:
        output: Its standard output.
        sets: Numbers of ranks that were asked for.
        settings: The variables of this call.
        error: Last line of its error output, for a program that did not start.

    Returns:
        One run for each set that began; sets behind one that did not end well never begin.
    """
    answers: dict[int, list[dict[str, Any]]] = {}
    for line in output.splitlines():
        if line.startswith(MARKER):
            answer = json.loads(line.removeprefix(MARKER))
            answers.setdefault(answer["ranks"], []).append(answer)
    if not answers:
        return [Run(sets[0], settings, "error", error or "the program said nothing")]
    return [_read_run(lines, ranks, settings) for ranks, lines in answers.items()]


def _read_run(answers: Sequence[Mapping[str, Any]], ranks: int, settings: Mapping[str, str]) -> Run:
    phases = dict.fromkeys(range(ranks), "start")
    results: dict[int, Mapping[str, Any]] = {}
    errors, died = [], []
    for answer in (answer for answer in answers if "rank" in answer):
        rank = answer["rank"]
        phases[rank] = answer.get("phase", phases[rank])
        if "small" in answer:
            results[rank] = answer
        if "error" in answer:
            errors.append(f"rank {rank}: {answer['error'].strip().splitlines()[0]}")
        if "died" in answer:
            died.append(f"rank {rank} ended with {answer['died']} in phase '{phases[rank]}'")
    if died:
        return Run(ranks, settings, "died", "; ".join((errors or died)[:3]))
    if len(results) < ranks or answers[-1] != {"ranks": ranks, "phase": "end"}:
        waiting = "; ".join(f"rank {r} in phase '{p}'" for r, p in phases.items() if p != "done")
        return Run(ranks, settings, "hang", waiting or "while closing")
    bad = [r for r, one in results.items() if not (one["small"]["right"] and one["large"]["right"])]
    if bad:
        return Run(
            ranks, settings, "wrong", f"wrong sum on rank(s) {', '.join(map(str, sorted(bad)))}"
        )
    slowest = max(one["large"]["seconds"] for one in results.values())
    size = results[0]["large"]["bytes"]
    return Run(
        ranks,
        settings,
        latency=max(one["small"]["seconds"] for one in results.values()) * 1e6,
        bandwidth=size / max(slowest, 1e-9) / 1e9 * 2 * (ranks - 1) / ranks,
    )


def rank_counts(devices: int) -> list[int]:
    """1, 2, 4 and all of the devices, each once and none above."""
    return sorted({count for count in (1, 2, 4, devices) if 0 < count <= devices})


def passes(run: Run, floors: Floors) -> bool:
    """Whether a run is good enough; one rank has no bus to measure."""
    if run.outcome != "ok":
        return False
    return run.ranks == 1 or (run.bandwidth >= floors.bandwidth and run.latency <= floors.latency)


def first_failure(runs: Sequence[Run], floors: Floors) -> Run | None:
    """The first run with the engine's own settings that is not good enough."""
    return next((run for run in runs if not run.settings and not passes(run, floors)), None)


def next_step(runs: Sequence[Run], floors: Floors, backend: str) -> Run | None:
    """What to run next, to tell causes apart.

    Args:
        runs: What was run.
        floors: What is good enough.
        backend: `nccl`, or `gloo`, which has nothing to try.

    Returns:
        A run to make (its ranks and settings count), or None when enough is known.
    """
    failed = first_failure(runs, floors)
    if failed is None or backend != "nccl" or failed.ranks < 2 or failed.outcome == "error":
        return None
    tried = [dict(run.settings) for run in runs]
    order = [P2P_OFF, LEVEL_NEAR] if failed.outcome != "ok" else [LEVEL_FAR, P2P_OFF]
    for settings in order:
        if settings not in tried:
            return Run(failed.ranks, settings)
        done = _run_with(runs, settings)
        if settings == P2P_OFF and done.outcome != "ok":
            return None  # without peer-to-peer it fails too: the level is not the matter
        if settings == LEVEL_FAR and passes(done, floors):
            return None
    return None


def _run_with(runs: Sequence[Run], settings: Mapping[str, str]) -> Run:
    return next((r for r in runs if dict(r.settings) == dict(settings)), Run(0, {}, "error"))


def judge(runs: Sequence[Run], floors: Floors, left: Sequence[int] = ()) -> Verdict:
    """Say what the runs mean.

    Args:
        runs: All runs, in order.
        floors: What is good enough.
        left: Process ids that could not be ended.

    Returns:
        The verdict.
    """
    seen = "; ".join(run.words() for run in runs)
    if left:
        return Verdict(
            "fail",
            "stuck",
            f"{seen}. Processes {', '.join(map(str, left))} cannot be ended: they wait in the "
            "driver",
            "Look for Xid errors with `journalctl -k`; the GPUs need a reset or the node a power "
            "cycle before anything else uses them",
        )
    failed = first_failure(runs, floors)
    if failed is None:
        return Verdict("ok", reason=seen)
    cause = _cause(runs, failed, floors)
    if cause == "links":
        seen += f"; the floors are {floors.bandwidth:g} GB/s and {floors.latency:g} us"
    remedy = _REMEDIES[cause]
    if cause == "p2p_level":
        remedy = remedy.format(level="SYS" if failed.outcome == "ok" else "PHB")
    return Verdict("fail", cause, seen, remedy)


def _cause(runs: Sequence[Run], failed: Run, floors: Floors) -> str:
    if failed.ranks < 2 or failed.outcome == "error":
        return "torch"
    off, near, far = (_run_with(runs, s) for s in (P2P_OFF, LEVEL_NEAR, LEVEL_FAR))
    slow = failed.outcome == "ok"
    if passes(far, floors) if slow else off.outcome == "ok" and passes(near, floors):
        return "p2p_level"
    if off.outcome == "ok" and (not slow or off.bandwidth > failed.bandwidth * _CLEARLY_FASTER):
        return "iommu_acs"
    return "links" if slow else "collective"


_REMEDIES = {
    "torch": (
        "Not a matter of the links: torch.distributed does not work on this node. Compare the "
        "driver with the stack, and look for Xid errors with `journalctl -k`"
    ),
    "p2p_level": (
        "The peer-to-peer level is wrong for this node: set NCCL_P2P_LEVEL to {level} in "
        "engine_environment"
    ),
    "iommu_acs": (
        "Peer-to-peer is broken and the way over host memory works: turn ACS off on every bridge "
        "and switch port, set the IOMMU to passthrough or off (kernel arguments, BIOS), and load "
        "nvidia_uvm with uvm_disable_hmm=1; until then NCCL_P2P_DISABLE=1 in engine_environment "
        "serves, slowly. After a hang a GPU may stay busy: reset it or power-cycle the node first"
    ),
    "links": (
        "No setting of NCCL helps: look at link width and speed of each GPU under load, and at "
        "what else uses the links; for a node that is slower by design lower the floors"
    ),
    "collective": (
        "Without peer-to-peer it fails too: not IOMMU or ACS. Look for Xid errors with "
        "`journalctl -k`, and at LD_PRELOAD and NCCL_* variables of the engine"
    ),
}
