# SPDX-License-Identifier: Apache-2.0
"""The filters over Ansible's variables; the decisions themselves are tested in _group."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters.group import filters

FILTERS = filters()
GROUPS = {"engines": ["g1", "g2", "g3"], "pair": ["g1", "g2"]}
PLAN = {"engine": [{"item": "engine", "reason": "is dead", "restart": True}], "health_gate": []}
QUIET: dict[str, Any] = {"engine": [], "health_gate": []}
PAIR = FILTERS["engine_group"]("g2", "pair", GROUPS)
ALONE = FILTERS["engine_group"]("g3", "", GROUPS)


def hostvars(**more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "g1": {"engine_group": "pair", "ansible_host": "192.0.2.1"},
        "g2": {"engine_group": "pair", "engine_group_address": "198.51.100.2"},
        "g3": {},
    }
    return {name: {**known, **more.get(name, {})} for name, known in base.items()}


class Untouched(dict[str, Any]):
    """hostvars of a fleet: to look at a host's variables costs time."""

    def __getitem__(self, name: str) -> Any:
        raise AssertionError(f"{name} was looked at")


def test_an_engine_on_one_node_asks_nobody() -> None:
    nobody = Untouched()
    assert ALONE == {"name": "", "members": ["g3"], "rank": 0, "size": 1, "head": "g3"}
    assert FILTERS["engine_group_problems"]("g3", "", nobody, GROUPS, []) == []
    assert FILTERS["group_arguments"](ALONE, nobody, 20000) == {}
    assert FILTERS["group_peers"](ALONE, nobody, 20000) == {}
    assert FILTERS["group_environment"]({}) == {}
    assert FILTERS["group_differences"](ALONE, nobody) == []
    assert FILTERS["others_restart"](ALONE, "g3", nobody) == []
    assert FILTERS["others_unproved"](ALONE, "g3", nobody) is False
    assert FILTERS["group_plan"](ALONE, "g3", nobody) == []
    assert FILTERS["group_choice_problems"](ALONE, nobody) == []


def test_addresses_are_the_nodes_own_or_those_of_ssh_or_their_names() -> None:
    assert PAIR == {"name": "pair", "members": ["g1", "g2"], "rank": 1, "size": 2, "head": "g1"}
    assert FILTERS["group_arguments"](PAIR, hostvars(), 20000) == {
        "nnodes": 2,
        "node-rank": 1,
        "dist-init-addr": "192.0.2.1:20000",
    }
    assert FILTERS["group_peers"](PAIR, hostvars(g1={"ansible_host": None}), "20000") == {
        "own": "198.51.100.2",
        "port": 20000,
        "others": {"g1": {"address": "g1", "port": 20000}},
    }


def test_problems_look_at_the_hosts_of_the_group() -> None:
    ask = FILTERS["engine_group_problems"]
    assert ask("g1", "pair", hostvars(), GROUPS, ["g1", "g2"]) == []
    (limited,) = ask("g1", "pair", hostvars(), GROUPS, ["g1"])
    assert "g2 of pair is not part of this run" in limited
    (other,) = ask("g1", "pair", hostvars(g2={"engine_group": ""}), GROUPS, ["g1", "g2"])
    assert "g2 is in the group pair, and its own engine_group is not set" in other


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"tp_size": 4, "tp-size": 4}, "given twice"), ({"pp-size": "two"}, "is not a number")],
)
def test_what_cannot_be_judged_is_a_message(arguments: dict[str, Any], says: str) -> None:
    wanted = {"tp_size": 2, "gpus": 0, "port": 1, "group_port": 2, "arguments": arguments}
    with pytest.raises(AnsibleFilterError, match=says):
        FILTERS["group_size_problems"](PAIR, wanted)


def test_spellings_do_not_matter() -> None:
    wanted = {"tp_size": 2, "gpus": 0, "port": 1, "group_port": 2, "arguments": {"node_rank": 1}}
    (found,) = FILTERS["group_size_problems"](PAIR, wanted)
    assert found.startswith("engine_arguments.node-rank: ")


def test_the_launch_is_named_by_all_nodes() -> None:
    said = {"release": "r", "models": [], "arguments": [], "address": "a", "launch": "1"}
    known = [
        hostvars(g1={"_preflight_member": said}, g2={"_preflight_member": {**said, "launch": name}})
        for name in ("2", "2", "3")
    ]
    names = [FILTERS["group_launch"](PAIR, one) for one in known]
    assert names[0] == names[1] != names[2]
    with pytest.raises(AnsibleFilterError, match="g2 of pair could not be judged"):
        FILTERS["group_launch"](PAIR, hostvars(g1={"_preflight_member": said}))


def test_one_restarts_all_restart() -> None:
    known = hostvars(g1={"_preflight_plan": PLAN}, g2={"_preflight_plan": QUIET})
    assert FILTERS["others_restart"](PAIR, "g2", known) == ["g1 restarts (engine: is dead)"]
    assert FILTERS["others_restart"](PAIR, "g1", known) == []
    assert FILTERS["group_plan"](PAIR, "g2", known) == [
        "node 2 of the 2 of the engine pair: g1 serves for it",
        "the whole engine RESTARTS: g1 restarts (engine: is dead)",
    ]
    head = FILTERS["engine_group"]("g1", "pair", GROUPS)
    assert FILTERS["group_plan"](head, "g1", known) == [
        "node 1 of the 2 of the engine pair: the head, which alone serves"
    ]


@pytest.mark.parametrize(
    ("verdict", "plans", "serves"),
    [
        ("ok", (QUIET, QUIET), True),
        ("fail", (QUIET, QUIET), False),
        ("ok", (QUIET, PLAN), False),
        ("ok", (QUIET, None), False),
    ],
)
def test_the_engine_serves_when_its_head_answers_and_no_node_differs(
    verdict: str, plans: tuple[Any, Any], serves: bool
) -> None:
    head = {"_preflight_node": {"answer": {"verdict": verdict}}, "_preflight_plan": plans[0]}
    known = hostvars(g1=head, g2={"_preflight_plan": plans[1]})
    assert FILTERS["group_serves"](PAIR, known) is serves


def test_a_record_that_one_node_lacks_makes_all_checks() -> None:
    unproved = {**QUIET, "health_gate": [{"item": "x", "reason": "y", "restart": False}]}
    known = hostvars(g1={"_preflight_plan": unproved}, g2={"_preflight_plan": QUIET})
    assert FILTERS["others_unproved"](PAIR, "g2", known) is True
    assert FILTERS["others_unproved"](PAIR, "g1", known) is False


def test_results_are_taken_from_each_node_that_has_them() -> None:
    known = hostvars(g1={"_x": {"release": "r"}, "_y": {}, "_at": "L"}, g2={"_at": "L"})
    assert FILTERS["group_absent"](PAIR, known, "_at", "L") == []
    assert FILTERS["group_unstopped"](PAIR, known, "_x") == ["g2: it cannot be reached any more"]
    assert FILTERS["group_unswitched"](PAIR, known, "_x")["msg"].startswith("g2: ")
    assert FILTERS["group_refusal"](PAIR, known, "_y")["msg"].startswith("g2: ")
    assert FILTERS["group_back"](PAIR, "g1", known, "F") == ""


def test_a_rollback_by_hand_knows_whose_launch_it_is() -> None:
    record = {"release": "r", "gate": {"group": {"members": ["g1", "g2"]}}}
    node = {"launches": {"records": {"L": record}}}
    choice = {"launch": "L", "release": "r", "error": ""}
    both = {"__rollback_node": node, "_rollback_choice": choice}
    assert FILTERS["group_choice_problems"](PAIR, hostvars(g1=both, g2=both)) == []
    wrong = {**both, "_rollback_choice": {"launch": "", "release": "", "error": "nothing there"}}
    assert FILTERS["group_choice_problems"](PAIR, hostvars(g1=both, g2=wrong)) == [
        "g2: nothing there"
    ]
