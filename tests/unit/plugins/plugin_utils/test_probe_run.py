# SPDX-License-Identifier: Apache-2.0
"""One look at an engine: what is asked, how long it may take, and what is made of it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.advice import REMEDIES
from ansible_collections.sm120.sglang.plugins.module_utils._engine.states import Load
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Completed
from ansible_collections.sm120.sglang.plugins.plugin_utils._probe_run import (
    Found,
    ProbeRun,
    parse_around,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

from tests.unit.plugins.module_utils._engine.recordings import exchanges, raw_journal

from .scripted import ScriptedNode
from .web import ADDRESS, running_web

AROUND = """1795979999
--part--
/opt/sglang/releases/lab-0.5.9-0123456789ab
--part--
/opt/sglang/current/venv/lib/python3.11/site-packages/sglang-0.5.9.dist-info
--part--
{"files": {"a.py": {"steps": [{"patch": "one"}, {"patch": "two"}]}}}
--part--
sglang::detokenizer
sglang::scheduler_TP0
sglang::scheduler_TP1
--part--
0, 72000, 97887, 45, 61, 320.5
1, 71990, 97887, 44, 60, [N/A]
"""


class Node(ScriptedNode):
    """A scripted node that answers the probe's own command too."""

    def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
        if argv[0] == "sh":
            return Completed(0, AROUND, "")
        return super()._run(argv, given, timeout)


def engine(**over: Any) -> Any:
    """Answers as the real 0.5.9 engine gives them; `over` replaces some, or makes them wait."""
    known = exchanges("http-hit")
    names = {
        "/model_info": "model_info",
        "/ready": "ready_404",
        "/health": "health",
        "/generate": "generate_0",
    }

    def respond(path: str, _body: Any, _headers: dict[str, str]) -> tuple[int, Any]:
        name = path.strip("/")
        if name in over:
            if over[name] == "silence":
                time.sleep(1.5)
                return 503, ""
            answer: tuple[int, Any] = over[name]
            return answer
        if path not in names:
            return 404, {"detail": "Not Found"}
        one = known[names[path]]
        return one["status"], one["body"]

    return respond


def probe(node: ScriptedNode, port: int, timeout: float = 0.5) -> Found:
    return ProbeRun(
        node,
        EngineHTTP(node.http(), ADDRESS, port, "k"),
        UnitReader(node, "sglang.service"),
        root="/opt/sglang",
        timeout=timeout,
    ).run()


def test_a_serving_engine() -> None:
    node = Node(lines=raw_journal("served-and-stopped")[:-20])
    with running_web(engine(server_info=(200, {"version": "0.5.9"}))) as web:
        found = probe(node, web.port)
        assert sorted(web.paths()) == [
            "/generate",
            "/health",
            "/metrics",
            "/model_info",
            "/ready",
            "/server_info",
        ]
    assert found.state.name == "ready"
    assert (found.version, found.around.patches) == ("0.5.9", ("one", "two"))
    assert found.around.now - found.unit.started == 1795979999 - 1795971156
    assert found.load.accept_length is not None


def test_a_key_that_is_not_the_engines_is_told() -> None:
    """What the table shows of a ready node are its problems."""
    node = Node(lines=raw_journal("served-and-stopped")[:-20])
    with running_web(engine(generate=(401, {"error": "Unauthorized"}))) as web:
        found = probe(node, web.port)
    assert found.state.name == "ready"
    assert any("the API key given here is not the engine's" in text for text in found.problems)


def test_a_hanging_engine_is_told_within_the_time_of_one_request() -> None:
    silent = dict.fromkeys(("health", "generate", "server_info"), "silence")
    node = Node(lines=raw_journal("served-and-stopped")[:-20])
    with running_web(engine(**silent)) as web:
        found = probe(node, web.port)
    assert found.state.name == "hung"
    assert "no answer within 0.5 s" in found.state.why
    assert found.seconds < 1.5


def test_a_dead_engine_comes_with_its_cause_and_is_asked_nothing() -> None:
    node = Node(lines=raw_journal("unpatched"))
    node.die()
    with running_web(engine()) as web:
        found = probe(node, web.port)
        assert set(web.paths()) <= {"/model_info"}
    assert found.state.name == "crashed"
    assert "set_eagle3_layers_to_capture" in found.state.why
    assert "Remedy: " in found.state.why


def test_a_death_is_explained_by_the_kernels_log_of_its_own_time() -> None:
    """Whenever somebody looks: what the kernel said is asked for by the death, not by now."""
    node = Node(lines=raw_journal("unpatched"))
    node.die()
    probe(node, 1)
    (asked,) = [command for command in node.commands if "-k" in command]
    # Its lines are of 1795970888 to 1795970932.
    assert asked[-2:] == ["--since=@1795970888", "--until=@1795970938"]


def test_an_engine_that_was_stopped_as_systemd_stops_it_has_not_crashed() -> None:
    """The recording ends with a plain `systemctl stop`, after which the unit is failed."""
    node = Node(lines=raw_journal("served-and-stopped"))
    node.die()
    state = probe(node, 1).state
    assert state.name == "stopped", state.why
    assert "the unit is failed (failed): it was stopped by a request to systemd" in state.why


def test_what_an_engine_did_before_it_died_is_not_shown_as_what_it_does() -> None:
    node = Node(lines=raw_journal("served-and-stopped")[:-20])
    assert probe(node, 1).load.accept_length is not None
    node.die()
    assert probe(node, 1).load == Load()


def test_a_start_tells_how_far_it_is() -> None:
    recorded = raw_journal("served-and-stopped")
    at = next(i for i, raw in enumerate(recorded) if "KV Cache is allocated" in raw)
    found = probe(Node(lines=recorded[: at + 1]), 1)
    assert found.state.name == "starting"
    assert found.state.why == "KV cache allocated: 4096 tokens"


class Loop(Node):
    """A node whose journal tells the starts apart: the one before the present one died."""

    kernel: tuple[str, ...] = ()

    def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
        words = " ".join(argv)
        if argv[0] != "journalctl" or "-k" in argv:
            found = super()._run(argv, given, timeout)
            return Completed(0, "\n".join(self.kernel), "") if "-k" in argv else found
        self.commands.append(argv)
        if "UNIT=" in words:
            told = [{"MESSAGE": "Started x", "INVOCATION_ID": one} for one in ("dead", "aa11")]
            return Completed(0, "\n".join(map(json.dumps, told)), "")
        lines = raw_journal("unpatched") if "=dead" in words else self.lines
        return Completed(0, "\n".join(lines), "")


def test_a_start_in_a_loop_says_why_the_start_before_it_died() -> None:
    recorded = raw_journal("served-and-stopped")
    at = next(i for i, raw in enumerate(recorded) if "KV Cache is allocated" in raw)
    found = probe(Loop(state={"NRestarts": "2"}, lines=recorded[: at + 1]), 1)
    assert found.state.name == "starting"
    assert found.state.why.startswith("KV cache allocated: 4096 tokens; ")
    assert "systemd has restarted it 2 times, the death before this start: " in found.state.why
    assert "set_eagle3_layers_to_capture" in found.state.why
    assert "Remedy: " in found.state.why


def test_an_engine_that_serves_again_is_not_asked_for_its_past() -> None:
    node = Loop(state={"NRestarts": "2"}, lines=raw_journal("served-and-stopped")[:-20])
    with running_web(engine()) as web:
        found = probe(node, web.port)
    assert found.state.name == "ready"
    assert not any("UNIT=sglang.service" in command for command in node.commands)


def test_a_hang_is_explained_by_the_kernels_log_since_its_start() -> None:
    silent = dict.fromkeys(("health", "generate", "server_info"), "silence")
    node = Loop(lines=raw_journal("served-and-stopped")[:-20])
    xid = {"MESSAGE": "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."}
    node.kernel = (json.dumps({**xid, "__REALTIME_TIMESTAMP": "1795971300000000"}),)
    with running_web(engine(**silent)) as web:
        found = probe(node, web.port)
    assert found.state.name == "hung"
    assert "its log tells a known fault: NVRM: Xid" in found.state.why
    assert "Remedy: " in found.state.why
    (asked,) = [command for command in node.commands if "-k" in command]
    assert "--since=@1795971156" in asked
    assert not any(word.startswith("--until") for word in asked)


def test_an_old_death_does_not_replace_what_to_do_about_a_hang() -> None:
    silent = dict.fromkeys(("health", "generate", "server_info"), "silence")
    node = Loop(state={"NRestarts": "1"}, lines=raw_journal("served-and-stopped")[:-20])
    with running_web(engine(**silent)) as web:
        found = probe(node, web.port)
    assert found.state.name == "hung"
    now, _, before = found.state.why.partition("; systemd has restarted it once, ")
    assert now.endswith(f". Remedy: {REMEDIES['hung']}")
    assert "set_eagle3_layers_to_capture" in before
    assert "Remedy: " in before


def test_a_node_without_the_unit() -> None:
    node = Node(
        state={"LoadState": "not-found", "ActiveState": "inactive", "InvocationID": ""}, lines=[]
    )
    found = probe(node, 1)
    assert found.state.name == "not deployed"
    assert not any(command[0] == "journalctl" for command in node.commands)


def test_what_stands_around_the_engine() -> None:
    around = parse_around(AROUND)
    assert around.release == "lab-0.5.9-0123456789ab"
    assert around.titles == (
        "sglang::detokenizer",
        "sglang::scheduler_TP0",
        "sglang::scheduler_TP1",
    )
    assert around.gpus[0] == {
        "index": 0.0,
        "used_mib": 72000.0,
        "memory_mib": 97887.0,
        "busy_percent": 45.0,
        "celsius": 61.0,
        "watts": 320.5,
    }
    assert around.gpus[1]["watts"] is None


def test_what_a_real_card_says() -> None:
    """Recorded on one NVIDIA H200, driver 580.159.04, with the probe's own query."""
    around = parse_around(AROUND.partition("0, 72000")[0] + "0, 0, 143771, 0, 33, 102.52\n")
    (card,) = around.gpus
    assert (card["memory_mib"], card["celsius"], card["watts"]) == (143771.0, 33.0, 102.52)


@pytest.mark.parametrize("text", ["", "x\n--part--\n", "1\n--part--\n\n--part--\n\n--part--\n{\n"])
def test_a_bare_node_has_nothing_around(text: str) -> None:
    around = parse_around(text)
    assert (around.release, around.version, around.patches, around.gpus) == ("", "", (), ())


def test_the_record_of_patches_is_read_by_names_alone() -> None:
    text = AROUND.replace('{"patch": "one"}', json.dumps({"patch": 5, "x": [{"patch": "three"}]}))
    assert parse_around(text).patches == ("three", "two")


SECOND = AROUND.replace("sglang::detokenizer\nsglang::scheduler_TP0\n", "") + (
    "--part--\npython\n-m\nsglang.launch_server\n--nnodes\n2\n--node-rank\n1\n"
    "--dist-init-addr\n192.0.2.1:20000\n"
)


def test_a_second_node_is_asked_for_its_health_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "AROUND", SECOND)

    def respond(path: str, _body: Any, _headers: dict[str, str]) -> tuple[int, Any]:
        return (200, "") if path == "/health" else (404, {"detail": "Not Found"})

    recorded = raw_journal("second-node-lost-its-head")
    opened = next(i for i, raw in enumerate(recorded) if "health check server" in raw)
    with running_web(respond) as web:
        found = probe(Node(lines=recorded[: opened + 1]), web.port)
        assert "/health" in web.paths()
        assert not set(web.paths()) & {"/generate", "/v1/chat/completions"}
    assert found.state.name == "ready"
    assert "node 2 of 2 of an engine" in found.state.why
    assert found.problems == []
