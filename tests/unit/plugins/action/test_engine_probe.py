# SPDX-License-Identifier: Apache-2.0
"""The probe as a play runs it: in check mode too, without a secret, and never red by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.plugins.action.engine_play import FAILED, KEY, PlayNode, over_ssh, play
from tests.unit.plugins.action.test_engine_gate import PATHS
from tests.unit.plugins.module_utils._engine.recordings import exchanges, raw_journal
from tests.unit.plugins.plugin_utils.sshd import Sshd
from tests.unit.plugins.plugin_utils.web import ADDRESS, running_web

if TYPE_CHECKING:
    from pathlib import Path

ACTION = "sm120.sglang.engine_probe"


def engine(path: str, _body: Any, headers: dict[str, str]) -> tuple[int, Any]:
    """The real engine, which returns its key in `/server_info`."""
    if path != "/health" and headers.get("Authorization") != f"Bearer {KEY}":
        return 401, {"error": "Unauthorized"}
    if path == "/server_info":
        return 200, {"version": "0.5.9", "api_key": KEY, "internal_states": [{"api_key": KEY}]}
    if path not in PATHS:
        return 404, {"detail": "Not Found"}
    one = exchanges("http-hit")[PATHS[path]]
    return one["status"], one["body"]


def test_a_serving_engine_in_check_mode(tmp_path: Path, server: Sshd) -> None:
    with running_web(engine) as web:
        asked = {"host": ADDRESS, "port": web.port, "api_key": KEY}
        played = play(tmp_path, over_ssh(server), ACTION, asked, options=("--check", "-vvv"))
    assert played.status == 0, played.output
    result = played.result
    assert (result["state"], result["sglang"], result["changed"]) == ("ready", "0.5.9", False)
    assert KEY not in played.output + str(result)


def test_a_dead_engine_is_no_failed_task(tmp_path: Path, server: Sshd, node: PlayNode) -> None:
    node.state(FAILED)
    node.journal(raw_journal("context-refused"))
    played = play(tmp_path, over_ssh(server), ACTION, {"host": ADDRESS, "port": 1})
    assert played.status == 0, played.output
    assert played.result["state"] == "crashed"
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" in played.result["why"]
