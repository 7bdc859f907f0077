# SPDX-License-Identifier: Apache-2.0
"""The whole benchmark on the real engine with tiny loads; the figures mean nothing."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import schema

from tests.lab_node import STATE, Node

from .test_2_deployed import serves

pytestmark = pytest.mark.lab

PLAYBOOK = "playbooks/benchmark.yml"
GUARD = "/var/lib/sglang/benchmark"
START_SECONDS = 300


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One load, speculation on and off, once each."""
    return {
        "benchmark_allow_restart": True,
        "benchmark_concurrency": [1],
        "benchmark_repeats": 1,
        "benchmark_results": str(tmp_path_factory.mktemp("results")),
    }


def launch(node: Node) -> str:
    """The launch that the engine's process was started with."""
    return node.run(
        "pid=$(systemctl show sglang --property=MainPID --value); "
        "tr '\\0' '\\n' < /proc/$pid/environ | sed -n 's/^SGLANG_DEPLOY_LAUNCH=//p'"
    )


def targets(node: Node) -> str:
    """What a rollback goes back to; a node that was deployed once has no launch before."""
    return node.run("cd /etc/sglang/launches; readlink serving before || true")


def wait_until_ready(node: Node, deadline: float) -> None:
    while True:
        seen = node.deploy(playbook="playbooks/status.yml", extra={"status_timeout": 30})
        if re.search(r"lab-1 +ready", seen.output):
            return
        assert time.monotonic() < deadline, seen.output
        time.sleep(2)


def test_the_node_goes_back_by_itself_when_the_controller_is_killed(
    deployed: Node, tiny: dict[str, Any]
) -> None:
    ready = deployed.deploy()
    assert ready.code == 0, ready.output
    serving, before = deployed.link("serving"), targets(deployed)
    said = deployed.deploy_and_kill(
        lambda line: "off c1-i16-o12 repeat 1" in line, tiny, playbook=PLAYBOOK
    )
    assert "2 runs: " in said
    assert "RESTARTS 2 times" in said
    assert launch(deployed) not in ("", serving)
    # The lease is shortened, which is all that is not as it would be: nothing is told to the guard.
    deployed.run(
        f"systemctl is-active sglang-benchmark-guard; "
        f'sed -i \'s/"until": [0-9.]*/"until": 0/\' {GUARD}/pending.json'
    )
    deadline = time.monotonic() + START_SECONDS
    while deployed.run(f"test -e {GUARD}/pending.json && echo armed || echo over") == "armed":
        assert time.monotonic() < deadline, deployed.run("journalctl -u sglang-benchmark-guard")
        time.sleep(1)
    wait_until_ready(deployed, deadline)
    assert launch(deployed) == serving
    # A launch that was only measured is nothing to go back to.
    assert targets(deployed) == before
    assert deployed.run(f"ls {GUARD}; ls /etc/systemd/system | grep guard || true") == (
        "restored.json"
    )
    plan = deployed.deploy("--check")
    assert plan.says("a benchmark was interrupted and the node went back by itself"), plan.output
    assert plan.says("nothing to do")


def test_speculation_on_and_off_are_measured_and_what_served_serves_again(
    deployed: Node, tiny: dict[str, Any]
) -> None:
    serving = deployed.link("serving")
    outcome = deployed.deploy(playbook=PLAYBOOK, extra=tiny)
    assert outcome.code == 0, outcome.output
    assert outcome.says("THE FIGURES MEAN NOTHING")
    assert launch(deployed) == serving
    assert serves(deployed)
    (result,) = Path(tiny["benchmark_results"]).glob("lab-1/*/result.json")
    found = schema.loads(result.read_text())
    assert not found.meaning.figures
    assert [(run.setting, run.state) for run in found.runs] == [
        ("eagle3-3-1-4", "ok"),
        ("off", "ok"),
    ]
    on, off = found.runs
    assert on.accept is not None
    assert on.accept.length == 4.0  # the draft that always hits
    assert off.accept is None
    assert all((result.parent / run.raw).stat().st_size > 500 for run in found.runs)
    assert "mean nothing" in (result.parent / "report.md").read_text()
    assert (result.parent / "report.html").stat().st_size > 1000
    kept = deployed.run("cat /var/lib/sglang/benchmarks/*/*.json")
    assert json.loads(kept)["runs"] == json.loads(result.read_text())["runs"]
    key = (STATE / "secrets/api_key").read_text().strip()
    everything = outcome.output + "".join(
        path.read_text() for path in result.parent.rglob("*") if path.is_file()
    )
    assert key not in everything + kept


def test_without_consent_nothing_restarts_and_the_plan_follows_what_was_measured(
    deployed: Node, tiny: dict[str, Any]
) -> None:
    before = deployed.engine()
    asked = {**tiny, "benchmark_allow_restart": False}
    foreseen = deployed.deploy("--check", playbook=PLAYBOOK, extra=asked)
    assert foreseen.code == 0, foreseen.output
    assert foreseen.says("the engine goes on without a restart")
    assert foreseen.says("1 other setting(s) need restarts"), foreseen.output
    plan = deployed.deploy("--check")
    assert plan.says("the benchmark of this stack means nothing"), plan.output
    assert deployed.engine() == before
