# SPDX-License-Identifier: Apache-2.0
"""What the plays after the turns of hosts do with what a turn has left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.unit.playbooks.plays import REPOSITORY, parts, run
from tests.unit.roles.test_roles import tasks_in

TURN = "Change the hosts of engines that serve"
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


def test_a_run_of_some_tags_says_so_and_ends_well(tmp_path: Path) -> None:
    facts = {name: turned(name, []) for name in ("a", "b")}
    for known in facts.values():
        known["_deploy_unit"]["proves"] = True
    plays = parts("playbooks/deploy.yml", PREPARE, "Say how it went")
    done = run(tmp_path, facts, plays, "--tags", "health_gate,nothing")
    assert done.status == 0, done.output
    for name in facts:
        cause = "this run had only the tags health_gate, nothing"
        assert f"{name} r-1 nothing not switched - - {cause}" in done.output
    whole = run(tmp_path, facts, [plays[1]])
    assert "a r-1 nothing failed - - failed before its switch, see above" in whole.output


def test_a_node_that_was_lost_in_a_run_of_some_tags_is_a_failure(tmp_path: Path) -> None:
    """The plays before go on without it, and with them every task that it has left out."""
    facts = {name: turned(name, []) for name in ("a", "b")}
    for known in facts.values():
        known["_deploy_unit"]["proves"] = True
    facts["b"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    told = parts("playbooks/deploy.yml", "Say how it went")
    done = run(tmp_path, facts, told, "--tags", "model_store")
    assert done.status == 4, done.output
    assert "fatal: [b]: UNREACHABLE!" in done.output
    cause = "this run had only the tags model_store"
    assert f"a r-1 nothing not switched - - {cause}" in done.output
    assert "b r-1 nothing failed - - failed before its switch, see above" in done.output


# What stops, starts and asks an engine in a turn; each of it is done again by a later switch.
STEPS = (
    "rollback/tasks/restore.yml",
    "rollback/tasks/restore_group.yml",
    "health_gate/tasks/run.yml",
    "health_gate/tasks/confirm.yml",
    "engine/tasks/stop_group.yml",
)
OWNERS = ("rollback", "health_gate", "engine")


def noted(file: str) -> set[str]:
    """The facts and results that a task file leaves for others."""
    found = set()
    for task in tasks_in(yaml.safe_load((REPOSITORY / "roles" / file).read_text("utf-8"))):
        found |= {*task.get("ansible.builtin.set_fact", {}), task.get("register", "__")}
    return {name for name in found if not name.startswith("__")}


def test_all_that_a_turn_notes_of_an_engine_is_forgotten_after_it() -> None:
    said = set[str]().union(*map(noted, STEPS))
    assert {"_rollback_ready", "_rollback_switched", "_health_gate_refusal"} < said
    assert set[str]().union(*(noted(f"{role}/tasks/forget.yml") for role in OWNERS)) == said


PAIR = {"name": "pair", "members": ["a", "b"], "size": 2, "head": "a"}


def came_back() -> dict[str, Any]:
    """What a node says when its turn went well."""
    stopped = {"release": "r-1", "changed": True}
    return {
        "engine_group": "pair",
        "_rollback_ready": True,
        "_rollback_together": True,
        "_rollback_stopped": stopped,
        "_rollback_switched": stopped,
        "_rollback_refusal": {},
        "_engine_stopped": stopped,
        "_health_gate_ready": {"ready": True, "invocation_id": "of-the-turn"},
        "_health_gate_proof": {"verdict": "ok", "accept_length": 4.0},
        "_health_gate_refusal": {},
    }


def later(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The end of the turn on both nodes, then these tasks on the first: the other dropped out."""
    (turn,) = parts("playbooks/deploy.yml", TURN)
    (block,) = [task for task in turn["tasks"] if "always" in task]
    play = {"gather_facts": False}
    have = [
        {"ansible.builtin.import_role": {"name": f"sm120.sglang.{role}", "tasks_from": file}}
        for role, file in (("health_gate", "variables.yml"), ("engine", "variables.yml"))
    ]
    return [
        {**play, "hosts": "pair", "tasks": block["always"]},
        {**play, "hosts": "a", "tasks": [*have, *tasks]},
    ]


def test_a_node_that_dropped_out_after_its_turn_is_not_gone_back_without(tmp_path: Path) -> None:
    restore = {
        "ansible.builtin.include_role": {
            "name": "sm120.sglang.rollback",
            "tasks_from": "restore_group.yml",
        },
        "vars": {
            "_rollback_launch": "l-1",
            "_rollback_reading": {"launches": {"records": {"l-1": {"gate": {"group": PAIR}}}}},
        },
    }
    facts = {"a": came_back(), "b": came_back()}
    done = run(tmp_path, facts, later([restore]), groups={"pair": ["a", "b"]})
    assert done.status == 2, done.output
    assert "b of the engine pair cannot go back" in done.output
    assert "Stop the head" not in done.output


def test_what_a_node_said_in_its_turn_is_no_word_about_a_later_launch(tmp_path: Path) -> None:
    """Each question that an engine's nodes answer each other, asked by the one that is left."""
    group, pair = {**PAIR, "rank": 0}, "_health_gate_group | sm120.sglang.group"
    questions = {
        "verdict": "_health_gate_verdict",
        "stopped": f"{pair}_unstopped(hostvars, '_engine_stopped')",
        "back": f"{pair}_unswitched(hostvars, '_rollback_switched')",
        "half": "_health_gate_half_switched",
        "changed": "(_rollback_switched | default({})) is changed",
        "start": "(_health_gate_ready | default({})).invocation_id | default('', true)",
        "accept": "_health_gate_proof.accept_length | default(none)",
    }
    own = {"_engine_stopped": {"release": "r"}, "_health_gate_refusal": {}}
    ask: dict[str, Any] = {
        "ansible.builtin.debug": {
            "msg": " ".join(f"{name}=<{{{{ {asked} }}}}>" for name, asked in questions.items())
        },
        "vars": {"_health_gate_group": group},
    }
    facts = {"a": came_back(), "b": came_back()}
    tasks: list[dict[str, Any]] = [{"ansible.builtin.set_fact": own}, ask]
    done = run(tmp_path, facts, later(tasks), groups={"pair": ["a", "b"]})
    assert done.status == 0, done.output
    lost = "b: it cannot be reached any more"
    assert f"verdict=<{{'msg': '{lost}', 'no_verdict': True}}>" in done.output
    assert f"stopped=<['{lost}']>" in done.output
    assert "back=<{'msg': 'a: it cannot be reached any more" in done.output
    assert "half=<False> changed=<False> start=<> accept=<>" in done.output, done.output
