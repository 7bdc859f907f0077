# SPDX-License-Identifier: Apache-2.0
"""What playbooks/rollback.yml does where something happened to the engine, or to an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.playbooks.test_rollback import (
    NONSENSE,
    PAIR,
    PROVED,
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
    engine = {"name": "pair", "members": ["a", "b"], "rank": 0, "size": 2, "head": "a"}
    seen = [crashing(), reading(C)]
    for one in seen:
        for kept in one["launches"]["records"].values():
            kept["gate"]["group"] = engine
    done = roll_back(tmp_path, C, PAIR, node_facts=seen)
    said = done.played.output
    assert done.played.status == 0, said
    assert done.switches() == [("stopped", None)] * 2 + [(B, None)] * 2, said
