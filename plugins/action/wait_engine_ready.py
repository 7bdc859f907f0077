# SPDX-License-Identifier: Apache-2.0
"""Waits on the controller until an engine is ready, or says at once why it died."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import describe_engine
from ansible_collections.sm120.sglang.plugins.module_utils._engine.report import (
    dead_message,
    lost_message,
    stuck_message,
    timeout_message,
    unauthorized_message,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import from_parameters
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_action import (
    CONNECTION_SPEC,
    EngineAction,
    engine_address,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._party import Party
from ansible_collections.sm120.sglang.plugins.plugin_utils._watch import Outcome, Watch

if TYPE_CHECKING:
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Node

_SERVER_INFO_TIMEOUT = 2.0


class ActionModule(EngineAction):
    """The action plugin; its parameters are documented in the module of the same name."""

    spec: ClassVar[dict[str, dict[str, Any]]] = {
        **CONNECTION_SPEC,
        "timeout": {"type": "float", "default": 1800.0},
        "remedies": {"type": "list", "elements": "dict", "default": []},
        "rank": {"type": "int", "default": 0},
        "others": {"type": "list", "elements": "str", "default": []},
    }

    def look(self, node: Node, parameters: dict[str, Any], host: str) -> dict[str, Any]:
        try:
            remedies = from_parameters(parameters["remedies"])
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        address = engine_address(parameters["host"])
        secrets = [parameters["api_key"]] if parameters["api_key"] else []
        http = EngineHTTP(node.http(), address, parameters["port"], parameters["api_key"] or "")
        # The same for all nodes of one task: its workers have this folder and number in common.
        folder = Path(constants.DEFAULT_LOCAL_TMP) / f"engine-{self._task._uuid}"
        party = Party(folder, host, parameters["others"])
        watch = Watch(
            node,
            http,
            parameters["unit"],
            say=lambda seconds, text: self.say(host, seconds, text, secrets),
            remedies=remedies,
            release=parameters["release"],
            rank=parameters["rank"],
            lost=party.lost,
        )
        outcome = watch.run(parameters["timeout"])
        found = _facts(outcome)
        if outcome.verdict == "ready":
            found["release"] = "" if parameters["rank"] else _release(http)
            if not outcome.already:
                # Not "ready": the first sampled request may still compile kernels for minutes.
                up = f"warmed up {outcome.seconds:.0f} s after start, not proved yet"
                self.say(host, outcome.elapsed, up, secrets)
            return found
        where = f"{address}:{parameters['port']}"
        message = _message(outcome, host, where)
        if outcome.verdict == "dead":
            party.failed(message)
        return {**found, "failed": True, "msg": message}


def _message(outcome: Outcome, host: str, where: str) -> str:
    if outcome.verdict == "dead" and outcome.cause is not None:
        return dead_message(
            host, outcome.reason, outcome.elapsed, outcome.cause, str(outcome.tracker.current)
        )
    if outcome.verdict == "lost":
        return lost_message(host, outcome.elapsed, outcome.lost_to, outcome.reason)
    if outcome.verdict == "stuck":
        return stuck_message(host, outcome.elapsed, outcome.readiness.waiting_for(), outcome.reason)
    if outcome.verdict == "unauthorized":
        return unauthorized_message(host, where)
    return timeout_message(
        host,
        outcome.elapsed,
        str(outcome.tracker.current),
        outcome.readiness.waiting_for(),
        outcome.unit,
    )


def _facts(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ready": outcome.verdict == "ready",
        "already_serving": outcome.already,
        "seconds": outcome.seconds,
        "waited": outcome.elapsed,
        "phase": outcome.tracker.current.phase if not outcome.already else "ready",
        "phase_times": outcome.phases,
        "invocation_id": outcome.unit.invocation_id,
        "main_pid": outcome.unit.main_pid,
        "lost_to": outcome.lost_to,
        "engine": describe_engine(outcome.readiness.model_info or {}),
    }
    if outcome.cause is not None:
        found["cause"] = {
            "summary": outcome.cause.summary,
            "location": outcome.cause.location,
            "root": outcome.cause.root,
            "rank": outcome.cause.rank,
            "evidence": list(outcome.cause.evidence),
            "remedy": outcome.cause.remedy,
            "signature": outcome.cause.signature,
            "known": outcome.cause.known,
            "source": outcome.cause.source,
            "chain": list(outcome.cause.chain),
        }
    return found


def _release(http: EngineHTTP) -> str:
    """The engine's own version, or an empty string.

    `/server_info` also returns the API keys (0.5.9 http_server.py:605): the rest is dropped here.
    """
    body = http.get("/server_info", _SERVER_INFO_TIMEOUT).body
    version = body.get("version") if isinstance(body, dict) else None
    return version if isinstance(version, str) else ""
