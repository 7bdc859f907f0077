# SPDX-License-Identifier: Apache-2.0
"""Decisions about gateways."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import decide

LOCKS = {
    "3.9": {"path": "/l/9", "release": "router-1-9"},
    "3.11": {"path": "/l/11", "release": "router-1-11"},
}
FILE = {"sha256": "s", "mode": "0644", "owner": "root", "group": "root"}
UNIT = "/etc/systemd/system/sglang-gateway.service"
CONFIG = "/etc/sglang-gateway/gateway.json"

MISSING = {"file": "x", "what": "missing", "mend": "rebuild", "since": 0.0}


def gateway(**changed: Any) -> dict[str, Any]:
    """A gateway that is as it should be."""
    reading = {
        "workers": {"a": "http://a:1"},
        "members": {"a": {"inside": True, "reason": "", "since": 1.0}},
        "listed": [{"url": "http://a:1", "healthy": True, "load": 0}],
        "error": "",
        "admin_key": True,
    }
    return {**reading, **changed}


def node(**changed: Any) -> dict[str, Any]:
    """The reading of such a host."""
    seen = {**FILE, "exists": True, "changed_at": 1.0}
    reading: dict[str, Any] = {
        "gateway": gateway(),
        "releases": {
            "current": "r",
            "previous": "",
            "complete": ["r"],
            "built": {"r": 3.0},
            "unfinished": [],
            "drift": {"r": []},
        },
        "launches": {"records": {}, "serving": "", "before": ""},
        "unit": {
            "name": "sglang-gateway.service",
            "load_state": "loaded",
            "active_state": "active",
            "sub_state": "running",
            "unit_file_state": "enabled",
            "need_reload": False,
            "launch": "l",
            "started_at": 2.0,
            "fragment_path": UNIT,
            "titles": [],
        },
        "files": {UNIT: dict(seen), CONFIG: dict(seen)},
        "ports": [],
    }
    return {**reading, **changed}


def planned(reading: dict[str, Any], **changed: Any) -> dict[str, list[Any]]:
    wanted = {
        "release": "r",
        "launch": "l",
        "files": [{"path": UNIT, **FILE}, {"path": CONFIG, **FILE}],
        "enabled": True,
        "workers": {"a": "http://a:1"},
        "keep": 2,
    }
    return decide.plan(reading, {**wanted, **changed})


def test_the_newest_python_with_a_lock_runs_the_router() -> None:
    chosen = decide.choose("1", LOCKS, {"3.9": "/p/9", "3.11": "/p/11", "3.13": "/p/13"})
    assert chosen == {
        "python": "3.11",
        "path": "/p/11",
        "lock": "/l/11",
        "release": "router-1-11",
        "error": "",
    }
    assert (
        "locked for Python 3.11, 3.9, this host has 3.8"
        in decide.choose("1", LOCKS, {"3.8": "/p"})["error"]
    )


def test_a_release_is_named_by_all_that_shapes_it() -> None:
    names = {
        decide.release_id(*inputs)
        for inputs in (
            ("1", "3.11", "x"),
            ("1", "3.12", "x"),
            ("1", "3.11", "y"),
            ("2", "3.11", "x"),
        )
    }
    assert len(names) == 4


def test_workers_are_where_other_hosts_reach_them() -> None:
    hosts = {"a": "10.0.0.1", "b": "0.0.0.0", "c": "::", "d": "0.0.0.0"}
    found = decide.workers(
        "abcd", hosts, dict.fromkeys("abcd", 3), {"a": "x", "b": "10.0.0.2", "c": "fd00::3"}
    )
    assert found == {
        "a": "http://10.0.0.1:3",
        "b": "http://10.0.0.2:3",
        "c": "http://[fd00::3]:3",
        "d": "http://d:3",
    }


def test_an_engine_on_loopback_of_another_machine_is_refused() -> None:
    chosen = decide.choose("1", LOCKS, {"3.11": "/p"})
    hosts = {"a": "127.0.0.1", "b": "127.0.0.1", "c": "10.0.0.3"}
    [problem] = decide.problems(
        node(), chosen, "g", hosts, {"a": "10.0.0.1", "b": "10.0.0.9", "g": "10.0.0.9"}
    )
    assert "engine of a listens on 127.0.0.1 alone" in problem
    assert "engine_host of a" in problem


def test_a_taken_port_and_an_empty_fleet_are_refused() -> None:
    chosen = decide.choose("1", LOCKS, {"3.11": "/p"})
    taken = {"address": "::", "port": 8080, "pid": 7, "command": "nginx", "unit": "nginx.service"}
    own = {**taken, "unit": "sglang-gateway.service"}
    found = decide.problems(node(ports=[taken, own]), chosen, "g", {}, {})
    assert len(found) == 2
    assert "no engines" in found[0]
    assert "port 8080 is taken by pid 7 (nginx)" in found[1]


def test_a_gateway_that_is_as_it_should_be_has_no_difference() -> None:
    assert all(entries == [] for entries in planned(node()).values())


@pytest.mark.parametrize(
    ("where", "change", "part", "item", "restarts"),
    [
        ("releases", {"complete": []}, "gateway_release", "release r", True),
        ("releases", {"drift": {"r": [MISSING]}}, "gateway_release", "release r", True),
        ("releases", {"current": "o"}, "gateway", "current release", True),
        ("unit", {"active_state": "failed"}, "gateway", "router", True),
        ("unit", {"launch": "o"}, "gateway", "router", True),
        ("unit", {"need_reload": True}, "gateway", "unit", False),
        ("unit", {"unit_file_state": "disabled"}, "gateway", "unit", False),
        ("gateway", {"admin_key": False}, "gateway", "key of the control plane", True),
        ("gateway", {"error": "GET: timed out"}, "gateway", "router", True),
        (
            "gateway",
            {"listed": [{"url": "http://old:1"}, {"url": "http://a:1/"}]},
            "gateway_workers",
            "worker http://old:1",
            False,
        ),
        ("gateway", {"members": {"a": {}, "old": {}}}, "gateway_workers", "member old", False),
    ],
)
def test_each_difference_is_named_with_what_it_costs(
    where: str, change: dict[str, Any], part: str, item: str, restarts: bool
) -> None:
    found = planned(node(**{where: {**node()[where], **change}}))
    assert [(key, e["item"]) for key, entries in found.items() for e in entries] == [(part, item)]
    assert bool(decide.restart_reasons(found)) is restarts
    last = decide.lines(found, running=True)[-1]
    assert ("RESTARTS" in last) is restarts


def test_only_what_is_read_once_at_the_start_restarts_the_router() -> None:
    """A new node in the inventory changes gateway.json; the router learns of it by its API."""
    other = {**FILE, "exists": True, "changed_at": 1.0, "sha256": "edited"}
    files = node()["files"]
    assert not decide.restart_reasons(planned(node(files={**files, CONFIG: other})))
    start_py = "/etc/sglang-gateway/start.py"
    wanted = [{"path": start_py, **FILE}]
    assert decide.restart_reasons(planned(node(files={start_py: other}), files=wanted))


def test_old_routers_go_and_the_one_in_use_stays() -> None:
    releases = {**node()["releases"], "built": {"r": 9.0, "x": 1.0, "y": 2.0}}
    found = planned(node(releases=releases))["gateway_old"]
    assert [entry["item"] for entry in found] == ["release x"]


def test_a_first_start_is_no_restart() -> None:
    found = planned(node(unit={**node()["unit"], "active_state": "inactive"}))
    assert decide.lines(found, running=False)[-1] == "the router starts"


OUT = {"inside": False, "reason": "its engine is being switched", "since": 1.0}


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (gateway(), ""),
        (gateway(members={"a": OUT}, listed=[]), "no requests here: its engine is being switched"),
        (gateway(members={}, listed=[]), "it was never added"),
        (gateway(listed=[]), "it lost it"),
        (gateway(members={"a": OUT}), "although it was taken out: its engine is being switched"),
        (gateway(workers={}), "does not know this node"),
        (gateway(error="GET: timed out"), "cannot be asked: GET: timed out"),
    ],
)
def test_a_node_that_gets_no_requests_is_a_difference(reading: dict[str, Any], said: str) -> None:
    found = decide.membership("a", {"g1": gateway(), "g2": reading})
    assert len(found) == bool(said)
    for entry in found:
        assert entry["item"] == "gateway g2"
        assert said in entry["reason"]
        assert not entry["restart"]


def test_one_line_says_who_gets_requests() -> None:
    known = {"a": "http://a:1", "b": "http://b:1", "c": "http://c:1"}
    reading = gateway(members={"a": {"inside": True, "reason": ""}, "b": OUT})
    assert decide.summary(reading, known) == (
        "sends to a; not to b (its engine is being switched), c (it was never added)"
    )
    assert decide.summary(gateway(listed=[]), {}) == "sends to nobody yet"
    assert decide.summary(gateway(error="x"), known) == "cannot be asked: x"
