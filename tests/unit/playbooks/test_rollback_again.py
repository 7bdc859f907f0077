# SPDX-License-Identifier: Apache-2.0
"""What playbooks/rollback.yml does where something happened to the engine, or to an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.test_rollback import (
    NONSENSE,
    PAIR,
    PROVED,
    REFUSED,
    ROOTS,
    SWITCHED,
    B,
    C,
    reading,
    roll_back,
)


def interrupted() -> dict[str, Any]:
    """The links still name C, which was left; B was started, and nobody heard of its gate."""
    left = {"launch": C, "at": 4, "by_hand": True, "message": "left", "folder": "/var/f"}
    return {**reading(B), "failures": [left]}


def test_one_that_was_interrupted_is_finished_without_a_restart(tmp_path: Path) -> None:
    done = roll_back(tmp_path, B, node_facts=[interrupted()])
    said = done.played.output
    assert done.played.status == 0, said
    assert f"release r-b (launch {B}) runs and is gated" in said
    assert done.switches() == [(B, None)], said
    assert [asked["restart"] for name, asked in done.calls if name == "engine_switch"] == [False]
    assert done.kept() == []
    (noted,) = [asked for name, asked in done.calls if name == "launch_record"]
    assert noted["launch"] == B
    assert noted["rolled_back_from"] == {"launch": C, "release": "r-c"}


def test_one_that_was_interrupted_and_fails_puts_back_what_it_left(tmp_path: Path) -> None:
    still = {**SWITCHED, "changed": False}
    done = roll_back(
        tmp_path,
        B,
        node_facts=[interrupted()],
        engine_switch=[still, SWITCHED],
        engine_gate=[NONSENSE, PROVED],
    )
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(B, None), (C, B)], said
    assert done.kept() == [(B, "bad", False)]
    assert f"Serving now: release r-c (launch {C}), as it served before" in said


def crashing() -> dict[str, Any]:
    """C passed last, and now dies again and again; systemd is about to start it once more."""
    unit = {"active_state": "activating", "sub_state": "auto-restart", "restarts": 1, "launch": ""}
    return {**reading(C), "unit": {**unit, "invocation_id": "before"}}


def test_what_crashes_again_and_again_is_left(tmp_path: Path) -> None:
    done = roll_back(tmp_path, C, node_facts=[crashing()])
    said = done.played.output
    assert done.played.status == 0, said
    assert f"release r-c (launch {C}) crashed and is left" in said
    assert done.switches() == [(B, None)], said
    assert done.kept() == [(C, "before", True)]
    (noted,) = [asked for name, asked in done.calls if name == "launch_record"]
    assert noted["rolled_back_from"] == {"launch": C, "release": "r-c"}


def test_an_engine_of_which_one_node_crashes_is_left_on_all(tmp_path: Path) -> None:
    seen = of_pair(C)
    done = roll_back(tmp_path, C, PAIR, node_facts=[{**seen, "unit": crashing()["unit"]}, seen])
    said = done.played.output
    assert done.played.status == 0, said
    assert done.switches() == [("stopped", None)] * 2 + [(B, None)] * 2, said


UNASKED = {"failed": True, "no_verdict": True, "msg": "n: the connection was cut in its gate"}


def of_pair(running: str) -> dict[str, Any]:
    """A node of an engine over two, as `reading`."""
    engine = {"name": "pair", "members": ["a", "b"], "rank": 0, "size": 2, "head": "a"}
    seen = reading(running)
    for kept in seen["launches"]["records"].values():
        kept["gate"]["group"] = engine
    return seen


def test_what_was_put_back_and_nobody_could_look_at_is_not_stopped(tmp_path: Path) -> None:
    done = roll_back(tmp_path, C, engine_gate=[NONSENSE, UNASKED])
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(B, None), (C, B)], said
    assert done.kept() == [(C, "before", True), (B, "bad", False)]
    assert f"Serving now: release r-c (launch {C}), as far as anybody knows" in said
    assert f"not proved ({UNASKED['msg']}). It was left as it is." in said
    assert f"-e rollback_release={B} again, which makes all checks." in said


def test_on_no_node_of_an_engine_either(tmp_path: Path) -> None:
    gates = [NONSENSE, UNASKED]
    done = roll_back(tmp_path, C, PAIR, node_facts=[of_pair(C)], engine_gate=gates)
    said = done.played.output
    assert done.played.status == 2, said
    both = [("stopped", None), (B, None), ("stopped", B), (C, B)]
    assert done.switches() == [one for one in both for _node in PAIR], said
    assert said.count("It was left as it is.") == 2


def test_a_look_that_broke_is_no_verdict(tmp_path: Path) -> None:
    """Its secrets cannot be read: the engine was switched, and was never looked at."""
    seen = reading(C)
    seen["launches"]["records"][B]["files"] = [{"path": "/nonexistent/secrets.yaml"}]
    done = roll_back(tmp_path, C, node_facts=[seen])
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(B, None)], said
    assert "That is no verdict on the engine, which was left as it is." in said


STOPPED: dict[str, Any] = {"changed": True, "release": "r", "foreign": False}


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        ([STOPPED, SWITCHED, STOPPED, SWITCHED], [STOPPED, REFUSED, STOPPED, SWITCHED], "switch"),
        ([STOPPED, STOPPED, SWITCHED], [REFUSED, STOPPED, SWITCHED], "stop"),
    ],
    ids=["switch", "stop"],
)
def test_a_node_to_which_what_failed_never_came_is_not_called_somebody_elses(
    tmp_path: Path, a: list[dict[str, Any]], b: list[dict[str, Any]], first: str
) -> None:
    """Its files are those of the launch that is put back, and all of the engine serves again."""
    ends = {ROOTS["a"]: a, ROOTS["b"]: b}
    done = roll_back(tmp_path, C, PAIR, node_facts=[of_pair(C)], engine_switch=ends)
    said = done.played.output
    assert done.played.status == 2, said
    if first == "switch":
        assert done.switches("a") == [("stopped", None), (B, None), ("stopped", B), (C, B)], said
        assert done.switches("b") == [("stopped", None), (B, None), ("stopped", None), (C, None)]
    else:
        for node in ROOTS:
            assert done.switches(node) == [("stopped", None), ("stopped", None), (C, None)], said
    assert said.count(f"Serving now: release r-c (launch {C}), as it served before") == 2, said
    assert "somebody else" not in said


@pytest.mark.parametrize(
    ("seen", "states"),
    [(reading(C), ["out", "in"]), (crashing(), ["out"]), (interrupted(), ["out"])],
    ids=["serves", "dead", "never proved"],
)
def test_after_a_refusal_gateways_send_again_only_to_what_served(
    tmp_path: Path, seen: dict[str, Any], states: list[str]
) -> None:
    """Into a router goes nothing that is dead: its wait would be the last that is told."""
    worker = [{"changed": True, "running": 0}]
    done = roll_back(
        tmp_path,
        seen["launches"]["configured"],
        node_facts=[seen],
        engine_switch=[REFUSED],
        gateway_worker=worker,
    )
    said = done.played.output
    assert done.played.status == 2, said
    assert "The engine was left as it is." in said
    told = [asked["state"] for name, asked in done.calls if name == "gateway_worker"]
    assert told == states, said
