# SPDX-License-Identifier: Apache-2.0
"""What the plays of a rolling deployment take from the facts of its hosts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import rolling

RULES = {"serial": 1, "canary": 0, "max_fail_percentage": 0.0}


def host(
    *members: str, serving: bool = True, switches: bool = True, idle: bool = False, **rules: Any
) -> dict[str, Any]:
    unit = {
        "members": list(members),
        "serving": serving,
        "switches": switches,
        "prepares": not idle,
        "proves": not idle,
        "host": [],
        "changed": ["engine"] if switches else [],
        "release": "r-1",
        "rules": {**RULES, **rules},
        "targets": list(members),
    }
    return {"_deploy_unit": unit}


def ended(
    facts: dict[str, Any], verdict: str, *, serving: bool = True, **more: Any
) -> dict[str, Any]:
    result = {"verdict": verdict, "serving": serving, "cause": "why", **more}
    return {**facts, "_deploy_result": result}


def test_before_anything_is_read_the_whole_group_is_meant() -> None:
    """Syntax checks and --list-hosts ask without a reading."""
    assert rolling.deploy_order({}, [], "proves") == ["engines"]
    assert rolling.deploy_order({"a": {}}, ["a"], "proves") == ["engines"]
    assert rolling.deploy_sizes({"a": {}}, ["a"]) == [1]


def test_batches_are_an_order_of_hosts_and_their_sizes() -> None:
    found = {"a": host("a"), "b": host("b", switches=False), "c": host("c", serving=False)}
    assert rolling.deploy_order(found, ["a", "b", "c"], "proves") == ["b", "c", "a"]
    assert rolling.deploy_sizes(found, ["a", "b", "c"]) == [2, 1]


def test_who_has_nothing_to_do_is_in_no_further_play() -> None:
    same = host("b", switches=False, idle=True)
    found = {"a": host("a"), "b": same, "c": host("c", switches=False)}
    for part in ("prepares", "proves"):
        assert rolling.deploy_order(found, ["a", "b", "c"], part) == ["c", "a"]
        assert rolling.deploy_order({"b": same}, ["b"], part) == ["all:!all"]
    assert rolling.deploy_sizes(found, ["a", "b", "c"]) == [1, 1]
    # Only to be proved, as after a run that was killed: nothing is prepared for it.
    found["c"]["_deploy_unit"]["prepares"] = False
    assert rolling.deploy_order(found, ["a", "b", "c"], "prepares") == ["a"]


def test_a_member_without_differences_stays_with_its_engine() -> None:
    found = {"a": host("a", "b"), "b": host("a", "b", idle=True)}
    assert rolling.deploy_order(found, ["a", "b"], "prepares") == ["a", "b"]
    assert rolling.deploy_sizes(found, ["a", "b"]) == [2]


def test_nodes_of_one_engine_are_never_parted() -> None:
    found = {name: host("a", "d") for name in "ad"} | {name: host("b", "c") for name in "bc"}
    assert rolling.deploy_order(found, ["a", "b", "c", "d"], "proves") == ["a", "d", "b", "c"]
    assert rolling.deploy_sizes(found, ["a", "b", "c", "d"]) == [2, 2]


def test_an_engine_of_which_a_node_could_not_be_read_is_left_out_whole() -> None:
    found: dict[str, Any] = {"a": host("a", "b"), "b": {}, "c": host("c")}
    assert rolling.deploy_order(found, ["a", "b", "c"], "proves") == ["c"]
    assert rolling.deploy_sizes(found, ["a", "b", "c"]) == [1]


def test_who_failed_already_is_not_gone_on_with() -> None:
    found = {"a": ended(host("a"), "failed"), "b": host("b")}
    assert rolling.deploy_order(found, ["a", "b"], "proves") == ["b"]
    assert rolling.deploy_sizes(found, ["a", "b"]) == [1]
    nobody = {"a": ended(host("a"), "failed"), "b": ended({}, "failed")}
    assert rolling.deploy_order(nobody, ["a", "b"], "proves") == ["all:!all"]
    assert rolling.deploy_order({"a": ended({}, "failed")}, ["a"], "proves") == ["all:!all"]


def test_a_failure_before_the_switch_counts_as_any_other() -> None:
    found = {"a": ended(host("a"), "failed"), "b": host("b")}
    assert "1 of 2 failed (a)" in rolling.deploy_refusal(found, ["a", "b"], ["b"], "b")
    unread: dict[str, Any] = {"a": ended({}, "failed"), "b": host("b")}
    assert "1 of 2 failed (a)" in rolling.deploy_refusal(unread, ["a", "b"], ["b"], "b")


def test_a_node_that_could_not_be_reached_counts_as_out_of_service() -> None:
    unread = {
        "a": ended({}, "failed", serving=False),
        "b": host("b", max_fail_percentage=100.0),
    }
    said = rolling.deploy_refusal(unread, ["a", "b"], ["b"], "b")
    assert said == "1 of 2 are out of service (a), and deploy_serial (1) allows 1"
    # The play lost it before anything could be noted, and it was one of the run's.
    unread["a"] = {}
    assert rolling.deploy_refusal(unread, ["a", "b"], ["b"], "b") == ""
    unread["b"]["_deploy_unit"]["targets"] = ["a", "b"]
    assert rolling.deploy_refusal(unread, ["a", "b"], ["b"], "b") == said


def test_a_share_counts_what_the_run_leaves_alone() -> None:
    found = {"a": host("a", serial="50%"), "b": host("b", serial="50%")}
    assert rolling.deploy_sizes(found, ["a", "b"]) == [1, 1]
    assert rolling.deploy_sizes(found | {"c": {}, "d": {}}, ["a", "b", "c", "d"]) == [2]


def test_a_member_is_refused_with_its_engine() -> None:
    pair = host("b", "c", serial=1)
    found = {"a": ended(host("a"), "failed", serving=False), "b": pair, "c": pair}
    for member in "bc":
        assert rolling.deploy_refusal(found, ["a", "b", "c"], ["b", "c"], member)
    found["a"] = ended(host("a"), "ok")
    assert rolling.deploy_refusal(found, ["a", "b", "c"], ["b", "c"], "c") == ""


def test_rules_that_cannot_be_followed_end_with_one_sentence() -> None:
    with pytest.raises(AnsibleFilterError, match="deploy_serial is 'x'"):
        rolling.deploy_sizes({"a": host("a", serial="x")}, ["a"])


def tabled(
    found: dict[str, Any],
    targets: str,
    *,
    lost: str = "",
    tags: list[str] | None = None,
    skip: list[str] | None = None,
) -> list[str]:
    here = [name for name in targets if name not in lost]
    limits = {"tags": tags or ["all"], "skip_tags": skip or []}
    run = {"targets": list(targets), "here": here, **limits}
    return rolling.deploy_table(found, list(found), run)[1:]


def test_every_node_of_the_run_has_a_row() -> None:
    found = {
        "a": ended(host("a"), "ok", accept=4.0, seconds=60, cause=""),
        "b": ended(host("b", switches=False), "not tried"),
        "c": {},
        "d": host("d"),
        "e": host("e", switches=False, idle=True),
    }
    assert tabled(found, "abce") == [
        "a     r-1      engine   ok         4.0     60       -",
        "b     r-1      nothing  not tried  -       -        why",
        "c     -        -        failed     -       -        failed before its switch, see above",
        "e     r-1      nothing  ok         -       -        -",
    ]


@pytest.mark.parametrize(
    ("tags", "skip", "verdict", "cause"),
    [
        (["model_store"], [], "not switched", "had only the tags model_store"),
        (["cuda_stack", "engine_release"], [], "not switched", "had only the tags cuda_stack, e"),
        (["all"], ["engine"], "not switched", "left out the tags engine"),
        (["untagged"], [], "not switched", "had only the tags untagged"),
        (["tagged"], ["health_gate"], "not proved", "only the tags tagged and left out the tags h"),
        (["engine"], [], "not proved", "had only the tags engine"),
        (["all"], ["health_gate"], "not proved", "left out the tags health_gate"),
        (["all"], ["model_store", "tagged"], "not switched", "left out the tags model_store, tag"),
    ],
)
def test_a_run_of_some_tags_is_told_as_one(
    tags: list[str], skip: list[str], verdict: str, cause: str
) -> None:
    """What went wrong in it is a failure all the same, also where nobody noted it."""
    found = {
        "a": host("a"),
        "b": ended(host("b"), "failed"),
        "c": {},  # not read
        "d": host("d"),  # lost later
        "e": host("e", switches=False, idle=True),
        "f": host("f", "g"),  # of an engine whose other node failed
        "g": ended(host("f", "g"), "failed"),
    }
    told = {row[0]: row for row in tabled(found, "abcdefg", lost="cd", tags=tags, skip=skip)}
    assert verdict in told["a"]
    assert f"this run {cause}" in told["a"] or cause in told["a"]
    verdicts = {node: "failed" in row for node, row in told.items()}
    assert verdicts == {node: node in "bcdfg" for node in "abcdefg"}
    assert " ok " in told["e"]


def test_an_engine_that_proved_itself_as_it_was_is_not_called_switched() -> None:
    found = {"a": ended(host("a"), "ok"), "b": ended(host("b", switches=False), "ok")}
    told = tabled(found, "ab", tags=["health_gate"])
    assert ["not switched" in row for row in told] == [True, False]


@pytest.mark.parametrize(
    ("tags", "skip"),
    [(["all"], []), (["tagged"], []), (["engine", "health_gate"], []), (["all"], ["cuda_stack"])],
)
def test_a_run_that_switches_and_proves_is_a_whole_one(tags: list[str], skip: list[str]) -> None:
    (row,) = tabled({"a": host("a")}, "a", tags=tags, skip=skip)
    assert row.endswith("failed before its switch, see above")


def shaken(facts: dict[str, Any]) -> dict[str, Any]:
    """A node whose engine would go down for its host."""
    return {**facts, "_deploy_unit": {**facts["_deploy_unit"], "host": ["driver: a -> b"]}}


def test_hosts_are_changed_in_turn_where_something_serves() -> None:
    found = {
        "a": shaken(host("a", switches=False)),
        "b": host("b"),
        "c": shaken(host("c", serving=False)),
        "d": shaken(host("d")),
    }
    engines = list(found)
    assert rolling.host_order(found, engines) == ["a", "d"]
    assert rolling.host_sizes(found, engines) == [1, 1]
    assert rolling.host_turns(found, engines) == [
        "hosts are changed in turn, those with one number at once:",
        "1. a: driver: a -> b",
        "2. d: driver: a -> b",
    ]


def test_without_such_a_host_the_play_is_for_nobody() -> None:
    cases: list[dict[str, Any]] = [{}, {"a": {}}, {"a": host("a")}]
    for found in [*cases, {"a": shaken(host("a", serving=False))}]:
        assert rolling.host_order(found, ["a"]) == ["all:!all"]
        assert rolling.host_sizes(found, ["a"]) == [1]
        assert rolling.host_turns(found, ["a"]) == []


def test_hosts_obey_serial_canary_and_failures() -> None:
    found = {name: shaken(host(name, serial=2, canary=["c"])) for name in "abcd"}
    engines = list("abcd")
    assert rolling.host_order(found, engines) == ["c", "a", "b", "d"]
    assert rolling.host_sizes(found, engines) == [1, 2, 1]
    found["c"] = ended(found["c"], "failed")
    assert rolling.host_refusal(found, engines, ["a", "b"], "a") == "the canary c failed"
    assert rolling.host_order(found, engines) == ["a", "b", "d"]


def test_a_canary_whose_turn_is_over_is_the_canary_still() -> None:
    rules: dict[str, Any] = {"canary": 1, "max_fail_percentage": 50.0}
    found = {name: shaken(host(name, **rules)) for name in "abcd"}
    # As it is read after its turn: there is nothing to do for its host any more.
    found["a"] = {**host("a", **rules), "_deploy_turn": True}
    found["b"] = ended({**found["b"], "_deploy_turn": True}, "failed")
    assert rolling.host_refusal(found, list("abcd"), ["c"], "c") == ""
    found["a"] = ended(found["a"], "failed")
    said = rolling.host_refusal(found, list("abcd"), ["c"], "c")
    assert said == "the canary a failed"


def test_what_is_down_takes_a_place_of_a_host_too() -> None:
    found = {"a": shaken(host("a")), "b": host("b", serving=False)}
    assert "1 of 2 are out of service (b)" in rolling.host_refusal(found, ["a", "b"], ["a"], "a")
    # That its engine will be switched later is no reason: its host has no turn now.
    assert rolling.host_refusal(found, ["a", "b"], ["b"], "b") == ""


def test_the_nodes_of_one_engine_go_down_for_the_host_of_one_of_them() -> None:
    pair = host("a", "b")
    found = {"a": pair, "b": shaken(pair), "c": shaken(host("c"))}
    assert rolling.host_order(found, ["a", "b", "c"]) == ["a", "b", "c"]
    assert rolling.host_sizes(found, ["a", "b", "c"]) == [2, 1]
    assert rolling.host_turns(found, ["a", "b", "c"])[1] == "1. a, b: driver: a -> b"
    found["b"] = ended(found["b"], "failed", serving=False)
    assert "1 of 2 failed (a)" in rolling.host_refusal(found, ["a", "b", "c"], ["c"], "c")


def test_after_its_turn_a_node_goes_on_with_the_others() -> None:
    """A host that was changed is read anew: nothing of it disturbs any more."""
    found = {"a": host("a"), "b": ended(shaken(host("b")), "failed"), "c": host("c")}
    assert rolling.deploy_order(found, ["a", "b", "c"], "prepares") == ["a", "c"]


def test_what_a_turn_has_left_counts_where_an_engine_serves() -> None:
    after: dict[str, Any] = {"_deploy_turn": True}
    pair = host("c", "d")
    found = {
        "a": {**shaken(host("a")), **after},
        "b": {**host("b"), **after},
        "c": {**pair, **after},
        "d": {**shaken(pair), **after},
        "e": shaken(host("e", "f")),  # its other node is down: it serves nobody
        "f": host("e", "f", serving=False),
    }
    left = {name: rolling.host_left(found, list(found), name) for name in found}
    assert left == {name: ["driver: a -> b"] if name in "ad" else [] for name in found}
    del found["c"]["_deploy_unit"]
    assert rolling.host_left(found, list(found), "d") == []
