# SPDX-License-Identifier: Apache-2.0
"""From recorded answers to the state's name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.advice import REMEDIES, advised
from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import ASKED_FOR
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import KnownAnswer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.known import SIGNATURES
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.states import (
    STATES,
    Asked,
    Load,
    Place,
    State,
    decide,
    place_of,
    read_load,
    release_of,
    was_served,
    was_told_to_end,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

from tests.unit.plugins.module_utils._engine.recordings import FOLDER, journal

ROOT = Path(__file__).parents[5]
CPU = FOLDER.parent / "sglang-0.5.9-cpu"


def recorded(name: str) -> Answer:
    """An answer of the real 0.5.9 engine."""
    text = (CPU / name).read_text()
    return Answer(200, json.loads(text) if name.endswith(".json") else text)


INFO = recorded("model_info.json")
ANSWERED = recorded("generate.json")
SERVER = recorded("server_info.json")
REFUSED = Answer(error="connection refused", refused=True)
SILENT = Answer(error="no answer within 4 s")
BUSY = Answer(503)
FINE = Asked(INFO, Answer(200), SERVER, ANSWERED)
TEXT = ANSWERED.body["text"]


def unit(**values: Any) -> UnitState:
    base: dict[str, Any] = {
        "load_state": "loaded",
        "active": "active",
        "sub": "running",
        "result": "success",
        "invocation_id": "1",
    }
    return UnitState("sglang.service", **{**base, **values})


FAILED = {"active": "failed", "sub": "failed", "result": "signal"}
AGAIN = {"active": "activating", "sub": "auto-restart", "result": "signal", "restarts": 2}


@pytest.mark.parametrize(
    ("state", "wanted", "why"),
    [
        (None, "not deployed", "no such unit"),
        (unit(load_state="not-found", active="inactive"), "not deployed", "no such unit"),
        (unit(active="inactive", sub="dead"), "stopped", "inactive (dead)"),
        (unit(active="inactive", sub="dead", invocation_id=""), "stopped", "not started since"),
        (unit(load_state="masked", active="inactive", sub="dead"), "stopped", "masked"),
        (unit(**FAILED), "crashed", "KeyError: 12"),
        (unit(**AGAIN), "crashed", "restarts: 2, systemd starts it again"),
        (unit(active="inactive", sub="dead", result="oom-kill"), "crashed", "KeyError: 12"),
    ],
)
def test_what_the_unit_alone_tells(state: UnitState | None, wanted: str, why: str) -> None:
    found = decide(state, Asked(REFUSED), Load(), cause="KeyError: 12")
    assert found.name == wanted
    assert why in found.why


@pytest.mark.parametrize(
    ("state", "wanted"), [(unit(**FAILED), "stopped"), (unit(**AGAIN), "crashed")]
)
def test_a_unit_that_somebody_stopped_has_not_crashed(state: UnitState, wanted: str) -> None:
    """SGLang ends itself by SIGKILL after its drain, which systemd calls a failure."""
    found = decide(state, Asked(REFUSED), Load(), cause=ASKED_FOR)
    assert found.name == wanted
    assert ASKED_FOR in found.why


STOPPING = {"active": "deactivating", "sub": "stop-sigterm", "result": "success"}


def test_an_engine_that_finishes_what_runs_is_neither_stopped_nor_too_busy() -> None:
    found = decide(unit(**STOPPING), Asked(INFO, BUSY), Load(), cause=ASKED_FOR)
    assert (found.name, found.why) == (
        "draining",
        "systemd stops it, and it finishes what runs (stop-sigterm)",
    )
    # A process that died by itself leaves others, which systemd ends.
    assert decide(unit(**STOPPING), Asked(INFO, BUSY), Load(), cause="x").name == "stopped"
    asked = Asked(INFO, BUSY, SERVER, SILENT)
    by_hand = decide(unit(), asked, Load(running=3), served=True, ending=True)
    assert by_hand.name == "draining"
    assert "3 requests" in by_hand.why
    # While its health is green it serves, whatever its log says.
    assert decide(unit(), FINE, Load(), served=True, ending=True).name == "ready"


def test_the_recorded_engine_was_told_to_end() -> None:
    lines = journal("served-and-stopped")
    assert was_told_to_end(lines)
    assert not was_told_to_end(lines[:-20])
    assert not was_told_to_end(journal("unpatched"))


@pytest.mark.parametrize("name", STATES)
def test_the_page_says_what_the_table_advises(name: str) -> None:
    """One sentence on both: who reads the page finds there what status shows."""
    page = (ROOT / "docs/operations.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    assert row.split("|")[3].strip() == REMEDIES.get(name, row.split("|")[3].strip())
    found = advised(State(name, "why"))
    assert found.why == (f"why. Remedy: {REMEDIES[name]}" if name in REMEDIES else "why")
    known = State(name, "why. Remedy: as the cause says")
    assert advised(known) == known


def test_a_start_by_hand_is_told_so_that_systemd_does_not_refuse_it() -> None:
    """Its limit counts every start: on the page, and where it was reached."""
    page = (ROOT / "docs/operations.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| stopped |")]
    (limit,) = [one for one in SIGNATURES if one.id == "service-limit"]
    command = "`systemctl reset-failed sglang && systemctl start sglang`"
    assert command in row
    assert command in limit.remedy
    assert "started by hand" in limit.cause
    commands = [line for line in page.splitlines() if "`systemctl start sglang" in line]
    assert commands == []


def test_a_closed_port_is_a_start_with_its_progress_or_an_end() -> None:
    found = decide(unit(), Asked(REFUSED), Load(), progress="loading weights: 40%")
    assert (found.name, found.why) == ("starting", "loading weights: 40%")
    assert decide(unit(), Asked(REFUSED), Load(), served=True).name == "crashed"


@pytest.mark.parametrize("confirm", [BUSY, Answer(503, "")])
def test_a_red_health_check_before_it_ever_served_is_the_warm_up(confirm: Answer) -> None:
    asked = Asked(INFO, confirm, SERVER, SILENT)
    assert decide(unit(), asked, Load()).name == "warming"
    unauthorized = replace(asked, model_info=Answer(401), server_info=Answer(401))
    assert decide(unit(), unauthorized, Load()).name == "warming"


def test_a_green_health_check_and_an_answer_are_ready() -> None:
    assert decide(unit(), FINE, Load(), served=True).name == "ready"
    wanted = KnownAnswer(prompt="x", expect=TEXT[:4])
    assert decide(unit(), FINE, Load(), served=True, wanted=wanted).name == "ready"


@pytest.mark.parametrize(
    ("completion", "wanted", "why"),
    [
        (ANSWERED, KnownAnswer(prompt="x", expect="Paris"), "expected 'Paris'"),
        (Answer(500, {"error": {"message": "kernel"}}), None, "HTTP 500 kernel"),
        (Answer(200, {"text": "", "meta_info": {"completion_tokens": 0}}), None, "0 tokens"),
    ],
)
def test_green_health_and_a_wrong_answer_are_broken(
    completion: Answer, wanted: KnownAnswer | None, why: str
) -> None:
    found = decide(unit(), replace(FINE, completion=completion), Load(), wanted=wanted)
    assert found.name == "generation broken"
    assert why in found.why


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("wanted", [None, KnownAnswer(prompt="x", expect="Paris")])
def test_a_full_queue_is_too_much_work_and_no_wrong_answer(
    status: int, wanted: KnownAnswer | None
) -> None:
    full = Answer(status, {"detail": "The request queue is full."})
    asked = replace(FINE, completion=full)
    found = decide(unit(), asked, Load(running=32, queued=7), served=True, wanted=wanted)
    assert found.name == "overloaded"
    assert "The request queue is full; 32 requests run and 7 wait" in found.why


@pytest.mark.parametrize("confirm", [BUSY, SILENT, Answer(200)])
def test_it_does_not_answer_in_time_but_its_scheduler_does(confirm: Answer) -> None:
    asked = Asked(INFO, confirm, SERVER, SILENT)
    found = decide(unit(), asked, Load(running=32, queued=7), served=True)
    assert found.name == "overloaded"
    assert "32 requests run and 7 wait" in found.why


@pytest.mark.parametrize("confirm", [BUSY, SILENT, Answer(200)])
def test_the_scheduler_does_not_answer_either(confirm: Answer) -> None:
    asked = Asked(INFO, confirm, SILENT, SILENT)
    found = decide(unit(), asked, Load(), served=True)
    assert found.name == "hung"
    assert "/server_info hangs" in found.why


def test_one_scheduler_of_many_that_was_killed_is_no_hang() -> None:
    """The others wait for it, and so does every request."""
    asked = Asked(INFO, SILENT, SILENT, SILENT)
    titles = [*(f"sglang::scheduler_TP{rank}" for rank in range(7)), "sglang::detokenizer"]
    place = place_of(["--tp-size", "8"])
    found = decide(unit(), asked, Load(), served=True, titles=titles, place=place)
    assert (found.name, "its scheduler_TP7 is gone" in found.why) == ("crashed", True)
    titles.append("sglang::scheduler_TP7")
    assert decide(unit(), asked, Load(), served=True, titles=titles, place=place).name == "hung"


SECOND = Place(1, 2, "192.0.2.1:20000")
RANK_1 = ["sglang::scheduler_TP1"]


@pytest.mark.parametrize(
    ("confirm", "served", "titles", "name", "why"),
    [
        (
            Answer(200, ""),
            True,
            RANK_1,
            "ready",
            "node 2 of 2 of an engine: its schedulers run, an",
        ),
        (Answer(200, ""), True, [], "ready", "192.0.2.1:20000, serves for it"),
        (Answer(200, ""), True, ["sglang::x"], "crashed", "its scheduler is gone"),
        (REFUSED, False, RANK_1, "starting", "loading weights: 40%"),
        (REFUSED, True, RANK_1, "crashed", "its port closed after it was ready"),
    ],
)
def test_a_node_that_is_not_the_first_of_its_engine(
    confirm: Answer, served: bool, titles: list[str], name: str, why: str
) -> None:
    """It answers 404 to /model_info, and no generation: it is neither hung nor broken."""
    found = decide(
        unit(),
        Asked(confirm if confirm.refused else Answer(404), confirm),
        Load(),
        served=served,
        progress="loading weights: 40%",
        titles=titles,
        place=SECOND,
    )
    assert found.name == name
    assert why in found.why


def test_such_a_node_stops_and_crashes_as_any_other() -> None:
    asked = Asked(REFUSED, REFUSED)
    assert decide(unit(**FAILED), asked, Load(), cause="x", place=SECOND).name == "crashed"
    stopped = unit(active="inactive", sub="dead")
    assert decide(stopped, asked, Load(), place=SECOND).name == "stopped"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["python", "-m", "sglang.launch_server", "--tp-size", "8"], Place(ranks=8)),
        (["--nnodes", "1", "--node-rank", "0"], Place()),
        (["--nnodes", "2", "--node-rank", "1", "--dist-init-addr", "192.0.2.1:20000"], SECOND),
        (["--nnodes=2", "--node-rank=1", "--dist-init-addr=192.0.2.1:20000"], SECOND),
        (["--nnodes", "2"], Place(0, 2, "")),
        (["--nnodes", "two", "--node-rank", "1"], Place()),
        ([], Place()),
    ],
)
def test_the_place_stands_in_what_runs(words: list[str], place: Place) -> None:
    assert place_of(words) == place


def test_a_second_node_was_served_when_its_own_port_opened() -> None:
    lines = journal("second-node-lost-its-head")
    opened = next(i for i, line in enumerate(lines) if "health check server" in line.text)
    assert was_served(lines[: opened + 1])
    assert not was_served(lines[:opened])


def test_a_scheduler_that_was_killed_is_no_hang() -> None:
    """Seen with 0.5.9: after kill -9 of the scheduler the HTTP server answers on."""
    asked = Asked(INFO, SILENT, SILENT, SILENT)
    left, both = ["sglang::detokenizer"], ["sglang::detokenizer", "sglang::scheduler_TP0"]
    gone = decide(unit(), asked, Load(), served=True, titles=left)
    assert gone.name == "crashed"
    assert "its scheduler is gone" in gone.why
    assert decide(unit(), asked, Load(), served=True, titles=both).name == "hung"
    assert decide(unit(), asked, Load(), served=True).name == "hung"
    assert decide(unit(), FINE, Load(), served=True, titles=left).name == "ready"


def test_a_detokenizer_that_was_killed_is_no_overload() -> None:
    """Seen with 0.5.9: the scheduler answers /server_info, and no request ever ends."""
    asked = Asked(INFO, SILENT, Answer(200, {}), SILENT)
    found = decide(unit(), asked, Load(), served=True, titles=["sglang::scheduler"])
    assert found.name == "crashed"
    assert "its detokenizer is gone" in found.why
    assert decide(unit(), asked, Load(), served=True).name == "overloaded"


def test_even_the_http_server_hangs() -> None:
    assert decide(unit(), Asked(SILENT), Load(), served=True).name == "hung"


def test_a_wrong_key_does_not_hide_a_healthy_engine() -> None:
    asked = Asked(Answer(401), Answer(200), Answer(401), Answer(401))
    found = decide(unit(), asked, Load(), served=True)
    assert found.name == "ready"
    assert "API key" in found.why


def test_the_load_of_a_real_engine() -> None:
    asked = Asked(INFO, Answer(200), SERVER, ANSWERED, recorded("metrics.txt"))
    load = read_load(asked)
    assert (load.running, load.queued) == (0, 0)
    assert load.kv_use == pytest.approx(0.004638671875)
    assert load.accept_length is None, "absent until a decode step was logged, not 0"


def test_without_metrics_the_journal_tells_the_load() -> None:
    lines = journal("served-and-stopped")
    load = read_load(Asked(INFO, Answer(200), SERVER), lines)
    assert load.running == 1
    assert load.queued == 0
    assert load.kv_use is not None
    assert load.accept_length is not None
    assert read_load(Asked()) == Load()


def test_the_mean_accept_length_counts_before_the_last_interval() -> None:
    body = {"internal_states": [{"avg_spec_accept_length": 2.5, "last_gen_throughput": 70.0}]}
    load = read_load(Asked(server_info=Answer(200, body)), journal("served-and-stopped"))
    assert load.accept_length == 2.5


def test_whether_it_served_is_in_the_journal() -> None:
    lines = journal("served-and-stopped")
    assert was_served(lines)
    ready = next(i for i, line in enumerate(lines) if "fired up" in line.text)
    assert not was_served(lines[:ready])
    assert was_served(lines[ready + 1 :]), "the end of a long journal tells it too"
    assert not was_served(journal("unpatched"))


def test_nothing_but_named_figures_is_taken_of_the_server() -> None:
    """`/server_info` of the real engine returns its API key twice."""
    assert "REDACTED" in json.dumps(SERVER.body)
    found = decide(unit(), FINE, read_load(FINE), served=True)
    assert "REDACTED" not in f"{found}{read_load(FINE)}"
    assert release_of(SERVER) == "0.5.9"
    assert release_of(None) == ""
    assert release_of(Answer(200, {"version": 5})) == ""
