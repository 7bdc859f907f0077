# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._host.read import read_host
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import host

from tests.host.cases import CASES
from tests.unit.plugins.module_utils._host.wanted import FAIL_ON, WANTED
from tests.unit.plugins.module_utils.test_decide_preflight import SYSTEM
from tests.unit.plugins.module_utils.test_decide_preflight import WANTED as DEPLOYMENT

INCLUDED = ("gateway", "distribution")
REPOSITORY = Path(__file__).parents[5]


@pytest.fixture
def node(tmp_path: Path) -> dict[str, Any]:
    CASES["tunable"].build().write(tmp_path)
    reading = read_host("e.service", [], str(tmp_path))
    return {"system": SYSTEM, "ports": [], "unit": {"load_state": "masked"}, "host": reading}


def test_one_list_for_deployment_and_host(node: dict[str, Any]) -> None:
    wanted = {**DEPLOYMENT, "group": {}, "host": WANTED, "fail_on": FAIL_ON, "accept": ["aspm"]}
    verdicts = host.preflight_verdicts(node, wanted)
    by_id = {verdict["id"]: verdict for verdict in verdicts}
    assert by_id["unit_masked"]["verdict"] == "fail"
    assert by_id["unit_masked"]["remedy"].startswith("systemctl unmask e.service")
    assert by_id["hmm"]["verdict"] == "warn"
    assert by_id["aspm"]["accepted"]
    lines = host.verdict_lines([by_id["hmm"], by_id["aspm"]])
    assert lines[0].startswith("hmm: not disabled in nvidia_uvm, addressing mode HMM. Why: with")
    assert lines[1].endswith(" Accepted.")
    # An operator's own list of what refuses holds for both halves.
    soft = host.preflight_verdicts(node, {**wanted, "fail_on": ["hmm"], "accept": []})
    assert {v["id"] for v in soft if v["verdict"] == "fail"} == {"hmm"}


def test_every_node_of_the_play_is_in_the_report() -> None:
    lost = host.unreadable_verdicts({"unreachable": True, "msg": "no route\n to host"})
    assert [(v["id"], v["verdict"], v["read"]) for v in lost] == [
        ("reachable", "fail", "no route to host")
    ]
    hostvars: dict[str, Any] = {"a": {"_preflight_verdicts": []}, "b": {}}
    found = host.preflight_report(hostvars, ["a", "b"], "now")
    assert {name: entry["worst"] for name, entry in found["nodes"].items()} == {
        "a": "ok",
        "b": "fail",
    }
    table = host.preflight_table(found)
    assert table.startswith("a: 0 fail, 0 warn, 0 ok\n\nb: 1 fail")


def test_whoever_reads_a_node_has_the_variables_of_every_role() -> None:
    imported = yaml.safe_load((REPOSITORY / "roles/preflight/tasks/variables.yml").read_text())
    found = [task["ansible.builtin.import_role"] for task in imported]
    assert {role["tasks_from"] for role in found} == {"variables.yml"}
    known = yaml.safe_load((REPOSITORY / "roles/preflight/vars/main.yml").read_text())
    # Those that are included where they are needed bring their own.
    needed = [role for role in known["_preflight_roles"] if role not in INCLUDED]
    assert ["preflight", *(role["name"].removeprefix("sm120.sglang.") for role in found)] == needed
