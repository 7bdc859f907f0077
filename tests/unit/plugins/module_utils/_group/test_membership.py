# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._group import membership
from ansible_collections.sm120.sglang.plugins.module_utils._group.membership import Group, group_of

GROUPS = {
    "all": ["a1", "a2", "b1", "b2", "c"],
    "engines": ["a1", "a2", "b1", "b2", "c"],
    "a": ["a1", "a2"],
    "b": ["b2", "b1"],
    "one": ["c"],
}
NAMED = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c": ""}
HERE = GROUPS["engines"]


def test_the_inventorys_order_is_the_rank() -> None:
    assert group_of("b1", "b", GROUPS) == Group("b", ("b2", "b1"), 1)
    assert (group_of("b1", "b", GROUPS).head, group_of("b1", "b", GROUPS).size) == ("b2", 2)


@pytest.mark.parametrize("name", ["", "none", "a", "one"])
def test_a_node_that_is_in_no_group_of_several_is_its_own_engine(name: str) -> None:
    assert group_of("c", name, GROUPS) == Group("", ("c",))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (HERE, [("a1", "a2"), ("b2", "b1"), ("c",)]),
        (["c", "b1", "b2"], [("c",), ("b2", "b1")]),
        (["a2", "c"], [("a2",), ("c",)]),
        ([], []),
        (["c", "c"], [("c",)]),
    ],
)
def test_units_hold_whole_engines(hosts: list[str], expected: list[tuple[str, ...]]) -> None:
    assert membership.units(hosts, NAMED, GROUPS) == expected


@pytest.mark.parametrize(
    ("named", "groups", "here", "expected"),
    [
        ({}, {}, HERE, []),
        ({"a1": ""}, {}, HERE, []),
        ({"a1": "aa"}, {}, HERE, ["the inventory has no group 'aa'; did you mean a?"]),
        ({"a1": "zzz"}, {}, HERE, ["the inventory has no group 'zzz'"]),
        ({"a1": "b"}, {}, HERE, ["a1 says b, and is not in that group (b2, b1). Remedy: add it"]),
        ({"a1": "empty"}, {"empty": []}, HERE, ["not in that group (it is empty)"]),
        ({}, {"a": ["a1"]}, HERE, ["the group a has a1 alone. Remedy: add the other nodes"]),
        (
            {"a2": ""},
            {},
            HERE,
            ["a2 is in the group a, and its own engine_group is not set: a node"],
        ),
        (
            {"a2": "b"},
            {},
            HERE,
            ["a2 is in the group a, and its own engine_group is 'b': a node be"],
        ),
        (
            {},
            {"engines": ["a1"]},
            HERE,
            ["a2 of a is not in the group engines. Remedy: make a a c"],
        ),
        (
            {},
            {},
            ["a1", "c"],
            ["a2 of a is not part of this run, and the nodes of one engine start"],
        ),
        (
            {"a2": ""},
            {"engines": ["a1"]},
            ["a1"],
            ["its own engine_group is not set", "is not in the group engines", "not part of this"],
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(
    named: dict[str, str], groups: dict[str, list[str]], here: list[str], expected: list[str]
) -> None:
    found = membership.problems("a1", {**NAMED, **named}, {**GROUPS, **groups}, here)
    assert len(found) == len(expected)
    for text, part in zip(found, expected, strict=True):
        assert part in text
        assert text.startswith("engine_group: ")


WANTED: dict[str, Any] = {
    "tp_size": 16,
    "gpus": 8,
    "port": 30000,
    "group_port": 20000,
    "arguments": {},
}
A, ALONE = Group("a", ("a1", "a2")), Group("", ("c",))


@pytest.mark.parametrize(
    ("group", "change", "expected"),
    [
        (A, {}, []),
        (ALONE, {}, []),
        (ALONE, {"tp_size": 3, "gpus": 8, "group_port": 30000}, []),
        (ALONE, {"arguments": {"nnodes": 1, "node-rank": "0", "dist-init-addr": "h:1"}}, []),
        (ALONE, {"arguments": {"nnodes": 2}}, ["engine_arguments.nnodes: an engine over several"]),
        (ALONE, {"arguments": {"node-rank": 1}}, ["engine_arguments.node-rank: an engine over"]),
        (A, {"arguments": {"nnodes": 2}}, ["engine_arguments.nnodes: engine_group a decides it"]),
        (A, {"arguments": {"nccl-init-addr": "x:1"}}, ["engine_arguments.nccl-init-addr: engine"]),
        (
            A,
            {"tp_size": 15},
            ["engine_tp_size is 15, which 2 nodes cannot share. Remedy: a multip"],
        ),
        (
            A,
            {"tp_size": 8},
            ["is 8, and the 2 nodes of a have 2 x 8 GPUs (cuda_stack_gpus). Remedy: 16"],
        ),
        (A, {"tp_size": 32}, ["is 32, and the 2 nodes of a have 2 x 8 GPUs"]),
        (A, {"tp_size": 2, "gpus": 0}, []),
        (A, {"tp_size": 3, "gpus": 0}, ["which 2 nodes cannot share"]),
        (A, {"tp_size": 8, "arguments": {"pp-size": 2}}, []),
        (A, {"tp_size": 16, "arguments": {"pp-size": 2}}, ["engine_tp_size times pp-size is 32"]),
        (A, {"tp_size": 8, "arguments": {"tp-size": 16}}, []),
        (A, {"port": 20000}, ["engine_group_port: 20000 and engine_port 20000 clash"]),
        (A, {"port": 20006}, []),
        (
            A,
            {"port": 20006, "arguments": {"enable-dp-attention": True}},
            ["engine_group_port: 20000 to 20006 (enable-dp-attention) and engine_port 20006 clash"],
        ),
        (A, {"port": 20007, "arguments": {"enable-dp-attention": True}}, []),
    ],
)
def test_ranks_and_ports(group: Group, change: dict[str, Any], expected: list[str]) -> None:
    found = membership.size_problems(group, {**WANTED, **change})
    assert len(found) == len(expected)
    for text, part in zip(found, expected, strict=True):
        assert part in text
        assert "Remedy: " in text


SAID: dict[str, Any] = {
    "release": "r1",
    "models": ["m1", "m2"],
    "arguments": ["--tp-size", "16", "--trust-remote-code"],
    "address": "192.0.2.1",
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        (
            {"release": "r2"},
            ["differ in release: a1 has r1, a2 r2. Remedy: set it once, for the gro"],
        ),
        ({"models": ["m1"]}, ["differ in models: a1 has m1, m2, a2 m1"]),
        (
            {"arguments": ["--tp-size", "8"]},
            ["--tp-size: a1 has 16, a2 8", "--trust-remote-code: a1 has it, a2 none"],
        ),
        ({"address": "192.0.2.1"}, ["engine_group_address: a1 and a2 both have 192.0.2.1"]),
    ],
)
def test_the_nodes_of_one_engine_agree(change: dict[str, Any], expected: list[str]) -> None:
    found = membership.differences(
        A, {"a1": SAID, "a2": {**SAID, "address": "192.0.2.2", **change}}
    )
    assert len(found) == len(expected)
    for text, part in zip(found, expected, strict=True):
        assert part in text


def test_a_node_that_could_not_be_judged_is_named() -> None:
    assert "a2 of a could not be judged" in membership.differences(A, {"a1": SAID})[0]
