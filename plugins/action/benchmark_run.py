# SPDX-License-Identifier: Apache-2.0
"""Controller side of `benchmark_run`: many runs, one line for each, raw output kept here."""

from __future__ import annotations

import base64
import gzip
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import plan, schema

_ENGINE = ("python", "unit", "user", "environment", "api_key", "lease")


@dataclass
class _Block:
    """What shall be done, and what has become of it so far."""

    asked: Mapping[str, Any]
    host: str
    task_vars: dict[str, Any] | None
    runs: list[dict[str, Any]] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)
    dead: str = ""

    @property
    def left(self) -> float:
        """Seconds that are left for measuring."""
        progress = self.asked["progress"]
        return float(progress["deadline"]) - float(progress["reserve"]) - time.time()


class ActionModule(ActionBase):
    """Makes one run after the other, for as long as there is time."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars) or {}
        asked = dict(self._task.args)
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True, "runs": [], "seen": {}}
        points = {entry["id"]: schema.Point(**entry) for entry in asked["points"]}
        host = (task_vars or {}).get("inventory_hostname", "node")
        block = _Block(asked, host, task_vars, seen=dict(asked["progress"].get("seen") or {}))
        problem: dict[str, Any] = {}
        for entry in asked["steps"]:
            step = plan.Step(**entry)
            problem = self._step(step, points[step.point], block)
            if problem:
                break
        return {
            **result,
            **problem,
            "changed": False,
            "runs": block.runs,
            "seen": block.seen,
            "dead": bool(block.dead),
            "reason": block.dead,
        }

    def _step(self, step: plan.Step, point: schema.Point, block: _Block) -> dict[str, Any]:
        """Make one step, or note why not; returns a failed result where no further one can be."""
        expected = plan.expected(step, point, float(block.asked["progress"]["rate"]), block.seen)
        left = block.left
        if block.dead:
            self._leave(step, block, "failed", block.dead)
            return {}
        if expected > left:
            reason = (
                f"does not fit into the time: takes about {expected:.0f} s, "
                f"{max(0.0, left):.0f} s are left"
            )
            self._leave(step, block, "skipped", reason)
            return {}
        return self._measure(step, point, block, min(plan.bound(expected), left))

    def _leave(self, step: plan.Step, block: _Block, state: str, reason: str) -> None:
        """Note a step that is not made."""
        if step.repeat == plan.WARM_UP:
            return
        block.runs.append({**_place(step), "state": state, "reason": reason})
        _say(block.host, step, block, f"{state.upper()} {reason}")

    def _measure(
        self, step: plan.Step, point: schema.Point, block: _Block, limit: float
    ) -> dict[str, Any]:
        asked = block.asked
        arguments = {name: asked[name] for name in _ENGINE if name in asked} | {
            "arguments": plan.arguments(step, point, **asked["target"]),
            "concurrency": point.concurrency,
            "timeout": limit,
        }
        began = time.monotonic()
        answer: dict[str, Any] = self._execute_module(
            module_name="sm120.sglang.benchmark_run",
            module_args=arguments,
            task_vars=block.task_vars,
        )
        took = time.monotonic() - began
        if "run" not in answer:
            return {**answer, "failed": True}
        run = answer["run"]
        if run["state"] == "ok" and step.repeat != plan.WARM_UP:
            block.seen[point.id] = max(took, block.seen.get(point.id, 0.0))
        if answer["dead"]:
            block.dead = run["reason"]
        minutes = max(0.0, block.left) / 60
        _say(block.host, step, block, f"{_figures(run)}; at most {minutes:.0f} min left")
        if step.repeat != plan.WARM_UP:
            raw = _keep(Path(asked["progress"]["raw"]), step, answer["raw_gz"])
            block.runs.append({**run, **_place(step), "raw": raw})
        return {}


def _place(step: plan.Step) -> dict[str, Any]:
    """Where a run belongs in the document."""
    return {
        "setting": step.setting,
        "point": step.point,
        "repeat": step.repeat,
        "order": step.order,
    }


def _keep(folder: Path, step: plan.Step, packed: str) -> str:
    """Write the load generator's own line beside the document; returns its relative name."""
    if not packed:
        return ""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    name = f"{step.order:03d}-{step.setting}-{step.point}-{step.repeat}.jsonl"
    (folder / name).write_bytes(gzip.decompress(base64.b64decode(packed)) + b"\n")
    return f"{folder.name}/{name}"


def _figures(run: Mapping[str, Any]) -> str:
    """One run in a few words."""
    if run["state"] != "ok":
        return f"FAILED {run['reason']}"
    accept = f", accept length {run['accept']['length']:.2f}" if run["accept"] else ""
    return (
        f"{run['output_tok_s']:.1f} tok/s, {run['request_tok_s']:.1f} a request, first token "
        f"{run['ttft_ms']['p50']:.0f} ms{accept}"
    )


def _say(host: str, step: plan.Step, block: _Block, text: str) -> None:
    """Print one line of progress at once."""
    warm = step.repeat == plan.WARM_UP
    what = "warm-up" if warm else f"repeat {step.repeat}"
    place = "warm" if warm else f"{step.order}/{block.asked['progress']['total']}"
    Display().display(f"[{host}] {place:>7}  {step.setting} {step.point} {what}: {text}")
