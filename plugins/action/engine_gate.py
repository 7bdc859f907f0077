# SPDX-License-Identifier: Apache-2.0
"""Decides on the controller whether a started engine may stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible_collections.sm120.sglang.plugins.module_utils._engine import gpu_memory
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    FAIL,
    WARN,
    completion_text,
    gate_message,
    known_answer,
    limits_problem,
    overall,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import describe_engine
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import from_parameters
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_action import (
    CONNECTION_SPEC,
    EngineAction,
    engine_address,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_more_run import MorePlan
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_run import GatePlan, GateRun
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

if TYPE_CHECKING:
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Node

_SMI_SECONDS, _MARGIN = 20.0, 20.0
_KNOWN_ANSWER_SPEC = {
    "prompt": {"type": "str"},
    "messages": {"type": "list", "elements": "dict"},
    "max_tokens": {"type": "int", "default": 16},
    "expect": {"type": "str"},
    "matches": {"type": "str"},
}


class ActionModule(EngineAction):
    """The action plugin; its parameters are documented in the module of the same name."""

    spec: ClassVar[dict[str, dict[str, Any]]] = {
        **CONNECTION_SPEC,
        "model": {"type": "str"},
        "known_answer": {"type": "dict", "options": _KNOWN_ANSWER_SPEC},
        "speculative": {"type": "bool", "default": True},
        "min_verify_steps": {"type": "int", "default": 40},
        "accept_length_warn": {"type": "float", "default": 2.0},
        "accept_length_fail": {"type": "float", "default": 1.2},
        "request_timeout": {"type": "float", "default": 300.0},
        "timeout": {"type": "float", "default": 1200.0},
        "quick": {"type": "bool", "default": False},
        "kv_tokens": {"type": "int", "default": 0},
        "long_prompt_tokens": {"type": "int", "default": 0},
        "concurrency": {"type": "int", "default": 0},
        "sampling": {"type": "bool", "default": False},
        "tool_call": {"type": "bool", "default": False},
        "image": {"type": "bool", "default": False},
        "gpu_free_mib": {"type": "int", "default": 0},
        "remedies": {"type": "list", "elements": "dict", "default": []},
    }

    def look(self, node: Node, parameters: dict[str, Any], host: str) -> dict[str, Any]:
        try:
            remedies = from_parameters(parameters["remedies"])
            plan = _plan(parameters)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        key = parameters["api_key"] or ""
        address = engine_address(parameters["host"])
        run = GateRun(
            reader=UnitReader(node, parameters["unit"], parameters["release"]),
            http=EngineHTTP(node.http(), address, parameters["port"], key),
            plan=plan,
            say=lambda seconds, text: self.say(host, seconds, text, [key] if key else []),
            remedies=remedies,
            gpus=lambda: gpus(node),
        )
        checks = run.run()
        verdict = overall(checks)
        length = run.measured.accept_length
        found: dict[str, Any] = {
            "verdict": verdict,
            "checks": [check.as_dict() for check in checks],
            "seconds": round(run.seconds, 1),
            "answer": completion_text(run.answer) or "",
            "accept_length": round(length, 3) if length is not None else None,
            "verify_steps": run.measured.steps,
            "engine": describe_engine(run.model_info),
            "main_pid": run.first.main_pid if run.first else 0,
            "invocation_id": run.first.invocation_id if run.first else "",
            "msg": gate_message(host, checks),
        }
        if verdict == FAIL:
            found["failed"] = True
        elif verdict == WARN:
            found["warnings"] = [found["msg"]]
        return found


def _plan(parameters: dict[str, Any]) -> GatePlan:
    warn, fail = parameters["accept_length_warn"], parameters["accept_length_fail"]
    if problem := limits_problem(warn, fail, parameters["min_verify_steps"]):
        raise ValueError(problem)
    return GatePlan(
        known_answer=known_answer(parameters["known_answer"]),
        model=parameters["model"] or "",
        speculative=parameters["speculative"],
        min_verify_steps=parameters["min_verify_steps"],
        warn_below=warn,
        fail_below=fail,
        request_timeout=parameters["request_timeout"],
        timeout=parameters["timeout"],
        quick=parameters["quick"],
        more=MorePlan(
            kv_tokens=parameters["kv_tokens"],
            long_prompt_tokens=parameters["long_prompt_tokens"],
            concurrency=parameters["concurrency"],
            sampling=parameters["sampling"],
            tool_call=parameters["tool_call"],
            image=parameters["image"],
            gpu_free_mib=parameters["gpu_free_mib"],
        ),
    )


def gpus(node: Node) -> gpu_memory.GpuMemory:
    """The memory of the node's GPUs.

    Raises:
        NodeError: the node cannot be asked.
    """
    # Above the command's own limit: a driver that hangs is no lost connection.
    done = node.run(gpu_memory.query(_SMI_SECONDS), timeout=_SMI_SECONDS + _MARGIN)
    return gpu_memory.read(done.status, done.out, done.err)
