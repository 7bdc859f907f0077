# SPDX-License-Identifier: Apache-2.0
"""Many runs, over what the module on the node would say of each."""

from __future__ import annotations

import base64
import gzip
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.sm120.sglang.plugins.action import benchmark_run
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import plan

POINTS = plan.points([1, 2], [{"input": 16, "output": 32}], rounds=4)
STEPS = plan.blocks(["off"], [point.id for point in POINTS], 2)[0].steps
KEY = "sesame-0815"
DONE = {
    "state": "ok",
    "reason": "",
    "output_tok_s": 11.0,
    "request_tok_s": 5.5,
    "ttft_ms": {"p50": 80.0},
    "accept": {"length": 2.5},
}


class Node:
    """Answers run by run; every run takes `seconds` of a clock of its own."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.now, self.seconds = 1000.0, seconds
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[int, dict[str, Any]] = {}

    def time(self) -> float:
        return self.now

    monotonic = time

    def module(self, **call: Any) -> dict[str, Any]:
        self.now += self.seconds
        self.asked.append(call["module_args"])
        packed = base64.b64encode(gzip.compress(b'{"duration": 1}')).decode()
        usual: dict[str, Any] = {"run": dict(DONE), "dead": False, "raw_gz": packed}
        return {**usual, **self.answers.get(len(self.asked), {})}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run the plugin; returns its result and what it printed."""

    def run(node: Node, check: bool = False, **progress: Any) -> tuple[dict[str, Any], list[str]]:
        said: list[str] = []
        monkeypatch.setattr(benchmark_run, "time", node)
        monkeypatch.setattr(benchmark_run, "Display", lambda: SimpleNamespace(display=said.append))
        monkeypatch.setattr(ActionBase, "run", lambda *_: {})
        plugin = benchmark_run.ActionModule.__new__(benchmark_run.ActionModule)
        args = {
            "python": "/p",
            "unit": "u",
            "user": "x",
            "api_key": KEY,
            "lease": True,
            "steps": [asdict(step) for step in STEPS],
            "points": [asdict(point) for point in POINTS],
            "target": {
                "url": "http://h",
                "model": "/m",
                "name": "k",
                "dataset": {"name": "random-ids"},
            },
            "progress": {
                "deadline": 10000.0,
                "reserve": 0,
                "rate": 16.0,
                "seen": {},
                "total": 4,
                "raw": str(tmp_path / "raw"),
                **progress,
            },
        }
        plugin._task = SimpleNamespace(args=args, check_mode=check)
        monkeypatch.setattr(plugin, "_execute_module", node.module, raising=False)
        return plugin.run(task_vars={"inventory_hostname": "gpu1"}), said

    return run


def test_every_run_has_a_line_and_keeps_its_raw_output(play: Any, tmp_path: Path) -> None:
    node = Node()
    found, said = play(node)
    assert [(run["point"], run["repeat"], run["order"]) for run in found["runs"]] == [
        ("c1-i16-o32", 1, 1),
        ("c2-i16-o32", 1, 2),
        ("c2-i16-o32", 2, 3),
        ("c1-i16-o32", 2, 4),
    ]
    assert len(said) == len(node.asked) == 6  # two of them warm-ups
    assert said[0].startswith("[gpu1]    warm  off c1-i16-o32 warm-up: 11.0 tok/s, 5.5 a request")
    assert "    1/4  off c1-i16-o32 repeat 1: " in said[2]
    assert "accept length 2.50; at most 150 min left" in said[2]
    names = sorted(path.name for path in (tmp_path / "raw").iterdir())
    assert names[0] == "001-off-c1-i16-o32-1.jsonl"
    assert [run["raw"] for run in found["runs"]] == [f"raw/{name}" for name in names]
    assert (tmp_path / "raw" / names[0]).read_text() == '{"duration": 1}\n'


def test_the_key_is_no_argument_of_the_load_generator(play: Any) -> None:
    node = Node()
    found, said = play(node)
    assert all(call["api_key"] == KEY and call["lease"] for call in node.asked)
    assert KEY not in str([call["arguments"] for call in node.asked])
    assert KEY not in str(found) + str(said)


def test_what_does_not_fit_is_skipped_and_said(play: Any) -> None:
    # Each is expected to take 20 s and 8 more, a warm-up 20 and 2; they take 30.
    node = Node(seconds=30)
    found, said = play(node, deadline=1000.0 + 125, reserve=10)
    states = [run["state"] for run in found["runs"]]
    assert states == ["ok", "skipped", "skipped", "skipped"]
    assert "does not fit into the time: takes about" in found["runs"][1]["reason"]
    assert "SKIPPED does not fit" in said[-1]
    assert "failed" not in found


def test_no_run_is_waited_for_longer_than_there_is_time(play: Any) -> None:
    node = Node(seconds=1)
    play(node, deadline=1000.0 + 60)
    assert max(call["timeout"] for call in node.asked) <= 60


def test_a_dead_engine_ends_the_block(play: Any) -> None:
    node = Node()
    node.answers[3] = {"run": {**DONE, "state": "failed", "reason": "it ended"}, "dead": True}
    found, said = play(node)
    assert len(node.asked) == 3
    assert [run["state"] for run in found["runs"]] == ["failed"] * 4
    assert (found["dead"], found["reason"]) == (True, "it ended")
    assert "FAILED it ended" in said[2]


def test_a_failed_run_does_not_end_the_block(play: Any) -> None:
    node = Node()
    node.answers[3] = {"run": {**DONE, "state": "failed", "reason": "1 of 4 failed"}}
    found, _said = play(node)
    assert [run["state"] for run in found["runs"]] == ["failed", "ok", "ok", "ok"]
    assert found["dead"] is False


def test_what_the_module_itself_cannot_do_fails_the_task(play: Any) -> None:
    node = Node()
    node.answers[4] = {"failed": True, "msg": "the node has put back"}
    usual = node.module

    def module(**call: Any) -> dict[str, Any]:
        answer = usual(**call)
        if len(node.asked) == 4:
            del answer["run"]
        return answer

    node.module = module  # type: ignore[method-assign]
    found, _said = play(node)
    assert (found["failed"], found["msg"]) == (True, "the node has put back")
    assert len(found["runs"]) == 1  # what was measured is not lost


def test_check_mode_runs_nothing(play: Any) -> None:
    node = Node()
    found, _said = play(node, check=True)
    assert (found["skipped"], found["runs"], node.asked) == (True, [], [])
