# SPDX-License-Identifier: Apache-2.0
"""Rollbacks by hand of which something happened before: interrupted runs, engines that crash."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _going_back
from ansible_collections.sm120.sglang.plugins.module_utils._group import results

from .test_lifecycle import TWO, A, B, C, failure, node, record

THREE: dict[str, dict[str, Any]] = {
    "launches": {
        "serving": C,
        "before": B,
        "records": {A: record(A, "r1", 1), B: record(B, "r2", 2), C: record(C, "r3", 3)},
    },
    "releases": {"current": "r2", "previous": "r3", "complete": ["r1", "r2", "r3"]},
}
LEFT = {**failure(C, 4), "by_hand": True}


@pytest.mark.parametrize("running", [B, A])
@pytest.mark.parametrize("runs", [True, False], ids=["runs", "stopped"])
def test_a_rollback_by_hand_that_was_interrupted_is_finished(running: str, runs: bool) -> None:
    """Not forward again to what it left: its gate gave no verdict, or the controller died."""
    launches = {**THREE["launches"], "configured": running}
    unit = {"launch": running} if runs else {"active_state": "inactive", "launch": ""}
    seen = node(**{**THREE, "launches": launches}, unit=unit, failures=[LEFT])
    release = launches["records"][running]["release"]
    for wanted in ("", running, release):
        found = _going_back.choose(seen, wanted)
        assert (found["launch"], found["unfinished"], found["error"]) == (running, C, "")
        assert found["restart"] is not runs
    said = _going_back.rollback_plan(seen, found)
    assert said[0].startswith(f"a rollback from release r3 (launch {C}) was begun and not finished")
    assert ("RESTARTS" in said[2]) is not runs
    # What it left is put back if this one fails after all; by name it is gone back to in any case.
    assert _going_back.return_target(seen, running) == (C if runs else "")
    by_name = _going_back.choose(seen, "r3")
    assert (by_name["launch"], by_name["unfinished"], by_name["restart"]) == (C, "", True)


@pytest.mark.parametrize(
    "failures",
    [
        [],
        [{**LEFT, "at": 2.0}],  # it has proved itself again since
        [LEFT, failure(B, 5)],  # what it went to has failed
        [{**LEFT, "launch": A}],
        [failure(C, 4), failure(B, 5)],
    ],
)
def test_a_rollback_that_was_not_begun_or_came_to_an_end_is_not_finished(
    failures: list[dict[str, Any]],
) -> None:
    found = _going_back.choose(node(**THREE, unit={"launch": B}, failures=failures))
    assert (found["launch"], found["unfinished"], found["restart"]) == (C, "", True)


DEATHS: dict[str, dict[str, Any]] = {
    "waits": {"active_state": "activating", "sub_state": "auto-restart", "restarts": 0},
    "again": {"active_state": "activating", "sub_state": "start-pre", "restarts": 1},
    "given up": {"active_state": "failed", "sub_state": "failed", "restarts": 2},
    "once": {"active_state": "failed", "sub_state": "failed", "restarts": 0, "stop_asked": False},
    "stopped between deaths": {"active_state": "inactive", "sub_state": "dead", "restarts": 1},
}
STOPS: dict[str, dict[str, Any]] = {
    "by systemctl": {"active_state": "failed", "restarts": 0, "stop_asked": True},
    "by a role, or not started": {"active_state": "inactive", "sub_state": "dead", "restarts": 0},
    "being stopped": {"active_state": "deactivating", "sub_state": "stop-sigterm", "restarts": 0},
}
ENDED = {**TWO, "launches": {**TWO["launches"], "configured": B}}


@pytest.mark.parametrize("unit", DEATHS.values(), ids=DEATHS)
def test_what_crashes_is_not_gone_back_to_in_whichever_second_it_is_looked_at(
    unit: dict[str, Any],
) -> None:
    seen = node(**ENDED, unit={**unit, "launch": ""})
    found = _going_back.choose(seen)
    assert (found["launch"], found["crashed"]) == (A, True)
    said = _going_back.rollback_plan(seen, found)
    assert said[0] == f"release r2 (launch {B}) crashed and is left"
    # By name it is started again; so it is where there is nothing else.
    again = _going_back.choose(seen, "r2")
    assert again["launch"] == B
    assert _going_back.rollback_plan(seen, again)[0] == f"release r2 (launch {B}) crashed"
    alone = node(launches={"configured": A}, unit={**unit, "launch": ""})
    assert _going_back.choose(alone)["launch"] == A
    # When the other one fails too, what crashed is nothing that a rollback reaches.
    assert _going_back.reaches(seen, [A]) == {}


@pytest.mark.parametrize("unit", STOPS.values(), ids=STOPS)
def test_what_was_stopped_is_started_again(unit: dict[str, Any]) -> None:
    seen = node(**ENDED, unit={**unit, "launch": ""})
    found = _going_back.choose(seen)
    assert (found["launch"], found["crashed"]) == (B, False)
    assert _going_back.rollback_plan(seen, found)[0] == "nothing runs"
    assert _going_back.reaches(seen, [A])["launch"] == B


def test_restarts_of_an_engine_that_runs_are_no_crash() -> None:
    assert not _going_back.choose(node(**ENDED, unit={"restarts": 2}))["crashed"]


def test_an_engine_has_crashed_when_one_of_its_nodes_has() -> None:
    """What still runs on the others is no engine, and agrees."""
    dead, alive = node(**ENDED, unit={**DEATHS["waits"], "launch": ""}), node(**ENDED)
    nodes = {"a": alive, "b": dead}
    assert results.crashed(["a", "b"], nodes)
    assert not results.crashed(["a", "b"], {"a": alive})
    for name, one in nodes.items():
        now = results.runs(name, ["a", "b"], nodes)
        assert _going_back.choose(one, running=now, dead=True)["launch"] == A
