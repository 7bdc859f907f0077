# SPDX-License-Identifier: Apache-2.0
"""Makes the gate's requests, one after the other, and hands their answers to the judges."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.accept_length import (
    PROMPTS,
    Problem,
    Speculation,
    judge_accept_length,
    next_length,
    out_of_time,
    speculation,
    without_steps,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.asking import (
    QUESTION,
    SHORT,
    request,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    FAIL,
    WARN,
    Check,
    KnownAnswer,
    judge_completion,
    judge_model_info,
    judge_port,
    judge_readiness,
    judge_unit,
    perhaps_slow,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate_more import (
    characters_a_token,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gpu_memory import GpuMemory
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import (
    Answer,
    Ask,
    Readiness,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._gate_more_run import (
    MoreChecks,
    MorePlan,
    Subject,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import Signature
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState
    from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
    from ansible_collections.sm120.sglang.plugins.plugin_utils._unit_reader import UnitReader


@dataclass(frozen=True)
class GatePlan:
    """What the gate checks and within which limits; times in seconds."""

    known_answer: KnownAnswer | None = None
    model: str = ""
    speculative: bool = True
    min_verify_steps: int = 40
    warn_below: float = 2.0
    fail_below: float = 1.2
    request_timeout: float = 300.0
    timeout: float = 1200.0
    quick: bool = False
    more: MorePlan | None = None
    prompts: Sequence[str] = PROMPTS


@dataclass
class GateRun:
    """One run of the gate over one engine."""

    reader: UnitReader
    http: EngineHTTP
    plan: GatePlan
    say: Callable[[float, str], None]
    remedies: Sequence[Signature] = ()
    checks: list[Check] = field(default_factory=list)
    measured: Speculation = field(default_factory=Speculation)
    first: UnitState | None = None
    gpus: Callable[[], GpuMemory] = GpuMemory
    answer: Answer = field(default_factory=Answer)
    model_info: dict[str, Any] = field(default_factory=dict)
    _begun: float = field(default_factory=time.monotonic)
    _unanswered: str = ""
    _late: bool = False

    @property
    def seconds(self) -> float:
        """Time since the run began."""
        return time.monotonic() - self._begun

    def run(self) -> list[Check]:
        """Make the checks; later ones are left out once the engine cannot answer them.

        Raises:
            NodeError: the node cannot be asked.
        """
        self.first = self.reader.state()
        alive = (
            self._add(self._explained(judge_unit(self.first), self.first))
            and self._model_info()
            and self._readiness()
            and self._completion()
        )
        if alive and not self.plan.quick:
            per_token = self._accept_length() if self.plan.speculative else 0.0
            if self.plan.more is not None and self._passes():
                self._more(self.plan.more, per_token)
        if not self.plan.quick or not alive:
            self._still_alive()
        return self.checks

    def _passes(self) -> bool:
        return all(check.verdict != FAIL for check in self.checks)

    def _more(self, plan: MorePlan, per_token: float) -> None:
        """The further checks, which an engine that failed already need not be asked."""
        subject = Subject(
            model=self.model_info,
            question=self.plan.known_answer or KnownAnswer(messages=QUESTION, max_tokens=SHORT),
            answer=self.answer,
            per_token=per_token,
            prompts=self.plan.prompts,
        )
        checks = MoreChecks(plan, self, subject, self.gpus)
        checks.run(self._add, lambda: self.plan.timeout - self.seconds, self.plan.timeout)

    def _heard(self, answer: Answer) -> Answer:
        """Note that a request came to nothing: its check may be no word about the engine."""
        if answer.status == 0:
            self._unanswered = answer.error
        return answer

    def _add(self, check: Check) -> bool:
        unanswered, self._unanswered = self._unanswered, ""
        late, self._late = self._late, False
        if unanswered and check.verdict in (WARN, FAIL):
            self._reach(check.id, unanswered)
        if late and check.verdict == FAIL:
            check = perhaps_slow(check, self.plan.request_timeout)
        self.checks.append(check)
        self.say(self.seconds, str(check))
        return check.verdict != FAIL

    def _reach(self, name: str, unanswered: str) -> None:
        """See that the node can be asked; a request ends in the same way when its line is cut.

        Raises:
            NodeError: it cannot, so nobody knows what the engine would have answered.
        """
        try:
            self.reader.state()
        except NodeError as error:
            self.say(self.seconds, f"NO VERDICT {name}: {unanswered}; {error}")
            raise NodeError(f"{error}. Not judged: {name} ({unanswered})") from error

    def _model_info(self) -> bool:
        ask = Ask.MODEL_INFO
        answer = self._heard(self.http.get(ask.value, ask.timeout))
        self.model_info = answer.body if isinstance(answer.body, dict) else {}
        port = judge_port(answer, self.http.where)
        return (port is None or self._add(port)) and self._add(judge_model_info(answer))

    def _readiness(self) -> bool:
        readiness = Readiness(model_info=self.model_info)
        while True:
            ask, _when = readiness.next(time.monotonic())
            begun = time.monotonic()
            answer = self._heard(self.http.get(ask.value, ask.timeout))
            took = time.monotonic() - begun
            readiness.answered(ask, answer)
            if ask is Ask.READY and not readiness.has_ready:
                continue  # an older release: /health it is
            return self._add(judge_readiness(ask.value, answer, took))

    def _completion(self) -> bool:
        """Returns whether the engine answers at all; a wrong answer is no reason to stop."""
        wanted = self.plan.known_answer
        begun = time.monotonic()
        path, body = request(wanted, self.plan.model or self._served_name())
        self.answer = answer = self._post(path, body)
        self._add(judge_completion(answer, time.monotonic() - begun, wanted))
        return answer.status != 0

    def _accept_length(self) -> float:
        """Returns the characters that a token of the prompts has, 0.0 when nobody says."""
        plan = self.plan
        per_token = 0.0
        answers: list[Answer] = []
        problem: Problem | None = None
        while self.measured.steps < plan.min_verify_steps:
            if self.seconds >= plan.timeout:
                problem = out_of_time(plan.timeout)
                break
            steps = self.measured.steps
            length = next_length(self.measured, plan.min_verify_steps)
            prompt = plan.prompts[len(answers) % len(plan.prompts)]
            answer = self.generate(prompt, length, ignore_eos=True)
            answers.append(answer)
            per_token = characters_a_token(prompt, answer) or per_token
            self.measured = speculation(answers)
            if self.measured.steps == steps:
                problem = without_steps(answer)
                break
        self._add(
            judge_accept_length(
                self.measured,
                min_steps=plan.min_verify_steps,
                warn=plan.warn_below,
                fail=plan.fail_below,
                problem=problem,
            )
        )
        return per_token

    def _still_alive(self) -> None:
        """The unit survived its checks; the first unit check is replaced by the final one."""
        state = self.reader.state()
        check = self._explained(judge_unit(state, self.first), state)
        if check != self.checks[0]:
            self.checks[0] = check
            self.say(self.seconds, str(check))

    def _explained(self, check: Check, state: UnitState) -> Check:
        """A dead unit's check with the cause from its journal."""
        if check.verdict != FAIL:
            return check
        died = self.first.invocation_id if self.first is not None else state.invocation_id
        cause, _lines = self.reader.explain(died, state, self.remedies)
        return replace(
            check,
            evidence=f"{check.evidence}; cause: {cause}",
            remedy=cause.remedy or check.remedy,
        )

    def chat(self, messages: Sequence[Any], length: int, **more: Any) -> Answer:
        """One chat completion of at most `length` tokens."""
        body = {
            "model": self.plan.model or self._served_name(),
            "messages": list(messages),
            "max_tokens": length,
            "temperature": 0,
            **more,
        }
        return self._post("/v1/chat/completions", body)

    def generate(
        self,
        prompt: str,
        length: int,
        *,
        ignore_eos: bool,
        temperature: float = 0,
    ) -> Answer:
        """One native generation of at most `length` tokens."""
        body = {
            "text": prompt,
            "sampling_params": {
                "temperature": temperature,
                "max_new_tokens": length,
                "ignore_eos": ignore_eos,
            },
        }
        return self._post("/generate", body)

    def server_info(self) -> Answer:
        """What the engine says of its arguments and its scheduler."""
        return self._waited(self.http.get("/server_info", self.plan.request_timeout))

    def _post(self, path: str, body: dict[str, Any]) -> Answer:
        return self._waited(self.http.post(path, body, self.plan.request_timeout))

    def _waited(self, answer: Answer) -> Answer:
        if answer.late:  # several may be waited for at once
            self._late = True
        return self._heard(answer)

    def _served_name(self) -> str:
        # /model_info names it from about 0.5.20; before that the path serves as the name.
        name = self.model_info.get("served_model_name") or self.model_info.get("model_path")
        return name if isinstance(name, str) else "default"
