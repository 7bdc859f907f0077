# SPDX-License-Identifier: Apache-2.0
"""Rollbacks by hand of which something happened before: interrupted runs, engines that crash."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _lifecycle

from .test_lifecycle import A, B, C, failure, node, record

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
        found = _lifecycle.choose(seen, wanted)
        assert (found["launch"], found["unfinished"], found["error"]) == (running, C, "")
        assert found["restart"] is not runs
    said = _lifecycle.rollback_plan(seen, found)
    assert said[0].startswith(f"a rollback from release r3 (launch {C}) was begun and not finished")
    assert ("RESTARTS" in said[2]) is not runs
    # What it left is put back if this one fails after all; by name it is gone back to in any case.
    assert _lifecycle.return_target(seen, running) == (C if runs else "")
    by_name = _lifecycle.choose(seen, "r3")
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
    found = _lifecycle.choose(node(**THREE, unit={"launch": B}, failures=failures))
    assert (found["launch"], found["unfinished"], found["restart"]) == (C, "", True)
