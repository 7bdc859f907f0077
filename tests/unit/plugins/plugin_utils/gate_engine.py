# SPDX-License-Identifier: Apache-2.0
"""A server that answers as the real engine did, and the gate's further checks made on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import Check, KnownAnswer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gpu_memory import (
    read,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_more_run import (
    MorePlan,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_run import GatePlan, GateRun
from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader

from tests.unit.plugins.module_utils._engine.recordings import exchanges
from tests.unit.plugins.plugin_utils.scripted import ScriptedNode
from tests.unit.plugins.plugin_utils.web import ADDRESS, running_web

RECORDINGS = Path(__file__).parents[3] / "recordings"
SERVER = json.loads((RECORDINGS / "sglang-0.5.9-cpu/server_info.json").read_text())
GPUS = read(0, (RECORDINGS / "node/nvidia-smi/gpus-held.txt").read_text(), "")
COUNTING = KnownAnswer(
    messages=({"role": "user", "content": "Please count."},), expect=" one two three"
)
ALL = MorePlan(
    kv_tokens=4096,
    long_prompt_tokens=200,
    concurrency=3,
    sampling=True,
    tool_call=True,
    image=True,
    gpu_free_mib=512,
)
# Which recorded exchange answers a path.
EXCHANGES = {
    "/model_info": "model_info",
    "/ready": "ready_404",
    "/health": "health",
    "/v1/chat/completions": "chat_counting",
    "/generate": "generate_0",
}
Reply = Callable[[dict[str, Any]], tuple[int, Any]]


class Engine:
    """Answers as the lab's engine did, with both parsers on; `chat` and `generate` may differ."""

    def __init__(
        self, chat: Reply | None = None, generate: Reply | None = None, **server: Any
    ) -> None:
        self._recorded = exchanges("http-hit")
        self._chat, self._generate = chat, generate
        self._server = {**SERVER, "tool_call_parser": "kimi_k2", "reasoning_parser": "kimi_k2"}
        self._server |= server
        self._sent: set[str] = set()
        self.status = 200

    def __call__(self, path: str, body: Any, _headers: dict[str, str]) -> tuple[int, Any]:
        if path == "/server_info":
            return self.status, self._server if self.status == 200 else {"detail": "Not Found"}
        if path == "/v1/chat/completions" and body.get("tools"):
            return 200, call('{"city": "Paris"}') if self._chat is None else self._chat(body)[1]
        if path == "/v1/chat/completions" and self._chat is not None:
            return self._chat(body)
        if path == "/generate" and self._generate is not None:
            return self._generate(body)
        one = self._recorded[EXCHANGES[path]]
        if path == "/generate" and body["text"] in self._sent:
            return 200, cached(90)
        if path == "/generate":
            self._sent.add(body["text"])
        return one["status"], one["body"]


def cached(tokens: int | None) -> dict[str, Any]:
    """The recorded answer of `/generate`, with so many of 100 prompt tokens cached."""
    body = exchanges("http-hit")["generate_0"]["body"]
    return {
        **body,
        "meta_info": {**body["meta_info"], "cached_tokens": tokens, "prompt_tokens": 100},
    }


def call(arguments: str, name: str = "get_weather") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return answer(message={"content": None, "tool_calls": [{"function": function}]})


def answer(text: str = "", *, message: dict[str, Any] | None = None) -> dict[str, Any]:
    said = message or {"content": text, "reasoning_content": None}
    return {
        "choices": [{"message": said, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    }


def checks(
    engine: Engine, plan: MorePlan = ALL, gpus: Any = GPUS, **over: Any
) -> tuple[dict[str, Check], list[Any]]:
    node = ScriptedNode()
    with running_web(engine) as web:
        run = GateRun(
            reader=UnitReader(node, "sglang.service"),
            http=EngineHTTP(node.http(), ADDRESS, web.port, "k"),
            plan=GatePlan(
                **{"known_answer": COUNTING, "min_verify_steps": 10, "more": plan, **over}
            ),
            say=lambda _seconds, _text: None,
            gpus=lambda: gpus,
        )
        found = {check.id: check for check in run.run()}
        return found, list(web.seen)


FURTHER = (
    "server_info",
    "kv_tokens",
    "reasoning",
    "sampling",
    "long_prompt",
    "repeated_prompt",
    "concurrency",
    "tool_call",
    "image",
    "gpu_memory",
)
