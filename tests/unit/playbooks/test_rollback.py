# SPDX-License-Identifier: Apache-2.0
"""What playbooks/rollback.yml does when the launch that it goes back to does not prove itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.plays import Played, parts, run
from tests.unit.playbooks.standins import Call, Results, Standins

A, B, C, UNPROVED = "a" * 16, "b" * 16, "c" * 16, "d" * 16
SWITCHED = {"changed": True, "release": "r", "foreign": False}
REFUSED = {"failed": True, "msg": "No space left", "touched": False, "foreign": False}
HELD = "GPU memory is still in use. Holders: pid 9. Remedy: end who holds it"
READY = {"ready": True, "seconds": 61.0, "invocation_id": "good"}
DEAD = {"failed": True, "msg": "n: dead after 3 s\nCause: x", "invocation_id": "bad"}
UNSEEN = {"failed": True, "msg": "n: the connection was cut", "no_verdict": True}
PROVED = {"verdict": "ok", "accept_length": 4.0, "answer": "one two"}
NONSENSE = {
    "failed": True,
    "verdict": "fail",
    "msg": "n: fail\nFAIL known_answer",
    "invocation_id": "bad",
}


def record(launch: str, at: float) -> dict[str, Any]:
    gate = {
        "unit": "x.service",
        "host": "127.0.0.1",
        "port": 1,
        "release": "0.5.9",
        "ready_timeout": 60,
        "remedies": [],
        "model": "m",
        "known_answer": {},
        "speculative": True,
        "min_verify_steps": 1,
        "accept_length_warn": 2.0,
        "accept_length_fail": 1.2,
    }
    named = {"launch": launch, "release": f"r-{launch[0]}", "stack": "s", "files": []}
    return {**named, "gated_at": at, "ready_seconds": 60.0, "gate": gate}


def reading(running: str) -> dict[str, Any]:
    """A node on which C passed last, B before it and A before that."""
    records = {name: record(name, at) for at, name in enumerate((A, B, C), 1)}
    known = {"serving": C, "before": B, "configured": running, "records": records}
    releases = {"current": f"r-{running[0]}", "complete": ["r-a", "r-b", "r-c"], "drift": {}}
    unit = {"active_state": "active", "launch": running, "invocation_id": "before"}
    return {"unit": unit, "launches": known, "releases": releases, "failures": []}


@dataclass(frozen=True)
class Rollback:
    """A rollback that was played."""

    played: Played
    calls: list[Call]

    def switches(self, node: str = "") -> list[tuple[str, str | None]]:
        """Each launch that was switched to, or `stopped`, and the one that it had to find.

        Args:
            node: Of an engine over several nodes, the one; all where it is not given.
        """
        return [
            (asked.get("launch") or str(asked["state"]), asked.get("expect"))
            for name, asked in self.calls
            if name == "engine_switch" and (not node or asked["root"] == ROOTS[node])
        ]

    def kept(self) -> list[tuple[str, str, bool]]:
        """The launches whose logs were kept, of which start, and whether they were left by hand."""
        return [
            (asked["launch"], asked["invocation"], asked.get("by_hand", False))
            for name, asked in self.calls
            if name == "engine_failure"
        ]


ROOTS = {name: f"/nonexistent/{name}" for name in ("a", "b")}
ALONE: dict[str, dict[str, Any]] = {"n": {"x": 1}}
PAIR: dict[str, dict[str, Any]] = {
    name: {"engine_group": "pair", "engine_release_root": root} for name, root in ROOTS.items()
}


def roll_back(
    folder: Path,
    running: str,
    nodes: dict[str, dict[str, Any]] = ALONE,
    /,
    **results: Results,
) -> Rollback:
    ends: dict[str, Results] = {
        "node_facts": [reading(running)],
        "engine_switch": [SWITCHED],
        "wait_engine_ready": [READY],
        "engine_gate": [PROVED],
        "engine_failure": [{"changed": True, "folder": "/var/f", "differences": []}],
        "launch_record": [{"changed": True}],
    }
    collection = Standins(folder, {**ends, **results}, configured=running)
    plays = parts("playbooks/rollback.yml", "Go back to what served")
    groups = {"pair": list(nodes)} if len(nodes) > 1 else {}
    if "gateway_worker" in results:
        groups["gateways"] = ["g"]
    played = run(folder, nodes, plays, groups=groups, collections=collection.path)
    return Rollback(played, collection.calls())


def test_what_ran_is_put_back_and_proved_again(tmp_path: Path) -> None:
    done = roll_back(tmp_path, C, engine_gate=[NONSENSE, PROVED])
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(B, None), (C, B)], said
    assert [asked["drain"] for name, asked in done.calls if name == "engine_switch"] == [
        True,
        False,
    ]
    assert [name for name, _ in done.calls if name == "launch_record"] == []
    assert done.kept() == [(C, "before", True), (B, "bad", False)]
    assert f"Next: release r-c (launch {C}), which served before, is restored" in said
    assert f"n: release r-b (launch {B}) did not prove itself." in said
    assert f"Serving now: release r-c (launch {C}), as it served before; ready 61 s" in said
    assert f"run playbooks/rollback.yml -e rollback_release={B} again; until then" in said


def test_where_both_fail_the_engine_is_stopped_and_a_third_one_is_named(tmp_path: Path) -> None:
    again = {**DEAD, "msg": "n: dead again", "invocation_id": "worse"}
    done = roll_back(tmp_path, C, wait_engine_ready=[DEAD, again])
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(B, None), (C, B), ("stopped", C)], said
    assert done.kept() == [(C, "before", True), (B, "bad", False), (C, "worse", False)]
    assert "Kept: /var/f and /var/f on the node" in said
    assert "Serving now: NOTHING. The engine is stopped" in said
    assert f"Going back to release r-c (launch {C}) failed too: n: dead again" in said
    # Of three that passed, what a further rollback reaches has not failed yet.
    assert "no other launch" not in said


def test_what_never_passed_is_not_put_back(tmp_path: Path) -> None:
    """By itself it goes to what passed last, whatever runs."""
    done = roll_back(tmp_path, UNPROVED, wait_engine_ready=[DEAD])
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(C, None), ("stopped", C)], said
    reach = f"Nothing older is started by itself; release r-b (launch {B}) passed its gate on"
    assert said.count(reach) == 2, said
    assert f"or playbooks/rollback.yml to go back to release r-b (launch {B})." in said


@pytest.mark.parametrize(
    ("results", "switches"),
    [
        ({"engine_switch": [REFUSED]}, [(B, None)]),
        ({"wait_engine_ready": [UNSEEN]}, [(B, None)]),
    ],
    ids=["untouched", "unseen"],
)
def test_what_was_not_touched_or_not_seen_is_left_alone(
    tmp_path: Path, results: dict[str, Results], switches: list[tuple[str, str]]
) -> None:
    done = roll_back(tmp_path, C, **results)
    assert done.played.status == 2, done.played.output
    assert done.switches() == switches
    assert "the engine was left as it is" in done.played.output.lower().replace(
        "engine, which was", "engine was"
    ), done.played.output


def test_a_switch_that_was_not_finished_is_undone_whosever_files_are_there(tmp_path: Path) -> None:
    half = {**REFUSED, "touched": True}
    done = roll_back(tmp_path, C, engine_switch=[half, SWITCHED])
    assert done.played.status == 2, done.played.output
    assert done.switches() == [(B, None), (C, None)], done.played.output


def test_all_nodes_of_an_engine_are_put_back(tmp_path: Path) -> None:
    """Stopped, switched, and after the failure stopped and switched once more, each time all."""
    seen = reading(C)
    engine = {"name": "pair", "members": ["a", "b"], "rank": 0, "size": 2, "head": "a"}
    for one in seen["launches"]["records"].values():
        one["gate"]["group"] = engine
    starts = [DEAD, DEAD, READY, READY]
    done = roll_back(tmp_path, C, PAIR, node_facts=[seen], wait_engine_ready=starts)
    said = done.played.output
    assert done.played.status == 2, said
    both = [("stopped", None), (B, None), ("stopped", B), (C, B)]
    assert done.switches() == [one for one in both for _node in PAIR], said
    for node in PAIR:
        assert f"{node}: release r-b (launch {B}) did not prove itself." in said
    assert said.count(f"Serving now: release r-c (launch {C}), as it served before") == 2


def test_without_the_gpu_memory_nothing_is_put_back_either(tmp_path: Path) -> None:
    """What ran would die for want of the same memory."""
    lost = {**REFUSED, "msg": HELD, "touched": True, "memory_lost": True}
    done = roll_back(tmp_path, C, engine_switch=[lost, SWITCHED])
    said = done.played.output
    assert done.played.status == 2, said
    assert done.switches() == [(B, None), ("stopped", None)], said
    assert "Serving now: NOTHING." in said
    assert "Holders: pid 9" in said
    assert said.count("any launch would die for want of that GPU memory.") == 2


def test_one_node_without_its_gpu_memory_keeps_all_of_the_engine_stopped(tmp_path: Path) -> None:
    seen = reading(C)
    engine = {"name": "pair", "members": ["a", "b"], "rank": 0, "size": 2, "head": "a"}
    for one in seen["launches"]["records"].values():
        one["gate"]["group"] = engine
    stops = [{**SWITCHED, "memory_lost": True, "msg": HELD}, SWITCHED]
    done = roll_back(tmp_path, C, PAIR, node_facts=[seen], engine_switch=stops)
    said = done.played.output
    assert done.played.status == 2, said
    assert {launch for launch, _expected in done.switches()} == {"stopped"}, said
    for node in PAIR:
        assert f"{node}: release r-b (launch {B}) did not prove itself. a: {HELD}" in said
    assert said.count("Serving now: NOTHING.") == 2


def test_what_is_left_by_hand_is_what_ran_and_not_what_passed_last(tmp_path: Path) -> None:
    done = roll_back(tmp_path, UNPROVED)
    assert done.played.status == 0, done.played.output
    assert f"release r-d (launch {UNPROVED}) is left" in done.played.output
    (noted,) = [asked for name, asked in done.calls if name == "launch_record"]
    assert noted["launch"] == C
    assert noted["rolled_back_from"] == {"launch": UNPROVED, "release": "r-d"}
