# SPDX-License-Identifier: Apache-2.0
"""What a refusal says was touched, and what counts as a proof: as the roles decide it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.unit.playbooks.plays import REPOSITORY, run
from tests.unit.roles.test_roles import tasks_of


def test_a_node_that_is_refused_after_its_turn_is_not_called_unchanged(tmp_path: Path) -> None:
    refusals = [{"headline": "it cannot take this deployment", "lines": ["bar1: too small"]}]
    common = {"_preflight_node_refusals": refusals, "_preflight_remarks": []}
    refuse = {"name": "sm120.sglang.preflight", "tasks_from": "refuse_node.yml"}
    play = {
        "hosts": "engines",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.import_role": {**refuse, "rolespec_validate": False}}],
    }
    done = run(tmp_path, {"a": {**common, "_deploy_turn": True}, "b": common}, [play])
    assert done.status == 2, done.output
    said = {part[0]: part for part in done.output.split("fatal: [")[1:]}
    assert "it cannot take this deployment; its host was changed, and nothing else." in said["a"]
    assert "it cannot take this deployment; nothing was changed." in said["b"]
    assert all("bar1: too small" in one for one in said.values())


def test_only_a_proof_that_was_made_counts_as_one(tmp_path: Path) -> None:
    """A task that was skipped, and one of a node that could not be reached, have proved nothing."""
    (seal,) = [task for task in tasks_of("source_patches") if "sm120.sglang.release_seal" in task]
    proved = seal["sm120.sglang.release_seal"]["proved"]
    nobody = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    tasks: list[dict[str, Any]] = [
        {
            "ansible.builtin.ping": None,
            "register": "lost",
            "ignore_unreachable": True,
            "vars": nobody,
        },
        {"ansible.builtin.ping": None, "register": "left_out", "when": False},
    ]
    results = {
        "lost": "{{ lost }}",
        "left out": "{{ left_out }}",
        "made": {"changed": False, "imports": {"torch": "2.9.1"}},
    }
    tasks += [
        {
            "ansible.builtin.debug": {"msg": f"{name} counts: {proved}"},
            "vars": {"_engine_release_imports": result},
        }
        for name, result in results.items()
    ]
    play = {"hosts": "engines", "gather_facts": False, "tasks": tasks}
    done = run(tmp_path, {"a": {}}, [play])
    assert "UNREACHABLE" in done.output
    for name in results:
        assert f"{name} counts: {name == 'made'}" in done.output, done.output


def test_the_proof_that_counts_is_the_one_that_the_module_gives() -> None:
    """By what stands in its result for what was imported."""
    text = (REPOSITORY / "plugins/modules/release_proof.py").read_text("utf-8")
    returned = yaml.safe_load(text.partition('RETURN = r"""')[2].partition('"""')[0])
    assert "imports" in returned
    (prove,) = [t for t in tasks_of("engine_release") if "sm120.sglang.release_proof" in t]
    assert prove["register"] == "_engine_release_imports"
