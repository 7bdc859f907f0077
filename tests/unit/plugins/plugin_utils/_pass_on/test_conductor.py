# SPDX-License-Identifier: Apache-2.0
"""The conductor against scripted nodes; tests/fleet has real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import plan
from ansible_collections.sm120.sglang.plugins.module_utils._verified import Wanted
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on import members
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on.conductor import (
    AbandonedError,
    Conductor,
)

A, B = "a" * 64, "b" * 64
FILES = (Wanted("one", A, 1 << 30), Wanted("two", B, 1 << 30))
FOLDER = members.Folder("/m/1", "", FILES)


class ScriptedLine:
    """A node that answers each order at once, as its script says."""

    def __init__(self, name: str, lacks: set[str], wrong: dict[tuple[str, str], str]) -> None:
        self.name, self.lacks, self.wrong = name, lacks, wrong
        self.orders: list[dict[str, Any]] = []
        self.conductor: Conductor | None = None

    def hear(self, **event: Any) -> None:
        assert self.conductor
        self.conductor.hear(self.name, event)

    def order(self, **order: Any) -> None:
        self.orders.append(order)
        if order["do"] == "open":
            keys = {"host": f"host {self.name}", "client": f"client {self.name}"}
            self.hear(event="opened", lacking=[sorted(self.lacks)], keys=keys)
        elif order["do"] == "serve":
            self.hear(event="serving")
        elif order["do"] == "doubt":
            self.hear(event="doubted", file=order["file"], text="one: sha256 is other")
        elif order["do"] == "take":
            self.take(order)

    def take(self, order: dict[str, Any]) -> None:
        for sha in order["files"]:
            why = self.wrong.get((order["source"]["name"], sha), "")
            if why == "gone":
                self.hear(event="gone", text="killed")
                return
            if why:
                self.hear(event="failed", id=order["id"], why=why, file=sha, text=f"{why}!")
                return
        self.hear(event="done", id=order["id"], resumed=0)

    def close(self) -> None:
        self.orders.append({"do": "close"})


def conductor(
    lacks: dict[str, set[str]],
    wrong: dict[tuple[str, str], str] | None = None,
    *,
    alive: bool = True,
) -> tuple[Conductor, dict[str, ScriptedLine]]:
    fleet = {
        name: members.Member(name, (FOLDER,), f"10.0.0.{number}", 22730, "nodes")
        for number, name in enumerate(lacks)
    }

    class Way:
        user = "operator"

    ways: Any = {name: Way() for name in lacks}
    files: dict[str, Path] = {}
    work = Conductor(
        fleet, ways, files, members.Settings(), say=lambda line: None, alive=lambda: alive
    )
    lines = {name: ScriptedLine(name, missing, wrong or {}) for name, missing in lacks.items()}
    for name, line in lines.items():
        line.conductor = work
        work.add(line, name)  # type: ignore[arg-type]
    return work, lines


def orders(line: ScriptedLine, kind: str) -> list[dict[str, Any]]:
    return [order for order in line.orders if order["do"] == kind]


def test_each_node_knows_the_keys_of_the_others_and_only_givers_serve() -> None:
    work, lines = conductor({"n1": set(), "n2": {A, B}})
    outcome = work.run(work.look(read=True))
    assert outcome.troubles == []
    assert outcome.lacking == {"n1": set(), "n2": set()}
    assert outcome.brought == {("n2", "n1"): 2 << 30}
    assert [peer["key"] for peer in orders(lines["n1"], "meet")[0]["peers"]] == ["client n2"]
    assert len(orders(lines["n1"], "serve")) == 1
    assert orders(lines["n2"], "serve") == []
    assert {order["names"][0] for order in orders(lines["n2"], "take")} == {"0/one", "0/two"}


def test_nothing_lacking_starts_nothing() -> None:
    work, lines = conductor({"n1": set(), "n2": set()})
    assert work.run(work.look(read=True)).brought == {}
    assert [order["do"] for order in lines["n1"].orders] == ["open"]


def test_a_damaged_source_is_asked_and_named_and_another_gives() -> None:
    work, _lines = conductor({"n1": set(), "n2": set(), "n3": {A}}, {("n1", A): "corrupt"})
    outcome = work.run(work.look(read=True))
    assert outcome.lacking["n3"] == set()
    assert outcome.brought == {("n3", "n2"): 1 << 30}
    assert outcome.troubles[0] == "n1 gave n3 a damaged file: corrupt!"
    assert "n1: its own file is damaged: one: sha256 is other" in outcome.troubles[1]


@pytest.mark.parametrize("why", ["denied", "lost"])
def test_a_source_that_gives_nothing_ends_the_run_when_there_is_no_other(why: str) -> None:
    work, lines = conductor({"n1": set(), "n2": {A}}, {("n1", A): why})
    outcome = work.run(work.look(read=True))
    assert outcome.lacking["n2"] == {A}
    assert len(outcome.troubles) == 1
    assert len(orders(lines["n2"], "take")) == (2 if why == "lost" else 1)


def test_a_receiver_that_cannot_write_takes_no_more() -> None:
    wrong = {("n1", A): "local", ("n1", B): "local"}
    work, _lines = conductor({"n1": set(), "n2": {A, B}}, wrong)
    outcome = work.run(work.look(read=True))
    assert "n2: cannot take files: local!" in outcome.troubles


def test_a_node_that_is_gone_leaves_the_others_going() -> None:
    wrong = {("n1", A): "gone"}
    work, _lines = conductor({"n1": set(), "n2": {A}, "n3": {B}}, wrong)
    outcome = work.run(work.look(read=True))
    assert outcome.lacking == {"n1": set(), "n2": {A}, "n3": set()}
    assert outcome.troubles == ["n2: takes no part any more: killed"]


def test_a_run_that_nobody_waits_for_ends() -> None:
    work, lines = conductor({"n1": set()}, alive=False)
    lines["n1"].order = lambda **order: None  # type: ignore[method-assign]
    with pytest.raises(AbandonedError):
        work.look(read=True)
    work.close()
    assert lines["n1"].orders == [{"do": "close"}]


def test_the_controller_gives_nothing_that_it_does_not_have() -> None:
    fleet = {"n1": members.Member("n1", (FOLDER,))}
    state = members.begin(fleet, {"n1": {A, B}}, {A}, members.Settings(streams=9))
    assert [state.pieces[item.piece].files for item in plan.choose(state)] == [(A,)]


def test_a_node_that_only_gives_is_brought_nothing() -> None:
    fleet = {
        "n1": members.Member("n1", (FOLDER,), "10.0.0.1", 1, "x", takes=False),
        "n2": members.Member("n2", (FOLDER,), "10.0.0.2", 1, "x"),
    }
    state = members.begin(fleet, {"n1": {A}, "n2": {A, B}}, {A, B}, members.Settings())
    assert state.lacks["n1"] == frozenset()
    assert len(state.lacks["n2"]) == 2
    assert len(state.has["n1"]) == 1
