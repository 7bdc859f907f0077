# SPDX-License-Identifier: Apache-2.0
"""A rolling change of two real engines behind a real router, broken in the ways that hurt.

The change is another context length: it restarts an engine and needs no second stack. The tests
stand on one another, from top to bottom.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rolling.conftest import ENGINES, GATEWAY, PLAY_SECONDS, Fleet
from tests.upgrade.conftest import wait_until
from tests.upgrade.load import REQUEST_SECONDS
from tests.upgrade.records import Outcome

pytestmark = pytest.mark.rolling

CHANGE: dict[str, Any] = {"engine_context_length": 1500}
# An answer that the model never gives: the gate fails on a healthy engine.
WRONG = {"messages": [{"role": "user", "content": "count"}], "max_tokens": 4, "expect": "never"}
HEAD = "node release changed verdict accept seconds cause"


def rows(output: str) -> dict[str, list[str]]:
    """The rows of the last table by node, cells parted where two blanks stand."""
    table = output.rpartition("TASK [sm120.sglang.deploy : Show all results]")[2]
    found = re.findall(r"^ +- ((?:lab-\d|node) .*)$", table, re.MULTILINE)
    cells = [re.split(r" {2,}", row.strip()) for row in found]
    assert " ".join(cells[0]) == HEAD
    return {row[0]: row[1:] for row in cells[1:]}


def test_both_engines_are_members_and_a_second_run_changes_nothing(fleet: Fleet) -> None:
    assert fleet.workers() == list(ENGINES)
    before = {node: fleet.launched(node) for node in ENGINES}
    outcome = fleet.deploy(seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    assert re.findall(r"changed=(\d+)", outcome.output) == ["0"] * 4, outcome.output
    assert {node: fleet.launched(node) for node in ENGINES} == before
    assert {node: row[1:3] for node, row in rows(outcome.output).items()} == {
        node: ["nothing", "ok"] for node in ENGINES
    }


def test_not_one_request_fails_in_a_rolling_change(fleet: Fleet, journal: Path) -> None:
    before = {node: fleet.launched(node) for node in ENGINES}
    with fleet.clients(journal) as load:
        began = time.time()
        wait_until(lambda: load.answers(began) >= 6, 2 * REQUEST_SECONDS, "answers before it")
        outcome = fleet.deploy(extra=CHANGE, seconds=PLAY_SECONDS)
        ended = time.time()
        wait_until(lambda: load.answers(ended) >= 6, 2 * REQUEST_SECONDS, "answers after it")
    assert outcome.code == 0, outcome.output
    assert all(fleet.launched(node) != before[node] for node in ENGINES)
    bad = [r.line() for r in load.records() if r.outcome is not Outcome.ANSWERED]
    assert bad == []
    assert load.open() == []
    # One after the other: the second node is left alone until the first one gets requests again.
    order = [outcome.output.index(f"changed: [{node} -> {GATEWAY}") for node in ENGINES]
    assert order == sorted(order)
    assert fleet.workers() == list(ENGINES)
    longest = max(record.seconds for record in load.records())
    print(
        f"\n{len(load.records())} requests answered, none failed; the longest took {longest:.1f} s"
    )


def test_a_killed_controller_leaves_a_node_out_and_the_next_run_puts_it_in(fleet: Fleet) -> None:
    fleet.deploy_and_kill(
        lambda line: line.startswith("changed: [lab-1 -> lab-3"), {"engine_context_length": 1400}
    )
    wait_until(lambda: fleet.workers() == ["lab-2"], 60, "lab-1 is out of the router")
    assert fleet.members()["lab-1"]["reason"] == "its engine is being switched"
    # A router that starts again does not send to it.
    fleet.shell(GATEWAY, "systemctl restart sglang-gateway")
    wait_until(lambda: fleet.workers() == ["lab-2"], 60, "the router knows its members again")
    # The engine still serves what was asked for before: nothing but the router differs.
    before = fleet.launched("lab-1")
    outcome = fleet.deploy(extra=CHANGE, seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    assert outcome.says(f"gateway {GATEWAY}: sends no requests here: its engine is being switched")
    assert fleet.launched("lab-1") == before
    assert fleet.workers() == list(ENGINES)


def test_a_node_that_fails_stops_the_next_one_and_is_named(fleet: Fleet) -> None:
    """It goes back to what served, so that it gets requests as before."""
    before = fleet.launched("lab-2")
    outcome = fleet.deploy(
        extra={"engine_context_length": 1300, "health_gate_known_answer": WRONG},
        seconds=PLAY_SECONDS,
    )
    assert outcome.code == 2, outcome.output
    found = rows(outcome.output)
    assert found["lab-1"][2] == "failed"
    assert "known_answer" in found["lab-1"][5]
    assert found["lab-2"][2:] == [
        "not tried", "-", "-",
        "1 of 2 failed (lab-1), more than deploy_max_fail_percentage (0) allows",
    ]  # fmt: skip
    assert fleet.launched("lab-2") == before
    assert fleet.workers() == list(ENGINES)


def test_a_node_that_serves_nobody_after_its_failure_stays_out(fleet: Fleet) -> None:
    """Beyond it the limit allows failures, but not another engine out of service."""
    outcome = fleet.deploy(
        extra={
            "engine_context_length": 1200,
            "health_gate_known_answer": WRONG,
            "health_gate_rollback": False,
            "deploy_max_fail_percentage": 100,
        },
        seconds=PLAY_SECONDS,
    )
    assert outcome.code == 2, outcome.output
    found = rows(outcome.output)
    assert found["lab-1"][2] == "failed"
    assert "1 of 2 are out of service (lab-1)" in found["lab-2"][5]
    assert fleet.workers() == ["lab-2"]
    assert fleet.members()["lab-1"]["reason"].startswith("its engine failed: ")
    # The next run that it passes puts it in; the other one is not touched meanwhile.
    outcome = fleet.deploy(extra=CHANGE, seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    assert fleet.workers() == list(ENGINES)


def test_drift_on_the_gateway_is_mended(fleet: Fleet) -> None:
    fleet.shell(
        GATEWAY,
        "set -e; echo '# by hand' >> /etc/systemd/system/sglang-gateway.service; "
        "chmod 0644 /etc/sglang-gateway/client.key; rm /etc/sglang-gateway/gateway.json; "
        # A shell expands no pattern behind >>.
        "version=$(echo /opt/sglang-gateway/current/venv/lib/python3*/site-packages/"
        "sglang_router/version.py); echo '# by hand' >> $version; "
        "systemctl disable --quiet --now sglang-gateway",
    )
    outcome = fleet.deploy(extra=CHANGE, seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    for part in (
        "sglang-gateway.service",
        "client.key",
        "gateway.json",
        "version.py",
        "router: is",
    ):
        assert outcome.says(part), outcome.output
    again = fleet.deploy(extra=CHANGE, seconds=PLAY_SECONDS)
    assert re.findall(r"changed=(\d+)", again.output) == ["0"] * 4, again.output
    assert fleet.workers() == list(ENGINES)


def test_an_engine_that_a_benchmark_restarts_leaves_first(
    fleet: Fleet, journal: Path, tmp_path: Path
) -> None:
    """It is restarted twice, to another setting and back, and nobody's request meets it."""
    before = fleet.launched("lab-1")
    tiny = {
        "benchmark_allow_restart": True,
        "benchmark_concurrency": [1],
        "benchmark_repeats": 1,
        "benchmark_results": str(tmp_path),
    }
    with fleet.clients(journal) as load:
        began = time.time()
        wait_until(lambda: load.answers(began) >= 4, 2 * REQUEST_SECONDS, "answers before it")
        outcome = fleet.deploy(
            "--limit", "lab-1", extra=CHANGE | tiny, playbook="playbooks/benchmark.yml",
            seconds=PLAY_SECONDS,
        )  # fmt: skip
        assert outcome.code == 0, outcome.output
        ended = time.time()
        wait_until(lambda: load.answers(ended) >= 4, 2 * REQUEST_SECONDS, "answers after it")
    assert [r.line() for r in load.records() if r.outcome is not Outcome.ANSWERED] == []
    assert fleet.launched("lab-1") != before
    assert fleet.workers() == list(ENGINES)


def test_what_an_interrupted_benchmark_left_gets_requests_again_whatever_differs(
    fleet: Fleet, tmp_path: Path
) -> None:
    """The next run may measure nothing, since the inventory names something else: it says so."""
    before = {node: fleet.launched(node) for node in ENGINES}
    tiny = {
        "benchmark_allow_restart": True,
        "benchmark_concurrency": [1],
        "benchmark_repeats": 1,
        "benchmark_results": str(tmp_path),
    }
    playbook = "playbooks/benchmark.yml"
    fleet.deploy_and_kill(
        lambda line: "off c1-i16-o12 repeat 1" in line, CHANGE | tiny, playbook=playbook
    )
    assert fleet.workers() == ["lab-2"]
    outcome = fleet.deploy(extra=tiny, playbook=playbook, seconds=PLAY_SECONDS)
    assert outcome.code == 2, outcome.output
    assert outcome.says("lab-1: a benchmark was interrupted; launch"), outcome.output
    assert outcome.says("has proved itself, and the gateways send to it again"), outcome.output
    # Both are asked, and both are refused: the first one's end is not the second one's.
    for node in ENGINES:
        assert outcome.says(f"{node} does not serve what the inventory names"), outcome.output
    assert fleet.workers() == list(ENGINES)
    assert fleet.launched("lab-1") != before["lab-1"]
    assert fleet.launched("lab-2") == before["lab-2"]


def test_a_node_that_is_stopped_leaves_first(fleet: Fleet, journal: Path) -> None:
    with fleet.clients(journal) as load:
        began = time.time()
        wait_until(lambda: load.answers(began) >= 4, 2 * REQUEST_SECONDS, "answers before it")
        outcome = fleet.deploy("--limit", "lab-2", playbook="playbooks/stop.yml")
        assert outcome.code == 0, outcome.output
        ended = time.time()
        wait_until(lambda: load.answers(ended) >= 4, 2 * REQUEST_SECONDS, "answers after it")
    assert [r.line() for r in load.records() if r.outcome is not Outcome.ANSWERED] == []
    assert fleet.workers() == ["lab-1"]
    assert fleet.members()["lab-2"]["reason"] == "it was stopped by playbooks/stop.yml"
