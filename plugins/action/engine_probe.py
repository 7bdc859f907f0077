# SPDX-License-Identifier: Apache-2.0
"""Names on the controller the state that an engine is in."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import known_answer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import from_parameters
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_action import (
    CONNECTION_SPEC,
    EngineAction,
    engine_address,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._probe_run import ProbeRun
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

if TYPE_CHECKING:
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Node


class ActionModule(EngineAction):
    """The action plugin; its parameters are documented in the module of the same name."""

    looks_in_check_mode = True
    spec: ClassVar[dict[str, dict[str, Any]]] = {
        **CONNECTION_SPEC,
        "root": {"type": "str", "default": "/opt/sglang"},
        "timeout": {"type": "float", "default": 4.0},
        "known_answer": {"type": "dict", "default": {}},
        "remedies": {"type": "list", "elements": "dict", "default": []},
    }

    def look(self, node: Node, parameters: dict[str, Any], host: str) -> dict[str, Any]:
        try:
            remedies = from_parameters(parameters["remedies"])
            wanted = known_answer(parameters["known_answer"])
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        address = engine_address(parameters["host"])
        found = ProbeRun(
            node,
            EngineHTTP(node.http(), address, parameters["port"], parameters["api_key"] or ""),
            UnitReader(node, parameters["unit"], parameters["release"]),
            root=parameters["root"],
            timeout=parameters["timeout"],
            wanted=wanted,
            remedies=remedies,
        ).run()
        unit, around = found.unit, found.around
        uptime = around.now - unit.started if unit.running and unit.started and around.now else None
        return {
            "state": found.state.name,
            "why": found.state.why,
            "release": around.release,
            "sglang": found.version,
            "patches": list(around.patches),
            "uptime": None if uptime is None else round(max(0.0, uptime)),
            "restarts": unit.restarts,
            "main_pid": unit.main_pid,
            "node": around.place.rank + 1,
            "nodes": around.place.size,
            "invocation_id": unit.invocation_id,
            "gpus": list(around.gpus),
            "seconds": found.seconds,
            "problems": found.problems,
            "msg": f"{host}: {found.state.name}: {found.state.why}",
            **asdict(found.load),
        }
