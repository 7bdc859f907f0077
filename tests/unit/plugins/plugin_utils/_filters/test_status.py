# SPDX-License-Identifier: Apache-2.0
"""The table of all nodes."""

from __future__ import annotations

from typing import Any

from ansible_collections.sm120.sglang.plugins.plugin_utils._filters.status import status_table

READY: dict[str, Any] = {
    "state": "ready",
    "why": "it answered",
    "release": "lab-0.5.9-0123456789ab",
    "sglang": "0.5.9",
    "patches": ["a", "b"],
    "node": 1,
    "nodes": 1,
    "uptime": 90061,
    "accept_length": 2.714,
    "throughput": 73.26,
    "kv_use": 0.125,
    "running": 3,
    "queued": 0,
    "problems": [],
    "gpus": [
        {"used_mib": 72000.0, "memory_mib": 96000.0, "busy_percent": 40.0, "celsius": 61.0},
        {"used_mib": 48000.0, "memory_mib": 96000.0, "busy_percent": 90.0, "celsius": None},
    ],
}
NONE = dict.fromkeys(("uptime", "accept_length", "throughput", "kv_use", "running", "queued"))
STOPPED = {**READY, **NONE, "state": "stopped", "why": "the unit is inactive", "gpus": []}


def test_every_node_has_a_row_and_what_is_wrong_stands_below() -> None:
    table = status_table(
        {"gpu2": STOPPED, "gpu1": READY, "gpu3": {"failed": True, "msg": "gpu3: no route"}}
    )
    assert len(table) == 6
    assert [line.split()[0] for line in table[:4]] == ["node", "gpu1", "gpu2", "gpu3"]
    for word in ("ready", "lab-0.5.9-0123456789ab", "25h", "2.71", "73.3", "12%", "3/0"):
        assert word in table[1].split()
    assert "2 mem 50%-75% busy 40-90% 61C" in table[1]
    assert table[2].split()[1] == "stopped"
    assert "none" in table[2]
    assert "unreachable" in table[3]
    assert table[4:] == ["gpu2: the unit is inactive", "gpu3: gpu3: no route"]


def test_a_node_of_several_says_which_it_is() -> None:
    table = status_table({"a": {**READY, "nodes": 2}, "b": {**STOPPED, "node": 2, "nodes": 2}})
    assert "  ready (1 of 2)  " in table[1]
    assert "  stopped (2 of 2)  " in table[2]


def test_the_columns_are_aligned() -> None:
    table = status_table({"a": READY, "a-much-longer-name": STOPPED})
    at = table[0].index("state")
    assert all(line[at - 1] == " " and line[at] != " " for line in table[:3])


def test_times_are_short() -> None:
    spans = {5: "5s", 119: "119s", 120: "2m", 7200: "2h", 200000: "2d"}
    for seconds, text in spans.items():
        assert text in status_table({"a": {**READY, "uptime": seconds}})[1].split()


def test_what_could_not_be_read_is_said() -> None:
    table = status_table({"a": {**READY, "problems": ["the journal cannot be read: x"]}})
    assert table[-1] == "a: the journal cannot be read: x"


def gateway(**inside: bool) -> dict[str, Any]:
    """A gateway's reading: node to whether the router sends to it."""
    workers = {node: f"http://{node}:30000" for node in inside}
    members = {
        node: {"inside": yes, "reason": "" if yes else "its host is being changed", "since": 0.0}
        for node, yes in inside.items()
    }
    listed = [{"url": url, "healthy": True} for node, url in workers.items() if inside[node]]
    return {"gateway": {"workers": workers, "members": members, "listed": listed, "error": ""}}


def cells(table: list[str]) -> list[str]:
    """The cells below `gateways`, its head among them."""
    at = table[0].index("gateways")
    return [" ".join(line[at:].split("  ")[0].split()) for line in table[:4]]


def test_who_gets_no_requests_is_shown_with_the_reason() -> None:
    found = dict.fromkeys("abc", READY)
    gateways = {"g1": gateway(a=True, b=False), "g2": gateway(a=True, b=True)}
    table = status_table(found, gateways, ["a", "b"])
    # c is a node of somebody's engine, and answers nobody itself.
    assert cells(table) == ["gateways", "in", "in 1 of 2", "-"]
    assert table[4:] == ["b: gateway g1: sends no requests here: its host is being changed"]
    assert cells(status_table(found, {"g1": gateways["g1"]}, ["a", "b"]))[2] == "OUT"


def test_a_gateway_that_cannot_be_asked_is_no_gateway_that_sends() -> None:
    found = dict.fromkeys("abc", READY)
    table = status_table(found, {"g1": {"unreachable": True, "msg": "no route"}}, list("abc"))
    assert cells(table) == ["gateways", "?", "?", "?"]
    assert table[4] == "a: gateway g1: cannot be asked: no route"


def test_without_gateways_there_is_no_such_column() -> None:
    assert status_table({"a": READY}, {}, ["a"]) == status_table({"a": READY})
    assert "gateways" not in status_table({"a": READY})[0]
