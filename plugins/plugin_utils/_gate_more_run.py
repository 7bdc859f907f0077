# SPDX-License-Identifier: Apache-2.0
"""Makes the requests of the gate's further checks, one check after the other, in bounded time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ansible_collections.sm120.sglang.plugins.module_utils._engine import gate_more
from ansible_collections.sm120.sglang.plugins.module_utils._engine.asking import QUESTION
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    Check,
    KnownAnswer,
    no_time,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gpu_memory import (
    GpuMemory,
    judge_gpu_memory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer

_HTTP_OK = 200
_SHORT = 8
_TOOL_TOKENS = 1024  # a model may think before it calls
_THOUGHT_TOKENS = 512
_ROOM = 256  # tokens of the context that stay for the chat template
_WITHOUT_REQUEST = ("kv_tokens", "gpu_memory")


@dataclass(frozen=True)
class MorePlan:
    """Which further checks are made; 0 and False leave one out."""

    kv_tokens: int = 0
    long_prompt_tokens: int = 0
    concurrency: int = 0
    sampling: bool = False
    tool_call: bool = False
    image: bool = False
    gpu_free_mib: int = 0


class Requests(Protocol):
    """Sends requests to the engine."""

    def server_info(self) -> Answer:
        """What the engine says of its arguments and its scheduler."""

    def chat(self, messages: Sequence[Any], length: int, **more: Any) -> Answer:
        """One chat completion."""

    def generate(
        self, prompt: str, length: int, *, ignore_eos: bool, temperature: float = 0
    ) -> Answer:
        """One native generation."""


@dataclass(frozen=True)
class Subject:
    """What the checks before learned of the engine."""

    model: Mapping[str, Any]
    question: KnownAnswer
    answer: Answer
    per_token: float
    prompts: Sequence[str]


class MoreChecks:
    """The further checks of one gate run."""

    def __init__(
        self,
        plan: MorePlan,
        requests: Requests,
        subject: Subject,
        gpus: Callable[[], GpuMemory],
    ) -> None:
        self._plan = plan
        self._requests = requests
        self._subject = subject
        self._gpus = gpus
        self._server: Mapping[str, Any] = {}

    def run(self, add: Callable[[Check], bool], left: Callable[[], float], limit: float) -> None:
        """Make the checks in order; what is asked for and not made fails.

        Args:
            add: Takes each verdict.
            left: Seconds that remain for the gate; no request is begun without any.
            limit: Seconds that the whole gate has.
        """
        checks: list[tuple[str, Callable[[], Check]]] = [
            ("server_info", self._server_info),
            ("kv_tokens", self._kv_tokens),
            ("reasoning", self._reasoning),
            ("sampling", self._sampling),
            ("long_prompt", self._long_prompt),
            ("repeated_prompt", self._repeated_prompt),
            ("concurrency", self._concurrency),
            ("tool_call", self._tool_call),
            ("image", self._image),
            ("gpu_memory", self._gpu_memory),
        ]
        dead = ""
        for name, make in checks:
            left_out = f"not made after the failure of {dead}" if dead else self._left_out(name)
            if left_out:
                add(gate_more.skipped(name, left_out))
                continue
            over = left() <= 0 and name not in _WITHOUT_REQUEST
            if not add(no_time(name, limit) if over else make()):
                dead = name

    def _left_out(self, name: str) -> str:
        """Why a check does not apply or is not wanted; empty for one that has to be made."""
        plan, server, model = self._plan, self._server, self._subject.model
        no_long = (not plan.long_prompt_tokens, "health_gate_long_prompt_tokens is 0")
        reasons: dict[str, list[tuple[bool, str]]] = {
            "reasoning": [
                (not self._parser("reasoning_parser"), "the engine runs without a reasoning parser")
            ],
            "sampling": [(not plan.sampling, "health_gate_sampling is false")],
            "long_prompt": [no_long],
            "repeated_prompt": [
                no_long,
                (bool(server.get("disable_radix_cache")), "the engine runs without a prefix cache"),
            ],
            "concurrency": [
                (plan.concurrency < 2, f"health_gate_concurrency is {plan.concurrency}")
            ],
            "tool_call": [
                (
                    not self._parser("tool_call_parser"),
                    "the engine runs without a tool-call parser",
                ),
                (not plan.tool_call, "health_gate_tool_call is false"),
            ],
            "image": [
                (not model.get("has_image_understanding"), "the model takes no pictures"),
                (not plan.image, "health_gate_image is false"),
            ],
            "gpu_memory": [(not plan.gpu_free_mib, "health_gate_gpu_free_mib is 0")],
        }
        return next((why for applies, why in reasons.get(name, []) if applies), "")

    def _parser(self, name: str) -> str:
        return str(self._server.get(name) or self._subject.model.get(name) or "")

    def _server_info(self) -> Check:
        answer = self._requests.server_info()
        # It holds the API keys as well: what is read of it stays here.
        self._server = answer.body if isinstance(answer.body, dict) else {}
        return gate_more.judge_server_info(answer)

    def _kv_tokens(self) -> Check:
        return gate_more.judge_kv_tokens(self._server, self._plan.kv_tokens)

    def _reasoning(self) -> Check:
        answer = self._subject.answer
        if self._subject.question.prompt:  # the native interface has no parsers
            answer = self._requests.chat(QUESTION, _THOUGHT_TOKENS)
        return gate_more.judge_reasoning(answer)

    def _sampling(self) -> Check:
        answer, seconds = _timed(
            lambda: self._requests.generate(
                self._subject.prompts[0], _SHORT, ignore_eos=True, temperature=0.8
            )
        )
        return gate_more.judge_sampling(answer, seconds)

    def _padding(self) -> str:
        """As long as wanted and as fits before the known question and its whole answer."""
        server = self._server
        bounds = [self._plan.long_prompt_tokens]
        names = ("context_length", "max_req_input_len", "max_total_num_tokens")
        # The engine refuses what would not fit with a whole answer.
        room = _ROOM + self._subject.question.max_tokens
        bounds += [server[name] - room for name in names if isinstance(server.get(name), int)]
        return gate_more.filler(max(1, min(bounds)), self._subject.per_token)

    def _long(self) -> KnownAnswer:
        return gate_more.padded(self._subject.question, self._padding())

    def _ask(self, question: KnownAnswer) -> Answer:
        if question.prompt:
            return self._requests.generate(question.prompt, question.max_tokens, ignore_eos=False)
        return self._requests.chat(question.messages, question.max_tokens)

    def _long_prompt(self) -> Check:
        question = self._long()
        answer, seconds = _timed(lambda: self._ask(question))
        return gate_more.judge_long_prompt(answer, seconds, question)

    def _repeated_prompt(self) -> Check:
        question = self._long()
        answer, seconds = _timed(lambda: self._ask(question))
        return gate_more.judge_repeated_prompt(answer, seconds, question, self._counted(answer))

    def _counted(self, answer: Answer) -> Answer:
        """An answer that says how much of its prompt was cached: this one, or one of its own.

        The chat interface says so with `--enable-cache-report` alone, the native one always.
        """
        if gate_more.cached_tokens(answer) is not None or answer.status != _HTTP_OK:
            return answer
        once = self._requests.generate(self._padding(), _SHORT, ignore_eos=True)
        if once.status != _HTTP_OK:
            return once
        return self._requests.generate(self._padding(), _SHORT, ignore_eos=True)

    def _concurrency(self) -> Check:
        prompts = self._subject.prompts

        def one(number: int) -> Answer:
            text = f"{number}. {prompts[number % len(prompts)]}"
            return self._requests.generate(text, _SHORT, ignore_eos=True)

        wanted = self._plan.concurrency
        with ThreadPoolExecutor(max_workers=wanted) as pool:
            answers, seconds = _timed(lambda: list(pool.map(one, range(wanted))))
        return gate_more.judge_burst(answers, seconds)

    def _tool_call(self) -> Check:
        messages = [{"role": "user", "content": gate_more.TOOL_QUESTION}]
        return gate_more.judge_tool_call(
            self._requests.chat(messages, _TOOL_TOKENS, tools=[gate_more.TOOL])
        )

    def _image(self) -> Check:
        content = [
            {"type": "image_url", "image_url": {"url": gate_more.picture()}},
            {"type": "text", "text": "Which colour is this?"},
        ]
        answer, seconds = _timed(
            lambda: self._requests.chat([{"role": "user", "content": content}], _SHORT)
        )
        return gate_more.judge_image(answer, seconds)

    def _gpu_memory(self) -> Check:
        return judge_gpu_memory(self._gpus(), self._plan.gpu_free_mib)


def _timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    found = ask()
    return found, time.monotonic() - begun
