# SPDX-License-Identifier: Apache-2.0
"""The table of all nodes."""

from __future__ import annotations

from typing import Any

from ansible_collections.sm120.sglang.plugins.filter.status import status_table

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
