# SPDX-License-Identifier: Apache-2.0
"""The unit's state and when a start is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import (
    PROPERTIES,
    UnitState,
    died,
    parse_show,
)

# `systemctl show --timestamp=unix` of systemd 252 for a failed engine, order as it came.
FAILED = """\
MainPID=0
Result=signal
NRestarts=0
ExecMainStatus=9
LoadState=loaded
ActiveState=failed
SubState=failed
InactiveExitTimestamp=@1795970888
InvocationID=cf425f71a5b5464fbc17700ba48d8e4a
"""
RUNNING = UnitState("e.service", "loaded", "active", "running", "success", 0, 5, "aa", 0, 1.0)


def test_reading_what_systemctl_shows() -> None:
    assert {line.partition("=")[0] for line in FAILED.splitlines()} == set(PROPERTIES)
    assert parse_show("sglang.service", FAILED) == UnitState(
        name="sglang.service",
        load_state="loaded",
        active="failed",
        sub="failed",
        result="signal",
        restarts=0,
        main_pid=0,
        invocation_id="cf425f71a5b5464fbc17700ba48d8e4a",
        exit_status=9,
        started=1795970888.0,
    )


def test_a_unit_that_never_ran_has_no_times() -> None:
    text = "LoadState=loaded\nActiveState=inactive\nInactiveExitTimestamp=\nInvocationID=\n"
    state = parse_show("x", text)
    assert (state.started, state.never_started) == (0.0, True)


@pytest.mark.parametrize("text", ["", "Failed to connect to bus: No such file\n"])
def test_no_answer_is_no_state(text: str) -> None:
    with pytest.raises(ValueError, match="says nothing about x"):
        parse_show("x", text)


@pytest.mark.parametrize(
    ("changes", "over"),
    [
        ({}, None),
        ({"active": "reloading"}, None),
        ({"active": "activating", "sub": "start-pre"}, None),
        ({"active": "failed", "sub": "failed"}, "failed"),
        ({"active": "inactive", "sub": "dead"}, "inactive"),
        ({"active": "deactivating", "sub": "stop-sigterm"}, "deactivating"),
        ({"active": "activating", "sub": "auto-restart"}, "auto-restart"),
        ({"active": "activating", "sub": "auto-restart-queued"}, "auto-restart"),
        ({"restarts": 1, "invocation_id": "bb"}, "restart 1"),
        ({"invocation_id": "bb"}, "somebody restarted it"),
    ],
)
def test_when_a_start_is_over(changes: dict[str, object], over: str | None) -> None:
    reason = died(RUNNING, replace(RUNNING, **changes))  # type: ignore[arg-type]
    assert (reason is None) if over is None else (reason is not None and over in reason)
