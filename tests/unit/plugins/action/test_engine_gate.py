# SPDX-License-Identifier: Apache-2.0
"""The gate as a play runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.plugins.action.engine_play import KEY, over_ssh, play
from tests.unit.plugins.module_utils._engine.recordings import exchanges
from tests.unit.plugins.plugin_utils.sshd import Sshd
from tests.unit.plugins.plugin_utils.web import ADDRESS, running_web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ACTION = "sm120.sglang.engine_gate"
QUESTION = {"messages": [{"role": "user", "content": "Please count."}], "expect": " one two three"}
PATHS = {
    "/model_info": "model_info",
    "/ready": "ready_404",
    "/health": "health",
    "/v1/chat/completions": "chat_counting",
    "/generate": "generate_0",
    "/server_info": "server_info",
}


def recorded(name: str) -> Callable[[str, Any, dict[str, str]], tuple[int, Any]]:
    def respond(path: str, _body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        if path != "/health" and headers.get("Authorization") != f"Bearer {KEY}":
            return 401, {"error": "Unauthorized"}
        one = exchanges(name)[PATHS[path]]
        return one["status"], one["body"]

    return respond


def arguments(port: int, **more: Any) -> dict[str, Any]:
    base = {"host": ADDRESS, "port": port, "api_key": KEY, "min_verify_steps": 20}
    return {**base, "known_answer": QUESTION, **more}


def test_a_good_engine_passes(tmp_path: Path, server: Sshd) -> None:
    with running_web(recorded("http-hit")) as web:
        played = play(tmp_path, over_ssh(server), ACTION, arguments(web.port))
    assert played.status == 0, played.output
    result = played.result
    assert (result["verdict"], result["changed"]) == ("ok", False)
    assert result["accept_length"] > 3.5
    assert result["verify_steps"] >= 20
    made = [check["id"] for check in result["checks"] if check["verdict"] != "skipped"]
    assert made == [
        "unit",
        "port",
        "model_info",
        "readiness",
        "known_answer",
        "accept_length",
        "server_info",
    ]
    assert result["main_pid"] == 4242
    assert "OK accept_length" in played.output
    assert KEY not in played.output + str(result)


def test_a_draft_that_never_hits_fails_in_a_few_lines(tmp_path: Path, server: Sshd) -> None:
    with running_web(recorded("http-miss")) as web:
        played = play(tmp_path, over_ssh(server), ACTION, arguments(web.port))
    assert played.status == 2
    assert played.result["verdict"] == "fail"
    message = played.result["msg"].splitlines()
    assert len(message) == 3
    assert message[1].startswith("FAIL accept_length 1.0 (limit 1.2): 0 draft tokens accepted")
    assert message[2].startswith("Remedy: ")


def test_a_warning_lets_the_engine_stay(tmp_path: Path, server: Sshd) -> None:
    with running_web(recorded("http-hit")) as web:
        floors = arguments(web.port, accept_length_warn=9.0)
        played = play(tmp_path, over_ssh(server), ACTION, floors)
    assert played.status == 0, played.output
    assert played.result["verdict"] == "warn"
    assert "WARN accept_length" in played.output


def test_quick(tmp_path: Path, server: Sshd) -> None:
    with running_web(recorded("http-hit")) as web:
        played = play(tmp_path, over_ssh(server), ACTION, arguments(web.port, quick=True))
        assert web.paths() == ["/model_info", "/ready", "/health", "/v1/chat/completions"]
    assert played.result["verdict"] == "ok"
    assert played.result["accept_length"] is None


def test_check_mode_asks_nothing(tmp_path: Path, server: Sshd) -> None:
    with running_web(recorded("http-hit")) as web:
        asked = arguments(web.port)
        played = play(tmp_path, over_ssh(server), ACTION, asked, options=("--check",))
        assert web.paths() == []
    assert played.status == 0
    assert played.result["skipped"] is True


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"known_answer": {"prompt": "x"}}, "either `expect`"),
        ({"known_answer": {"prompt": "x", "expect": "y", "answer": "z"}}, "answer"),
        ({"accept_length_fail": 2.5}, "not above accept_length_warn"),
        ({"accept_length_fail": 0.9}, "at least 1.0"),
        ({"min_verify_steps": 0}, "verify steps must be at least 1"),
    ],
)
def test_bad_parameters(tmp_path: Path, server: Sshd, more: dict[str, Any], wanted: str) -> None:
    played = play(tmp_path, over_ssh(server), ACTION, arguments(1, **more))
    assert played.status == 2
    said = " ".join(played.output.split())
    assert wanted in said
    assert "broke: " not in said
