#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Run the release's own load generator once against the engine that serves."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_run
short_description: Run SGLang's own load generator against the engine on its node
description:
  - Runs C(sglang.bench_serving) out of the release's own environment, as the engine's user and at
    normal priority, since the load is what is measured.
  - Samples the GPUs meanwhile, and reads from the engine's log how full its KV pool was.
  - Takes the accept length from what the engine counted for these requests alone.
  - As a task it is an action plugin, which makes many runs, prints what each one measured, and
    keeps the raw output on the controller; see O(steps).
extends_documentation_fragment: sm120.sglang.account
options:
  python:
    description: The release's interpreter.
    type: path
    required: true
  unit:
    description: The engine's unit.
    type: str
    required: true
  api_key:
    description: The engine's API key. It is handed over in the environment, never as an argument.
    type: str
  arguments:
    description: The load generator's arguments. Not for a task, which names O(steps).
    type: list
    elements: str
    default: []
  concurrency:
    description: Requests at a time.
    type: int
    default: 1
  timeout:
    description: Seconds after which a run is ended.
    type: float
    default: 600
  lease:
    description:
      - Whether the node is going to put back what served. It is then told that the benchmark lives
        on until O(timeout) is over; see M(sm120.sglang.benchmark_guard).
    type: bool
    default: false
  steps:
    description: What to run, a block of the plan; for the action plugin.
    type: list
    elements: dict
    default: []
  points:
    description: The loads that O(steps) name; for the action plugin.
    type: list
    elements: dict
    default: []
  target:
    description: C(url), C(model) and C(name) of the engine, and C(dataset); for the action plugin.
    type: dict
    default: {}
  progress:
    description:
      - C(deadline) (seconds since the epoch), C(reserve) (seconds that must be left), C(rate)
        and C(seen) for the estimate, C(total) (how many runs there are), and C(raw), the
        folder on the controller; for the action plugin.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Nothing is run in check mode.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Measure
  sm120.sglang.benchmark_run:
    python: /opt/sglang/current/venv/bin/python
    unit: sglang.service
    user: sglang
    steps: "{{ block.steps }}"
    points: "{{ points }}"
    target: "{{ target }}"
    progress: "{{ progress }}"
"""

RETURN = r"""
runs:
  description: One entry a run, as the stored document has it.
  type: list
  elements: dict
  returned: by the action plugin
seen:
  description: Point to the longest time that a run of it took, in seconds.
  type: dict
  returned: by the action plugin
dead:
  description: Whether the engine ended or was restarted while it was measured.
  type: bool
  returned: always
"""

import base64
import gzip
import inspect
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import (
    counters,
    drive,
    guard,
    parse,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import account, service
from ansible_collections.sm120.sglang.plugins.module_utils._proof import process

_SAMPLE_MS = 500
_JOURNAL_SECONDS = 30


class Sampler:
    """GPU gauges, sampled by nvidia-smi itself; empty where there is none."""

    def __init__(self) -> None:
        self.text = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample for as long as the block takes."""
        program = shutil.which("nvidia-smi")
        if program is None:
            yield
            return
        query = f"--query-gpu={','.join(counters.GPU_COLUMNS)}"
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            sampler = subprocess.Popen(
                [program, query, "--format=csv,noheader,nounits", f"--loop-ms={_SAMPLE_MS}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )
            try:
                yield
            finally:
                sampler.kill()
                sampler.wait()
                output.seek(0)
                self.text = output.read()


def journal(unit: str, since: float) -> list[str]:
    """The engine's own log lines since a moment; empty where the journal cannot be read."""
    try:
        done = subprocess.run(
            ["journalctl", "-u", unit, f"--since=@{since:.0f}", "-o", "cat", "-q", "--no-pager"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_JOURNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


def answer_of(output: str) -> dict[str, Any]:
    """What the program `drive` said, empty when it did not get that far."""
    for line in reversed(output.splitlines()):
        if line.startswith(drive.MARKER):
            found: dict[str, Any] = json.loads(line[len(drive.MARKER) :])
            return found
    return {}


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Make one run.

    Args:
        asked: The module's parameters.

    Returns:
        Fields of `schema.Run` but for its place in the plan, `dead`, and `raw_gz`.

    Raises:
        account.AccountError: The engine's user cannot be had.
    """
    before = service.read_unit(asked["unit"])
    environment = {**asked["environment"], "HF_HUB_OFFLINE": "1"}
    if asked["api_key"]:
        environment["OPENAI_API_KEY"] = asked["api_key"]
    sampler, started = Sampler(), time.time()
    with sampler.running():
        ended = process.run_program(
            asked["user"],
            Path(asked["python"]),
            inspect.getsource(drive),
            json.dumps(asked["arguments"]),
            environment=environment,
            deadline=asked["timeout"],
        )
    log = journal(asked["unit"], started)
    after = service.read_unit(asked["unit"])
    same = before["invocation_id"] == after["invocation_id"]
    dead = after["active_state"] != "active" or not same
    answer = answer_of(ended.output)
    raw = answer.get("raw") or {}
    run: dict[str, Any] = {
        "state": "failed",
        "reason": "",
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "kv_use": counters.kv_use(log),
        "gpu": counters.gpu(sampler.text, answer.get("window")),
        "accept": counters.accept(answer.get("requests", [])),
    }
    for name in ("gpu", "accept"):
        run[name] = asdict(run[name]) if run[name] else None
    reason = _problem(ended, answer, asked["timeout"])
    if raw:
        try:
            figures = asdict(parse.figures(raw))
        except parse.ParseError as error:
            reason = reason or str(error)
        else:
            first = figures.pop("error")
            run.update(figures)
            if figures["failed"]:
                total = figures["completed"] + figures["failed"]
                reason = reason or f"{figures['failed']} of {total} requests failed: {first}"
    strangers = counters.strangers(log, asked["concurrency"])
    if strangers:
        reason = reason or f"{strangers} requests of somebody else ran or waited meanwhile"
    if dead:
        reason = f"the engine ended meanwhile; {reason}" if reason else "the engine ended meanwhile"
    run["reason"] = reason
    run["state"] = "failed" if reason else "ok"
    packed = gzip.compress(json.dumps(raw).encode()) if raw else b""
    return {"run": run, "dead": dead, "raw_gz": base64.b64encode(packed).decode()}


def _problem(ended: process.Ended, answer: dict[str, Any], limit: float) -> str:
    """Why the load generator gave no output, empty when it did."""
    if ended.timed_out:
        return f"not finished within {limit:.0f} s"
    if answer.get("raw"):
        return ""
    told = answer.get("error") or account.last_line(ended.errors or ended.output)
    return f"the load generator ended with status {answer.get('status', ended.status)}: {told}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path", "required": True},
            "unit": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "api_key": {"type": "str", "no_log": True},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "concurrency": {"type": "int", "default": 1},
            "timeout": {"type": "float", "default": 600.0},
            "lease": {"type": "bool", "default": False},
            "steps": {"type": "list", "elements": "dict", "default": []},
            "points": {"type": "list", "elements": "dict", "default": []},
            "target": {"type": "dict", "default": {}},
            "progress": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    asked = module.params
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, dead=False)
    try:
        if asked["lease"]:
            guard.renew(guard.STATE, asked["timeout"] + guard.MARGIN)
        found = measure(asked)
    except (account.AccountError, guard.GuardError) as error:
        module.fail_json(msg=str(error), dead=False)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
