# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils import _going_back, _lifecycle, _prune
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).parents[4]
A, B, C = "a" * 16, "b" * 16, "c" * 16


def record(launch: str, release: str, at: float = 1.0, ready: float | None = 100.0) -> Any:
    return {"launch": launch, "release": release, "gated_at": at, "ready_seconds": ready}


def node(**over: Any) -> dict[str, Any]:
    """A node on which A, or what is said to serve, runs from release r1."""
    launches: dict[str, Any] = {
        "serving": A,
        "before": "",
        "rolled_back": {},
        "records": {A: record(A, "r1")},
    }
    releases = {
        "current": "r1",
        "previous": "",
        "complete": ["r1"],
        "built": {"r1": 1.0},
        "drift": {},
    }
    launches.update(over.get("launches", {}))
    return {
        "unit": {"active_state": "active", "launch": launches["serving"], **over.get("unit", {})},
        "launches": launches,
        "releases": {**releases, **over.get("releases", {})},
        "failures": over.get("failures", []),
        "benchmark": {"pending": {}, "restored": {}, "unit": False, **over.get("benchmark", {})},
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
    timed = {A: record(A, "r1", 3, 90.4), B: record(B, "r2", 2, 127.0)}
    known = {"launches": {"records": timed}}
    assert _lifecycle.downtime(node(**known), C) == (
        "about 127 s: the longest start on this node took 127 s"
    )
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
    by_hand = {**failure, "by_hand": True}
    seen = node(failures=[by_hand], launches={"rolled_back": {"launch": B, "at": 60.0}})
    assert _lifecycle.remarks(seen, B, "r2") == [
        (
            "this launch was rolled back by hand on 1970-01-01 00:01 UTC (its log is kept in "
            "/var/f); this run deploys it again"
        )
    ]
    # What serves has proved itself since.
    assert _lifecycle.remarks(node(failures=[{**failure, "launch": A}]), A, "r1") == []


def test_the_plan_says_that_an_older_release_needs_no_build() -> None:
    built = {"r1": 1.0, "r2": 60.0}
    seen = node(releases={"complete": [*built], "built": built})
    said = ["release r2 is there since 1970-01-01 00:01 UTC: nothing is built"]
    assert _lifecycle.remarks(seen, B, "r2") == said
    # One with another configuration of the release that serves builds nothing either.
    assert _lifecycle.remarks(seen, B, "r1") == []
    edited = node(
        releases={"complete": [*built], "built": built, "drift": {"r2": [{"mend": "rebuild"}]}}
    )
    assert _lifecycle.remarks(edited, B, "r2") == []


def test_a_benchmark_that_was_not_finished_is_ended_without_a_restart_of_its_own() -> None:
    assert _lifecycle.interrupted_benchmark(node()) == []
    (found,) = _lifecycle.interrupted_benchmark(node(benchmark={"pending": {"started": 60.0}}))
    assert found["reason"].startswith("begun on 1970-01-01 00:01 UTC and not finished")
    assert not found["restart"]
    (left,) = _lifecycle.interrupted_benchmark(node(benchmark={"unit": True}))
    assert left["reason"].startswith("its guard's unit is left")


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


# As a plain `systemctl stop` leaves it; how a death differs is shown in test_going_back.py.
DEAD = {"active_state": "failed", "stop_asked": True, "launch": ""}


def failure(launch: str, at: float) -> dict[str, Any]:
    return {"launch": launch, "at": at, "message": "dead", "folder": "/var/f"}


@pytest.mark.parametrize(
    ("seen", "wanted", "launch", "error"),
    [
        (node(**TWO), "", A, ""),
        (node(**TWO), "r1", A, ""),
        (node(**TWO), A, A, ""),
        (node(**TWO), "r2", "", f"r2 is what runs; available: r1 (launch {A})"),
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
        # C was started and never proved: what served before it is the last that passed.
        (node(**TWO, unit={"launch": C}), "", B, ""),
        (node(**TWO, unit={"launch": C}), "r2", B, ""),
        (node(**TWO, unit={"launch": C}), C, "", f"{C} is what runs; available: r2"),
        # It failed and was stopped, with health_gate_rollback: false.
        (node(**TWO, unit=DEAD, failures=[failure(C, 3)]), "", B, ""),
        # Stopped by hand, or the machine came up without it.
        (node(**TWO, unit=DEAD), "", B, ""),
        (node(**TWO, unit=DEAD), B, B, ""),
        (node(unit=DEAD), "", A, ""),
        # It had passed and has failed since, and was stopped: what was before it.
        (node(**TWO, unit=DEAD, failures=[failure(B, 3)]), "", A, ""),
        (node(**TWO, unit=DEAD, failures=[failure(B, 3)]), B, B, ""),
        (node(**TWO, unit=DEAD, failures=[failure(B, 1)]), "", B, ""),
        (node(**TWO, unit=DEAD, failures=[failure(B, 3), failure(A, 3)]), "", B, ""),
        (node(**TWO, unit=DEAD, failures=[failure(B, 4), failure(A, 3)]), "", A, ""),
        (node(**TWO, unit=DEAD, failures=[failure(B, 3), failure(A, 4)]), "", B, ""),
        (node(unit=DEAD, failures=[failure(A, 3)]), "", A, ""),
        # What was only left by hand has not failed.
        (node(**TWO, unit=DEAD, failures=[{**failure(B, 3), "by_hand": True}]), "", B, ""),
        # Something runs that no role has started.
        (node(**TWO, unit={"launch": ""}), "", B, ""),
    ],
)
def test_what_a_rollback_by_hand_goes_back_to(
    seen: Any, wanted: str, launch: str, error: str
) -> None:
    found = _going_back.choose(seen, wanted)
    assert found["launch"] == launch
    assert error in found["error"]
    assert bool(found["error"]) is not bool(launch)


def gone(*names: str) -> list[dict[str, Any]]:
    return [{"file": name, "what": "missing", "mend": "rebuild"} for name in names]


HALF = gone("venv/bin", "venv/lib", "patches.json", "stack.lock")
EDITED = [{"file": "a.py", "what": "changed by hand", "mend": "rebuild"}]


def damaged(**drift: Any) -> dict[str, Any]:
    return {**TWO, "releases": {**TWO["releases"], "drift": drift}}


def test_a_release_of_which_files_are_gone_is_not_gone_back_to() -> None:
    told = (
        f"release r1 (launch {A}) is not whole: venv/bin, venv/lib, patches.json and 1 more "
        "missing; a deployment of its stack builds it anew"
    )
    for wanted in ("", "r1", A):
        found = _going_back.choose(node(**damaged(r1=HALF)), wanted)
        assert found["error"] == f"{told}; no other launch has passed its gate on this node"
    # The next one is taken, and it is said that it is only that.
    found = _going_back.choose(node(**damaged(r2=gone("x")), unit={"launch": C}))
    assert (found["launch"], found["error"]) == (A, "")
    assert found["passed_over"].startswith(f"release r2 (launch {B}) is not whole: x missing")
    # What was only edited may serve as well as it did.
    found = _going_back.choose(node(**damaged(r1=EDITED)))
    assert (found["launch"], found["passed_over"]) == (A, "")


def test_by_itself_a_damaged_release_is_tried_since_nothing_else_would_serve() -> None:
    seen = node(**damaged(r2=HALF))
    assert _lifecycle.automatic_target(seen, C) == B
    (said,) = _lifecycle.remarks(seen, C, "r3")
    assert said.startswith(
        f"what a failure would go back to may not start: release r2 (launch {B})"
    )
    assert _lifecycle.remarks(seen, B, "r2") == []


def test_an_engine_that_runs_on_no_more_than_some_of_its_nodes_does_not_run() -> None:
    assert _going_back.choose(node(**TWO), running="")["launch"] == B


@pytest.mark.parametrize(
    ("unit", "failed", "target"),
    [
        ({"launch": B}, A, B),
        ({"launch": B}, B, ""),
        ({"launch": C}, B, ""),  # it never passed
        (DEAD, A, ""),
    ],
)
def test_what_is_put_back_when_a_rollback_by_hand_fails(
    unit: dict[str, str], failed: str, target: str
) -> None:
    assert _going_back.return_target(node(**TWO, unit=unit), failed) == target


@pytest.mark.parametrize(
    ("unit", "configured", "launch", "release"),
    [
        ({"launch": B}, B, B, "r2"),
        ({"launch": C}, C, C, "r2"),  # no record: what is current
        (DEAD, C, C, "r2"),
        (DEAD, A, A, "r1"),
        (DEAD, "", "", "r2"),
    ],
)
def test_what_a_rollback_by_hand_leaves(
    unit: dict[str, str], configured: str, launch: str, release: str
) -> None:
    seen = node(**{**TWO, "launches": {**TWO["launches"], "configured": configured}}, unit=unit)
    assert _going_back.left(seen) == {"launch": launch, "release": release}


@pytest.mark.parametrize(
    ("failed", "reached"),
    [([C], B), ([C, B], A), ([B], A), ([A, B], None), ([A], B)],
)
def test_the_launch_that_a_rollback_reaches_after_failures(
    failed: list[str], reached: str | None
) -> None:
    found = _going_back.reaches(node(**TWO), failed)
    assert found.get("launch") == reached
    assert _going_back.reaches(node(), [A]) == {}
    # One that failed long ago has passed its gate nevertheless.
    seen = node(**TWO, failures=[failure(A, 3)])
    assert _going_back.reaches(seen, [B])["launch"] == A


def test_of_two_launches_of_a_release_the_newer_one_is_taken() -> None:
    records = {A: record(A, "r1", 5), B: record(B, "r1", 7), C: record(C, "r2", 9)}
    seen = node(
        launches={"serving": C, "before": B, "records": records},
        releases={"complete": ["r1", "r2"]},
    )
    assert _going_back.choose(seen, "r1")["launch"] == B


def test_a_gate_that_asks_something_else_than_it_did_is_told() -> None:
    known = {"messages": [{"role": "user"}], "expect": "seven"}
    passed = {"known_answer": known, "accept_length_fail": 1.2, "image": True, "port": 1}
    seen = node(launches={"records": {A: {**record(A, "r1"), "gate": passed}}})
    same = {**passed, "port": 2, "sampling": True}  # not asked at that time: nothing to compare
    assert _lifecycle.gate_changes(seen, A, same) == []
    assert _lifecycle.gate_changes(seen, B, {**same, "image": False}) == []
    other = {**same, "known_answer": {**known, "expect": "8"}, "accept_length_fail": 3.0}
    changed = _lifecycle.gate_changes(seen, A, other)
    assert changed == ["health_gate_known_answer", "health_gate_accept_length_fail 1.2 -> 3.0"]


def test_every_question_of_the_gate_is_compared() -> None:
    text = (REPOSITORY / "roles/health_gate/defaults/main.yml").read_text()
    variables = set(yaml.safe_load(text)) - {"health_gate_timeout", "health_gate_rollback"}
    assert set(_lifecycle._ASKED.values()) == variables
    subject = yaml.safe_load((REPOSITORY / "roles/health_gate/vars/main.yml").read_text())
    assert set(_lifecycle._ASKED) <= set(subject["_health_gate_asked"])


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
