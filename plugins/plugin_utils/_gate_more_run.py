# SPDX-License-Identifier: Apache-2.0
"""Makes the requests of the gate's further checks, one check after the other, in bounded time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ansible_collections.sm120.sglang.plugins.module_utils._engine import gate_more
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    WARN,
    Check,
    KnownAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
    from ansible_collections.sm120.sglang.plugins.module_utils._node.processes import Gpu

_SHORT = 8
_TOOL_TOKENS = 512
_ROOM = 256  # tokens of the context that stay for the chat template


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

    def chat(self, messages: Sequence[Any], length: int, **more: Any) -> Answer:
        """One chat completion."""

    def generate(
        self, prompt: str, length: int, *, ignore_eos: bool, temperature: float = 0
    ) -> Answer:
        """One native generation."""


@dataclass(frozen=True)
class Subject:
    """What the checks before learned of the engine."""

    server: Mapping[str, Any]
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
        gpus: Callable[[], Sequence[Gpu]],
    ) -> None:
        self._plan = plan
        self._requests = requests
        self._subject = subject
        self._gpus = gpus

    def run(self, add: Callable[[Check], bool], left: Callable[[], float]) -> None:
        """Make the checks in order.

        Args:
            add: Takes each verdict.
            left: Seconds that remain for the gate; a check is not begun without any.
        """
        checks: list[tuple[str, Callable[[], Check]]] = [
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
            if dead:
                add(gate_more.skipped(name, f"not made after the failure of {dead}"))
            elif left() <= 0:
                add(Check(name, WARN, evidence="not made: the gate's time is over"))
            elif not add(make()):
                dead = name

    def _kv_tokens(self) -> Check:
        return gate_more.judge_kv_tokens(self._subject.server, self._plan.kv_tokens)

    def _reasoning(self) -> Check:
        if not self._parser("reasoning_parser"):
            return gate_more.skipped("reasoning", "the engine runs without a reasoning parser")
        return gate_more.judge_reasoning(self._subject.answer)

    def _parser(self, name: str) -> str:
        return str(self._subject.server.get(name) or self._subject.model.get(name) or "")

    def _sampling(self) -> Check:
        if not self._plan.sampling:
            return gate_more.skipped("sampling", "health_gate_sampling is false")
        answer, seconds = _timed(
            lambda: self._requests.generate(
                self._subject.prompts[0], _SHORT, ignore_eos=True, temperature=0.8
            )
        )
        return gate_more.judge_sampling(answer, seconds)

    def _long(self) -> KnownAnswer:
        """The known question behind padding, as long as wanted and as fits."""
        server = self._subject.server
        bounds = [self._plan.long_prompt_tokens]
        names = ("context_length", "max_req_input_len", "max_total_num_tokens")
        question = self._subject.question
        # The engine refuses what would not fit with a whole answer.
        room = _ROOM + question.max_tokens
        bounds += [server[name] - room for name in names if isinstance(server.get(name), int)]
        return gate_more.padded(question, max(1, min(bounds)), self._subject.per_token)

    def _ask(self, question: KnownAnswer) -> Answer:
        if question.prompt:
            return self._requests.generate(question.prompt, question.max_tokens, ignore_eos=False)
        return self._requests.chat(question.messages, question.max_tokens)

    def _long_prompt(self) -> Check:
        if not self._plan.long_prompt_tokens:
            return gate_more.skipped("long_prompt", "health_gate_long_prompt_tokens is 0")
        question = self._long()
        answer, seconds = _timed(lambda: self._ask(question))
        return gate_more.judge_long_prompt(answer, seconds, question)

    def _repeated_prompt(self) -> Check:
        if not self._plan.long_prompt_tokens:
            return gate_more.skipped("repeated_prompt", "health_gate_long_prompt_tokens is 0")
        if self._subject.server.get("disable_radix_cache"):
            return gate_more.skipped("repeated_prompt", "the engine runs without a prefix cache")
        question = self._long()
        answer, seconds = _timed(lambda: self._ask(question))
        return gate_more.judge_long_prompt(answer, seconds, question, repeated=True)

    def _concurrency(self) -> Check:
        wanted = self._plan.concurrency
        if wanted < 2:
            return gate_more.skipped("concurrency", f"health_gate_concurrency is {wanted}")
        prompts = self._subject.prompts

        def one(number: int) -> Answer:
            text = f"{number}. {prompts[number % len(prompts)]}"
            return self._requests.generate(text, _SHORT, ignore_eos=True)

        with ThreadPoolExecutor(max_workers=wanted) as pool:
            answers, seconds = _timed(lambda: list(pool.map(one, range(wanted))))
        return gate_more.judge_burst(answers, seconds)

    def _tool_call(self) -> Check:
        if not self._parser("tool_call_parser"):
            return gate_more.skipped("tool_call", "the engine runs without a tool-call parser")
        if not self._plan.tool_call:
            return gate_more.skipped("tool_call", "health_gate_tool_call is false")
        messages = [{"role": "user", "content": gate_more.TOOL_QUESTION}]
        return gate_more.judge_tool_call(
            self._requests.chat(messages, _TOOL_TOKENS, tools=[gate_more.TOOL])
        )

    def _image(self) -> Check:
        if not self._subject.model.get("has_image_understanding"):
            return gate_more.skipped("image", "the model takes no pictures")
        if not self._plan.image:
            return gate_more.skipped("image", "health_gate_image is false")
        content = [
            {"type": "image_url", "image_url": {"url": gate_more.picture()}},
            {"type": "text", "text": "Which colour is this?"},
        ]
        answer, seconds = _timed(
            lambda: self._requests.chat([{"role": "user", "content": content}], _SHORT)
        )
        return gate_more.judge_image(answer, seconds)

    def _gpu_memory(self) -> Check:
        if not self._plan.gpu_free_mib:
            return gate_more.skipped("gpu_memory", "health_gate_gpu_free_mib is 0")
        return gate_more.judge_gpu_memory(self._gpus(), self._plan.gpu_free_mib)


def _timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    found = ask()
    return found, time.monotonic() - begun
