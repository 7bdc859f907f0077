# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _lifecycle, _prune
from hypothesis import given
from hypothesis import strategies as st

A, B, C = "a" * 16, "b" * 16, "c" * 16


def record(launch: str, release: str, at: float = 1.0, ready: float | None = 100.0) -> Any:
    return {"launch": launch, "release": release, "gated_at": at, "ready_seconds": ready}


def node(**over: Any) -> dict[str, Any]:
    """A node on which A serves from release r1 and nothing else is known."""
    launches = {"serving": A, "before": "", "rolled_back": {}, "records": {A: record(A, "r1")}}
    releases = {
        "current": "r1",
        "previous": "",
        "complete": ["r1"],
        "built": {"r1": 1.0},
        "drift": {},
    }
    return {
        "unit": {"active_state": "active", "launch": A, **over.get("unit", {})},
        "launches": {**launches, **over.get("launches", {})},
        "releases": {**releases, **over.get("releases", {})},
        "failures": over.get("failures", []),
        "benchmark": {"pending": {}, "restored": {}, **over.get("benchmark", {})},
    }


TWO: dict[str, dict[str, Any]] = {
    "launches": {
        "serving": B,
        "before": A,
        "records": {A: record(A, "r1", 1), B: record(B, "r2", 2)},
    },
    "releases": {"current": "r2", "previous": "r1", "complete": ["r1", "r2"]},
}


@pytest.mark.parametrize(
    ("unit", "launch", "asked"),
    [
        ({}, A, False),  # serves and was gated
        ({"launch": B}, B, True),  # the controller was killed between start and gate
        ({"launch": B}, A, False),  # another launch: it restarts, and is gated in any case
        ({"launch": B, "active_state": "failed"}, B, False),
        ({"launch": ""}, A, False),  # not started by us
    ],
)
def test_a_launch_that_never_passed_its_gate_is_gated(
    unit: dict[str, str], launch: str, asked: bool
) -> None:
    found = _lifecycle.unproved(node(unit=unit), launch)
    assert bool(found) is asked
    assert not any(entry["restart"] for entry in found)


def test_the_downtime_is_what_was_measured_on_this_node() -> None:
    timed = {A: record(A, "r1", 1, 90.4), B: record(B, "r2", 2, 127.0)}
    known = {"launches": {"records": timed}}
    assert _lifecycle.downtime(node(**known), C) == "about 127 s: the last start took 127 s"
    assert _lifecycle.downtime(node(**known), A) == (
        "about 90 s: the last start of this launch took 90 s"
    )
    unwatched = {"launches": {"records": {A: record(A, "r1", 1, None)}}}
    assert _lifecycle.downtime(node(**unwatched), A) == ""
    assert _lifecycle.downtime(node(launches={"records": {}}), A) == ""


def test_the_plan_remembers_what_failed_and_what_was_left_by_hand() -> None:
    failure = {"launch": B, "at": 1.0, "message": "dead\nCause: x", "folder": "/var/f"}
    seen = node(failures=[failure], launches={"rolled_back": {"launch": B, "at": 60.0}})
    assert _lifecycle.remarks(seen, B, "r2") == [
        "this launch FAILED on 1970-01-01 00:00 UTC: dead (kept in /var/f)",
        "this launch was rolled back by hand on 1970-01-01 00:01 UTC; this run deploys it again",
    ]
    assert _lifecycle.remarks(seen, C, "r3") == []
    # What serves has proved itself since.
    assert _lifecycle.remarks(node(failures=[{**failure, "launch": A}]), A, "r1") == []


def test_the_plan_says_that_an_older_release_needs_no_build() -> None:
    built = {"r1": 1.0, "r2": 60.0}
    seen = node(releases={"complete": [*built], "built": built})
    said = ["release r2 is there since 1970-01-01 00:01 UTC: nothing is built"]
    assert _lifecycle.remarks(seen, B, "r2") == said
    # One with another configuration of the release that serves builds nothing either.
    assert _lifecycle.remarks(seen, B, "r1") == []
    edited = node(releases={"complete": [*built], "built": built, "drift": {"r2": ["a"]}})
    assert _lifecycle.remarks(edited, B, "r2") == []


def test_a_benchmark_that_was_not_finished_is_ended_without_a_restart_of_its_own() -> None:
    assert _lifecycle.interrupted_benchmark(node()) == []
    (found,) = _lifecycle.interrupted_benchmark(node(benchmark={"pending": {"started": 60.0}}))
    assert found["reason"].startswith("begun on 1970-01-01 00:01 UTC and not finished")
    assert not found["restart"]


def test_the_plan_tells_that_the_node_went_back_by_itself() -> None:
    restored = {"launch": A, "at": 60.0, "why": "nobody went on with it"}
    (found,) = _lifecycle.remarks(node(benchmark={"restored": restored}), A, "r1")
    assert found.endswith("by itself on 1970-01-01 00:01 UTC: nobody went on with it")
    # Something else has been served since.
    assert _lifecycle.remarks(node(**TWO, benchmark={"restored": restored}), B, "r2") == []


@pytest.mark.parametrize(
    ("seen", "failed", "target"),
    [
        (node(), B, A),
        (node(), A, ""),  # it passed before: the node changed, not the launch
        (node(launches={"serving": ""}), B, ""),
        (node(releases={"complete": ["r2"]}), B, ""),  # its release is gone
        (node(**TWO), C, B),
    ],
)
def test_what_a_failed_launch_goes_back_to(seen: Any, failed: str, target: str) -> None:
    assert _lifecycle.automatic_target(seen, failed) == target


@pytest.mark.parametrize(
    ("seen", "wanted", "launch", "error"),
    [
        (node(**TWO), "", A, ""),
        (node(**TWO), "r1", A, ""),
        (node(**TWO), A, A, ""),
        (node(**TWO), "r2", "", f"r2 is what serves; available: r1 (launch {A})"),
        (
            node(**TWO),
            "r9",
            "",
            f"there is no launch of r9 to go back to; available: r1 (launch {A})",
        ),
        (
            node(),
            "",
            "",
            "there is nothing to go back to; no other launch has passed its gate on this node",
        ),
        (node(**{**TWO, "releases": {"complete": ["r2"]}}), "r1", "", "no launch of r1"),
        (
            node(**{**TWO, "launches": {**TWO["launches"], "before": ""}}),
            "",
            "",
            "name one with -e rollback_release=",
        ),
    ],
)
def test_what_a_rollback_by_hand_goes_back_to(
    seen: Any, wanted: str, launch: str, error: str
) -> None:
    found = _lifecycle.choose(seen, wanted)
    assert found["launch"] == launch
    assert error in found["error"]
    assert bool(found["error"]) is not bool(launch)


def test_of_two_launches_of_a_release_the_newer_one_is_taken() -> None:
    records = {A: record(A, "r1", 5), B: record(B, "r1", 7), C: record(C, "r2", 9)}
    seen = node(
        launches={"serving": C, "before": B, "records": records},
        releases={"complete": ["r1", "r2"]},
    )
    assert _lifecycle.choose(seen, "r1")["launch"] == B


FAILED = {
    "host": "n1",
    "launch": B,
    "release": "r2",
    "message": "n1: dead\nCause: no method\nRemedy: patch it",
    "folder": "/var/f",
    "root": "/opt/sglang",
    "unit": "sglang.service",
}


def test_the_screen_says_what_failed_why_what_serves_and_what_to_do() -> None:
    outcome = {
        "serving": record(A, "r1"),
        "message": "",
        "ready_seconds": 70.2,
        "accept_length": 4.0,
    }
    lines = _lifecycle.failure_screen(FAILED, outcome).splitlines()
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
    assert advice in _lifecycle.failure_screen(failed, outcome)


@pytest.mark.parametrize("message", ["n1: it died.\nWhere: y\nCause: x\nRemedy: z", "n1: it died."])
def test_the_notice_tells_the_cause_and_what_comes_next(message: str) -> None:
    failed = {**FAILED, "message": message}
    back = _lifecycle.failure_notice(failed, record(A, "r1"))
    assert back[:-1] == ["n1: it died.", *(["Cause: x"] if "Cause" in message else [])]
    assert back[-1].startswith(f"Next: release r1 (launch {A}), which served before, is restored")
    assert "the engine is stopped" in _lifecycle.failure_notice(failed, {})[-1]


def test_the_notice_of_a_gate_names_the_check_that_failed() -> None:
    message = "n1: the gate's verdict is fail; 5 checks made.\nWARN kv\nFAIL accept_length 1.0"
    assert (
        _lifecycle.failure_notice({**FAILED, "message": message}, {})[1] == "FAIL accept_length 1.0"
    )


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
    screen = _lifecycle.serving_screen(reading, "n1", "sglang.service")
    assert screen.startswith(f"Serving now on n1: {says}")
    assert "\nTo do: act on the message above" in screen


@pytest.mark.parametrize("serving", [{}, record(A, "r1")])
def test_the_screen_never_says_that_something_serves_when_nothing_does(serving: Any) -> None:
    message = "n1: dead too\nCause: disk" if serving else ""
    screen = _lifecycle.failure_screen(FAILED, {"serving": serving, "message": message})
    assert "Serving now: NOTHING. The engine is stopped" in screen
    assert ("failed too: n1: dead too Cause: disk" in screen) is bool(serving)


def test_the_screen_leaves_to_others_what_they_deployed() -> None:
    outcome = {"serving": record(A, "r1"), "message": "no longer that of launch", "foreign": True}
    screen = _lifecycle.failure_screen(FAILED, outcome)
    assert "Serving now: what somebody else has deployed meanwhile; it was left alone." in screen


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), max_size=300))
def test_whatever_failed_the_screen_is_one_screen(lines: list[str]) -> None:
    failed = {**FAILED, "message": "\n".join(lines)}
    outcome = {"serving": record(A, "r1"), "message": "\n".join(lines), "ready_seconds": 1.0}
    assert len(_lifecycle.failure_screen(failed, outcome).splitlines()) <= 24


NAMES = st.sampled_from([f"r{number}" for number in range(7)])


@given(
    built=st.dictionaries(NAMES, st.floats(0, 9)),
    current=NAMES,
    previous=NAMES,
    wanted=NAMES,
    keep=st.integers(0, 8),
)
def test_pruning_keeps_what_is_used_and_the_newest(
    built: dict[str, float], current: str, previous: str, wanted: str, keep: int
) -> None:
    seen = node(
        releases={"current": current, "previous": previous, "built": built},
        launches={"records": {A: record(A, "r0")}},
    )
    gone = _prune.removable(seen, wanted, keep)
    left = set(built) - set(gone)
    assert not set(gone) & {current, previous, wanted, "r0"}
    assert set(gone) <= set(built)
    # Nothing goes while there is room, and what stays beyond the used is newer than what goes.
    if gone:
        assert len(left | {wanted}) >= keep
    free = left - {current, previous, wanted, "r0"}
    assert all(built[old] <= built[young] for old in gone for young in free)
    after = {
        **seen,
        "releases": {**seen["releases"], "built": {name: built[name] for name in left}},
    }
    assert _prune.removable(after, wanted, keep) == []


def test_a_failed_release_is_as_old_as_any_other() -> None:
    built = {"r1": 1.0, "failed": 2.0, "r2": 3.0, "r3": 4.0}
    seen = node(
        releases={"current": "r3", "previous": "r2", "built": built},
        launches={"serving": C, "records": {C: record(C, "r3")}},
    )
    assert _prune.removable(seen, "r3", 3) == ["r1"]
    assert _prune.removable(seen, "r4", 3) == ["r1", "failed"]
    assert [entry["item"] for entry in _lifecycle.prune(seen, "r3", 2)] == [
        "release r1",
        "release failed",
    ]
