# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._group import results

MEMBERS = ["a1", "a2"]
DONE = {"release": "r1", "changed": True}
BROKEN = {"failed": True, "msg": "No space left on device", "touched": False, "foreign": False}
FOREIGN = {**DONE, "foreign": True}
LOST_MEMORY = {"memory_lost": True, "msg": "GPU 3: pid 9 holds 4 MiB"}


def test_who_did_not_come_as_far() -> None:
    assert results.absent(MEMBERS, {"a1": "L", "a2": "L"}, "L") == []
    assert results.absent(MEMBERS, {"a1": "L", "a2": "K"}, "L") == ["a2"]
    assert results.absent(MEMBERS, {"a1": "L"}, "L") == ["a2"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"a1": DONE, "a2": DONE}, []),
        ({"a1": DONE, "a2": BROKEN}, ["a2: No space left on device"]),
        ({"a1": FOREIGN, "a2": DONE}, ["a1: somebody else has deployed meanwhile"]),
        ({"a1": DONE}, ["a2: it cannot be reached any more"]),
        ({"a1": DONE, "a2": {"unreachable": True, "msg": "timed out"}}, ["a2: timed out"]),
    ],
)
def test_nothing_starts_while_a_part_runs(said: dict[str, Any], expected: list[str]) -> None:
    assert results.unstopped(MEMBERS, said) == expected


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"a1": DONE, "a2": DONE}, ""),
        ({"a1": DONE, "a2": BROKEN}, "a2: No space left on device"),
        ({"a2": DONE}, "a1: it cannot be reached any more"),
        ({"a1": BROKEN, "a2": BROKEN}, "a1: No space left on device\na2: No space left on device"),
    ],
)
def test_one_node_that_does_not_switch_refuses_for_all(said: dict[str, Any], message: str) -> None:
    found = results.unswitched(MEMBERS, said)
    assert found == ({"msg": message} if message else {})


def test_without_the_memory_of_one_node_nothing_starts_on_any() -> None:
    stopped = {"a1": {**DONE, "memory_lost": False}, "a2": {**DONE, **LOST_MEMORY}}
    assert results.unstopped(MEMBERS, stopped) == []
    assert results.unfreed(MEMBERS, stopped) == ["a2: GPU 3: pid 9 holds 4 MiB"]
    assert results.unfreed(MEMBERS, {"a1": stopped["a1"]}) == []
    refused = results.unswitched(MEMBERS, {"a1": DONE, "a2": {**BROKEN, **LOST_MEMORY}})
    assert refused == {"msg": "a2: GPU 3: pid 9 holds 4 MiB", "memory_lost": True}


OWN = {"msg": "a2: KeyError", "cause": {"signature": "symm-mem-capability"}}
ECHO = {"msg": "a1: Connection closed by peer", "cause": {"signature": "another-node-died"}}
LOST = {"msg": "a1: cannot come up without a2", "lost_to": "a2"}
UNSEEN = {"msg": "a1: ssh broke", "no_verdict": True}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"a1": {}, "a2": {}}, {}),
        ({"a1": {}, "a2": OWN}, OWN),
        ({"a1": ECHO, "a2": OWN}, OWN),
        ({"a1": LOST, "a2": OWN}, OWN),
        ({"a1": OWN, "a2": OWN}, OWN),
        ({"a1": ECHO, "a2": {}}, ECHO),
        ({"a1": UNSEEN, "a2": OWN}, OWN),
        ({"a1": UNSEEN, "a2": {}}, UNSEEN),
        ({"a1": {}}, {"msg": "a2: it cannot be reached any more", "no_verdict": True}),
    ],
)
def test_the_cause_is_told_and_not_its_echo(said: dict[str, Any], expected: dict[str, Any]) -> None:
    assert results.refusal(MEMBERS, said) == expected


def node(serving: str, engine: list[str] | None, complete: bool = True) -> dict[str, Any]:
    gate = {"group": {"members": engine}} if engine else {}
    return {
        "launches": {
            "serving": serving,
            "records": {serving: {"release": "r1", "gate": gate}} if serving else {},
        },
        "releases": {"complete": ["r1"] if complete else []},
    }


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # One launch of this engine, that all have.
        ({"a1": node("L", MEMBERS), "a2": node("L", MEMBERS)}, ("L", "L")),
        # Engines of their own before: each has its own.
        ({"a1": node("K", None), "a2": node("J", None)}, ("K", "J")),
        # What failed is what served.
        ({"a1": node("F", MEMBERS), "a2": node("F", MEMBERS)}, ("", "")),
        # One of them has nothing, or not the release any more.
        ({"a1": node("L", MEMBERS), "a2": node("", None)}, ("", "")),
        ({"a1": node("L", MEMBERS), "a2": node("L", MEMBERS, complete=False)}, ("", "")),
        ({"a1": node("L", MEMBERS)}, ("", "")),
        # Different launches of the engine; an engine of other nodes; a mixture.
        ({"a1": node("L", MEMBERS), "a2": node("K", MEMBERS)}, ("", "")),
        ({"a1": node("L", ["a1", "b"]), "a2": node("L", ["a1", "b"])}, ("", "")),
        ({"a1": node("L", MEMBERS), "a2": node("K", None)}, ("", "")),
    ],
)
def test_all_nodes_go_back_to_one_launch_or_none_does(
    nodes: dict[str, Any], expected: tuple[str, str]
) -> None:
    found = tuple(results.back(host, MEMBERS, nodes, "F") for host in MEMBERS)
    assert found == expected


def test_what_ran_on_all_nodes_is_put_back_on_all_or_on_none() -> None:
    def running(launch: str, engine: list[str] | None, serving: str = "L") -> dict[str, Any]:
        return {**node(serving, engine), "unit": {"active_state": "active", "launch": launch}}

    both = {member: running("L", MEMBERS) for member in MEMBERS}
    assert [results.returns(host, MEMBERS, both, "F") for host in MEMBERS] == ["L", "L"]
    assert [results.runs(host, MEMBERS, both) for host in MEMBERS] == ["L", "L"]
    own = {"a1": running("K", None, "K"), "a2": running("J", None, "J")}
    assert [results.returns(host, MEMBERS, own, "F") for host in MEMBERS] == ["K", "J"]
    dead = {**both, "a2": {**both["a2"], "unit": {"active_state": "failed", "launch": ""}}}
    for nodes in (dead, {"a1": both["a1"]}, {**both, "a2": running("U", MEMBERS)}):
        assert [results.returns(host, MEMBERS, nodes, "F") for host in MEMBERS] == ["", ""]
    # A part of an engine that is left over serves nobody.
    assert [results.runs(host, MEMBERS, dead) for host in MEMBERS] == ["", ""]


def choice(launch: str, members: list[str], error: str = "") -> dict[str, Any]:
    return {"launch": launch, "members": members, "error": error}


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"a1": choice("L", MEMBERS), "a2": choice("L", MEMBERS)}, ""),
        ({"a1": choice("L", []), "a2": choice("K", [])}, ""),
        ({"a1": choice("L", MEMBERS), "a2": choice("K", MEMBERS)}, "one launch of this engine: a1"),
        ({"a1": choice("L", MEMBERS), "a2": choice("L", [])}, "would not go back to one launch"),
        ({"a1": choice("L", MEMBERS)}, "a2: it is not part of this run"),
        ({"a1": choice("L", MEMBERS), "a2": choice("", [], "nothing there")}, "a2: nothing there"),
    ],
)
def test_a_rollback_by_hand_takes_all_nodes(choices: dict[str, Any], expected: str) -> None:
    found = results.choice_problems(MEMBERS, choices)
    assert bool(found) is bool(expected)
    assert expected in "; ".join(found)
