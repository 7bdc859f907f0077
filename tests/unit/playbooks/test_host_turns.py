# SPDX-License-Identifier: Apache-2.0
"""What the plays after the turns of hosts do with what a turn has left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.playbooks.plays import parts, run

PREPARE = "Prepare beside what serves"
RULES = {"serial": 1, "canary": 0, "max_fail_percentage": 0.0}


def turned(node: str, host: list[str]) -> dict[str, Any]:
    """A serving node after its turn, whose plan still names something of the host.

    The role cuda_stack refuses that plan by itself, with a sentence that shows that it was asked.
    """
    unit = {
        "members": [node],
        "serving": True,
        "switches": False,
        "host": host,
        "prepares": True,
        "proves": False,
        "changed": [],
        "release": "r-1",
        "rules": RULES,
        "targets": ["a", "b"],
    }
    entry = {"item": "driver", "reason": "1 -> 2", "restart": True}
    return {
        "_deploy_unit": unit,
        "_deploy_turn": True,
        "_preflight_plan": {"cuda_stack": [entry]},
        "_cuda_stack_plan": {"problems": [f"cuda_stack was asked on {node}"]},
    }


def test_an_engine_does_not_go_down_for_its_host_beside_all_others(tmp_path: Path) -> None:
    facts = {"a": turned("a", ["driver: 1 -> 2"]), "b": turned("b", [])}
    plays = parts("playbooks/deploy.yml", PREPARE, "Say how it went")
    done = run(tmp_path, facts, plays, "--tags", "cuda_stack")
    assert done.status == 2, done.output
    assert "a: the turn of its host is over, and this still differs: driver: 1 -> 2" in done.output
    assert "deploy without it: --skip-tags cuda_stack" in done.output
    assert "cuda_stack was asked on a" not in done.output
    # The other one goes on.
    assert "cuda_stack was asked on b" in done.output
    assert "b r-1 nothing failed" in done.output
