# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _screens
from hypothesis import given
from hypothesis import strategies as st

from .test_lifecycle import A, B, node, record

FAILED = {
    "host": "n1",
    "launch": B,
    "release": "r2",
    "message": "n1: dead\nCause: no method\nRemedy: patch it",
    "folder": "/var/f",
    "root": "/opt/sglang",
    "unit": "sglang.service",
    "again": "the deployment",
}


def test_the_screen_says_what_failed_why_what_serves_and_what_to_do() -> None:
    outcome = {
        "serving": record(A, "r1"),
        "message": "",
        "ready_seconds": 70.2,
        "accept_length": 4.0,
    }
    lines = _screens.failure_screen(FAILED, outcome).splitlines()
    assert lines[0] == f"n1: release r2 (launch {B}) did not prove itself."
    assert "Cause: no method" in lines
    assert "Remedy: patch it" in lines
    assert any(
        line.startswith(f"Serving now: release r1 (launch {A})") and "gated again" in line
        for line in lines
    )
    assert any(line.startswith("To do: ") for line in lines)
    assert "/var/f" in lines[-1]


@pytest.mark.parametrize("serving", [{}, record(A, "r1")])
@pytest.mark.parametrize(
    ("message", "differs", "advice"),
    [
        ("Cause: x\nRemedy: patch it", ["release r1 -> r2"], "To do: act on the remedy and run"),
        (
            "Cause: x",
            ["release r1 -> r2", "+ --x"],
            "what differs from the launch that served: release r1 -> r2; + --x. ",
        ),
        (
            "Cause: x",
            [],
            "To do: no known fault explains it; look at journal.log in the folder below and run",
        ),
    ],
)
def test_the_screen_speaks_of_a_remedy_only_where_there_is_one(
    serving: Any, message: str, differs: list[str], advice: str
) -> None:
    outcome = {"serving": serving, "message": "", "ready_seconds": 1.0}
    failed = {**FAILED, "message": message, "differences": differs}
    assert advice in _screens.failure_screen(failed, outcome)


@pytest.mark.parametrize("message", ["n1: it died.\nWhere: y\nCause: x\nRemedy: z", "n1: it died."])
def test_the_notice_tells_the_cause_and_what_comes_next(message: str) -> None:
    failed = {**FAILED, "message": message}
    back = _screens.failure_notice(failed, record(A, "r1"), {})
    assert back[:-1] == ["n1: it died.", *(["Cause: x"] if "Cause" in message else [])]
    assert back[-1].startswith(f"Next: release r1 (launch {A}), which served before, is restored")
    assert _screens.failure_notice(failed, {}, {})[-1] == (
        "Next: the engine is stopped. There is no other launch that passed its gate to go back to."
    )
    assert _screens.failure_notice(failed, {}, record(A, "r1"))[-1] == (
        "Next: the engine is stopped. Nothing older is started by itself; release r1 (launch "
        f"{A}) passed its gate on 1970-01-01 00:00 UTC."
    )


def test_what_holds_the_gpu_memory_comes_before_any_start() -> None:
    message = "GPU memory is still in use. Holders: pid 9. Remedy: end who holds it"
    failed = {**FAILED, "message": message, "memory_lost": True}
    told = "Nothing was gone back to: any launch would die for want of that GPU memory."
    older = record(A, "r1")
    notice = _screens.failure_notice(failed, {}, older)
    assert notice[-1] == f"Next: the engine is stopped. {told}"
    screen = _screens.failure_screen(failed, {"serving": {}, "message": "", "next": older})
    assert "Holders: pid 9" in screen
    assert told in screen
    assert "To do: act on the remedy and run" in screen
    assert "playbooks/rollback.yml" not in screen


def test_the_notice_of_a_gate_names_the_check_that_failed() -> None:
    message = "n1: the gate's verdict is fail; 5 checks made.\nWARN kv\nFAIL accept_length 1.0"
    notice = _screens.failure_notice({**FAILED, "message": message}, {}, {})
    assert notice[1] == "FAIL accept_length 1.0"


def test_a_gate_that_has_changed_is_told_before_the_model_is_blamed() -> None:
    changed = ["health_gate_known_answer", "health_gate_accept_length_fail 1.2 -> 3.0"]
    message = (
        "n1: the gate's verdict is fail; 4 checks made.\nFAIL known_answer\nRemedy: wrong model"
    )
    lines = _screens.untouched_screen(message, changed, "x.service").splitlines()
    assert lines[1].startswith("The launch passed its gate before; the gate has changed")
    assert "health_gate_known_answer, health_gate_accept_length_fail 1.2 -> 3.0" in lines[1]
    assert lines[-1].startswith("Nothing was changed by this run")
    assert "gate has changed" not in _screens.untouched_screen(message, [], "x.service")
    outcome = {"serving": {}, "message": "", "ready_seconds": 1.0}
    screen = _screens.failure_screen({**FAILED, "gate": changed}, outcome)
    assert screen.splitlines()[1].startswith("The launch passed its gate before")


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (node(), f"release r1 (launch {A}), which passed its gate on 1970-01-01 00:00 UTC."),
        (node(unit={"launch": B}), f"release r1 (launch {B}), which never passed its gate here."),
        (node(unit={"active_state": "failed"}), "nothing; sglang.service is failed."),
        (
            node(unit={"active_state": "inactive"}, releases={"current": ""}),
            "nothing; nothing was deployed yet.",
        ),
        ({"msg": "no space", "changed": False}, "unknown: n1 cannot be read any more; "),
    ],
)
def test_what_serves_after_a_failure_before_the_gate(reading: dict[str, Any], says: str) -> None:
    screen = _screens.serving_screen(reading, "n1", "sglang.service")
    assert screen.startswith(f"Serving now on n1: {says}")
    assert "\nTo do: act on the message above" in screen


@pytest.mark.parametrize("serving", [{}, record(A, "r1")])
def test_the_screen_never_says_that_something_serves_when_nothing_does(serving: Any) -> None:
    message = "n1: dead too\nCause: disk" if serving else ""
    screen = _screens.failure_screen(FAILED, {"serving": serving, "message": message})
    assert "Serving now: NOTHING. The engine is stopped" in screen
    assert ("failed too: n1: dead too Cause: disk" in screen) is bool(serving)


@pytest.mark.parametrize("serving", [{}, record(A, "r1")])
def test_the_screen_names_what_a_rollback_by_hand_would_reach(serving: Any) -> None:
    message = "n1: dead too" if serving else ""
    outcome = {"serving": serving, "message": message, "next": record("c" * 16, "r0")}
    screen = _screens.failure_screen({**FAILED, "message": "Cause: x"}, outcome)
    assert "no other launch" not in screen
    reach = f"again, or playbooks/rollback.yml to go back to release r0 (launch {'c' * 16})."
    assert f"run the deployment {reach}" in screen


def test_the_screen_leaves_to_others_what_they_deployed() -> None:
    outcome = {"serving": record(A, "r1"), "message": "no longer that of launch", "foreign": True}
    screen = _screens.failure_screen(FAILED, outcome)
    assert "Serving now: what somebody else has deployed meanwhile; it was left alone." in screen


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), max_size=300))
def test_whatever_failed_the_screen_is_one_screen(lines: list[str]) -> None:
    failed = {**FAILED, "message": "\n".join(lines)}
    outcome = {"serving": record(A, "r1"), "message": "\n".join(lines), "ready_seconds": 1.0}
    assert len(_screens.failure_screen(failed, outcome).splitlines()) <= 24


def test_the_screen_says_that_what_was_restored_was_not_proved() -> None:
    outcome = {"serving": record(A, "r1"), "message": "n: cut off", "unproved": True}
    screen = _screens.failure_screen(FAILED, outcome)
    assert f"Serving now: release r1 (launch {A}), as far as anybody knows" in screen
    assert "not proved (n: cut off). It was left as it is." in screen
    assert f"run {FAILED['again']} again, which makes all checks." in screen
    assert "NOTHING" not in screen
    assert "failed too" not in screen
