# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._group import reach

NODE: dict[str, Any] = {
    "peers": {
        "listeners": [],
        "own": {"addresses": ["192.0.2.1"], "interface": "eth1", "problem": ""},
        "others": {
            "a2": {
                "addresses": ["192.0.2.2"],
                "interface": "eth1",
                "reach": "refused",
                "problem": "",
            }
        },
    },
}
WANTED = {"address": "gpu1", "port": 20000, "rank": 0, "unit": "e.service"}
TAKEN = {"address": "0.0.0.0", "port": 20000, "pid": 7, "command": "nc", "unit": "nc.service"}


def bad(node: dict[str, Any], **wanted: Any) -> dict[str, str]:
    verdicts = reach.judge(node, {**WANTED, **wanted})
    assert all(bool(one["remedy"]) is (one["verdict"] == "fail") for one in verdicts)
    assert all(one["read"] for one in verdicts)
    return {one["id"]: one["read"] for one in verdicts if one["verdict"] == "fail"}


def changed(
    own: dict[str, Any] | None = None, other: dict[str, Any] | None = None
) -> dict[str, Any]:
    node = copy.deepcopy(NODE)
    node["peers"]["own"].update(own or {})
    node["peers"]["others"]["a2"].update(other or {})
    return node


def test_an_engine_on_one_node_has_no_such_checks() -> None:
    assert reach.judge({}, WANTED) == []
    assert reach.judge({"peers": {}}, WANTED) == []


@pytest.mark.parametrize("answer", ["refused", "open"])
def test_whoever_answers_is_reached(answer: str) -> None:
    assert bad(changed(other={"reach": answer})) == {}


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (
            {"addresses": [], "interface": "", "problem": "gpu1: Name or service not known"},
            {},
            {"group_address": "gpu1: Name or service not known"},
        ),
        (
            {"interface": ""},
            {},
            {"group_address": "gpu1 (192.0.2.1) is on no interface of this node"},
        ),
        (
            {"addresses": ["127.0.1.1"], "interface": "lo"},
            {"interface": "lo"},
            {"group_loopback": "gpu1 is 127.0.1.1, which only this node itself reaches"},
        ),
        (
            {},
            {"reach": "silent", "problem": "no answer within 3 s"},
            {"group_reach": "a2 (192.0.2.2) port 20000: no answer within 3 s, a firewall drops it"},
        ),
        (
            {},
            {"reach": "unreachable", "problem": "No route to host"},
            {"group_reach": "a2 (192.0.2.2) port 20000: No route to host, no way there"},
        ),
        (
            {},
            {"addresses": [], "interface": "", "reach": "unreachable", "problem": "a2: unknown"},
            {"group_reach": "a2 port 20000: a2: unknown"},
        ),
        (
            {},
            {"interface": "eth0"},
            {"group_route": "a2 is reached over eth0, and eth1 has this node's address"},
        ),
    ],
)
def test_what_would_keep_them_apart(
    own: dict[str, Any], other: dict[str, Any], expected: dict[str, str]
) -> None:
    assert bad(changed(own, other)) == expected


def test_the_heads_port_is_free_or_our_own() -> None:
    node = copy.deepcopy(NODE)
    node["peers"]["listeners"] = [TAKEN]
    assert bad(node) == {"group_port": "0.0.0.0:20000 is taken by pid 7 (nc, nc.service)"}
    assert bad(node, rank=1) == {}, "the others offer no rendezvous"
    node["peers"]["listeners"] = [{**TAKEN, "unit": "e.service"}]
    assert bad(node) == {}
