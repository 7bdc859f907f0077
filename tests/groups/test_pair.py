# SPDX-License-Identifier: Apache-2.0
"""Two real nodes, one real engine: `--nnodes 2` over gloo. The tests build on each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.groups.conftest import HEAD, NODES, SECOND, Pair

pytestmark = pytest.mark.groups

ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "TRITON_INTERPRET": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
}
COUNTS = "four five six seven"


def test_two_nodes_serve_as_one(pair: Pair) -> None:
    outcome = pair.play()
    assert outcome.code == 0, outcome.output
    assert len(pair.launches()) == 1
    assert pair.serving() == pair.launches()
    for rank, node in enumerate(NODES):
        unit = pair.run(node, "cat /etc/systemd/system/sglang.service")
        assert f"--node-rank {rank}" in unit
        assert "--nnodes 2" in unit
    assert COUNTS in pair.ask()
    assert f"[{HEAD}]" in outcome.output
    told = [line for line in outcome.output.splitlines() if "known_answer" in line]
    assert told, "the head was asked"
    assert not any(line.startswith(f"[{SECOND}]") for line in told), "and the head alone"


def test_a_rerun_finds_nothing(pair: Pair) -> None:
    before = pair.engines()
    outcome = pair.play()
    assert outcome.code == 0, outcome.output
    assert pair.engines() == before
    assert outcome.output.count("- nothing to do") == len(NODES)
    assert "TASK [sm120.sglang.engine " not in outcome.output


def test_the_table_knows_which_node_is_which(pair: Pair) -> None:
    outcome = pair.play(playbook="playbooks/status.yml")
    assert outcome.code == 0, outcome.output
    rows = [line.split() for line in outcome.output.splitlines() if "ready (" in line]
    assert [(row[1], " ".join(row[2:6])) for row in rows] == [
        (HEAD, "ready (1 of 2)"),
        (SECOND, "ready (2 of 2)"),
    ]


@pytest.mark.parametrize("playbook", ["deploy.yml", "playbooks/stop.yml", "playbooks/rollback.yml"])
def test_a_part_of_an_engine_is_refused(pair: Pair, playbook: str) -> None:
    before = pair.engines()
    outcome = pair.play("--limit", HEAD, playbook=playbook)
    assert outcome.code != 0
    assert outcome.says(f"{SECOND} of pair is not part of this run"), outcome.output
    assert pair.engines() == before


def test_no_node_switches_without_the_others(pair: Pair, second_only: Callable[..., Path]) -> None:
    """The second node has no consent to restart; the head, which has, does not switch either."""
    before = pair.engines()
    outcome = pair.play(
        extra=second_only(engine_allow_restart=False, engine_environment={**ENVIRONMENT, "A": "1"})
    )
    assert outcome.code != 0
    assert outcome.says(f"{SECOND} of the engine pair failed before the switch"), outcome.output
    assert pair.engines() == before
    assert COUNTS in pair.ask()


def test_a_killed_node_takes_the_others_along_and_all_come_back(pair: Pair) -> None:
    before = pair.engines()
    pair.run(SECOND, "systemctl kill --signal=KILL sglang")
    for node in NODES:
        pair.wait(node, "test $(systemctl show sglang --property=NRestarts --value) -ge 1")
    outcome = pair.play()  # waits for what systemd started
    assert outcome.code == 0, outcome.output
    assert all(now != then for now, then in zip(pair.engines(), before, strict=True))
    assert COUNTS in pair.ask()


def test_one_node_that_cannot_start_takes_all_back(
    pair: Pair, second_only: Callable[..., Path]
) -> None:
    launches = pair.launches()
    wrong = {**ENVIRONMENT, "SGLANG_CPU_OMP_THREADS_BIND": "0"}
    outcome = pair.play(extra=second_only(engine_environment=wrong))
    assert outcome.code != 0
    assert outcome.says(f"{HEAD}: the engine cannot come up without {SECOND}") or outcome.says(
        f"{SECOND}: the engine failed after"
    ), outcome.output
    assert "SGLANG_CPU_OMP_THREADS_BIND" in outcome.output, "the cause, as the second node tells it"
    assert outcome.says("as it served before")
    assert all(size > 1000 for size in pair.kept()), "each node keeps the log of its own start"
    assert pair.launches() == launches == pair.serving()
    assert COUNTS in pair.ask()


def test_a_failed_gate_takes_all_back(pair: Pair) -> None:
    launches = pair.launches()
    outcome = pair.play("-e", "lab_draft=draft-miss")
    assert outcome.code != 0
    assert outcome.says("FAIL accept_length 1.0"), outcome.output
    assert outcome.output.count("did not prove itself.") == len(NODES)
    assert all(size > 1000 for size in pair.kept())
    assert pair.launches() == launches == pair.serving()
    assert COUNTS in pair.ask()


def test_a_rollback_by_hand_takes_all_back(pair: Pair) -> None:
    launches = pair.launches()
    extra = {"engine_environment": {**ENVIRONMENT, "SGLANG_SOMETHING": "1"}}
    outcome = pair.play("-e", json.dumps(extra))
    assert outcome.code == 0, outcome.output
    assert pair.launches() != launches
    outcome = pair.play(playbook="playbooks/rollback.yml")
    assert outcome.code == 0, outcome.output
    assert pair.launches() == launches == pair.serving()
    assert COUNTS in pair.ask()


def test_a_stop_stops_all(pair: Pair) -> None:
    outcome = pair.play(playbook="playbooks/stop.yml")
    assert outcome.code == 0, outcome.output
    assert pair.states() == ["inactive", "inactive"]
