# SPDX-License-Identifier: Apache-2.0
"""The accept length of speculative decoding: how it is measured, and whether it is enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    FAIL,
    MORE_TIME,
    OK,
    WARN,
    Check,
    completion_tokens,
    explain,
    time_is_over,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

_HTTP_OK = 200

# Per request: draft tokens that were accepted, without the bonus token of each verify step.
# 0.5.9 tokenizer_manager.py:1855 and 0.5.10.post1 :2899; then 0.5.12.post1 :3024 to 0.5.23 :4249.
ACCEPTED = ("spec_accept_token_num", "spec_num_correct_drafts", "spec_accepted_drafts")
"""Names of the accepted drafts of a request: up to 0.5.10.post1, from 0.5.12 on, and 0.5.11's."""
VERIFIED = "spec_verify_ct"

PROMPTS = (
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "Once upon a time, in a small village by the sea, there lived an old fisherman who",
    '{"name": "Ada Lovelace", "born": 1815, "field": "mathematics"}\n{"name": "Alan Turing",',
)
"""What the accept length is measured on: plain prose, code, a tale, structured text."""


@dataclass(frozen=True)
class Speculation:
    """Sums over requests: draft tokens accepted and verify steps; `reported` counts requests."""

    accepted: int = 0
    steps: int = 0
    tokens: int = 0
    requests: int = 0
    reported: int = 0

    @property
    def accept_length(self) -> float | None:
        """Tokens per verify step, bonus token included, or None without a verify step.

        The engine's own `spec_accept_length` divides all completion tokens by the steps, the
        first one from the prefill included: 1.14 where not one draft token was accepted.
        """
        return 1 + self.accepted / self.steps if self.steps else None


def speculation(answers: Iterable[Answer]) -> Speculation:
    """Add up what `/generate` answers say about speculation in their `meta_info`."""
    accepted = steps = tokens = requests = reported = 0
    for answer in answers:
        body = answer.body if isinstance(answer.body, dict) else {}
        meta = body.get("meta_info")
        if not isinstance(meta, dict):
            continue
        requests += 1
        tokens += completion_tokens(answer)
        drafts = next((meta[name] for name in ACCEPTED if name in meta), None)
        if drafts is None or not meta.get(VERIFIED):
            continue
        reported += 1
        accepted += int(drafts)
        steps += int(meta[VERIFIED])
    return Speculation(accepted, steps, tokens, requests, reported)


def next_length(so_far: Speculation, min_steps: int, longest: int = 128) -> int:
    """How many tokens to ask for next, so that the wanted verify steps are soon reached."""
    missing = max(1, min_steps - so_far.steps)
    length = so_far.accept_length or 1.0
    return max(8, min(longest, round(missing * length) + 1))


@dataclass(frozen=True)
class Problem:
    """Why no more requests were made, and what to do about it."""

    text: str
    remedy: str


def out_of_time(limit: float) -> Problem:
    """The gate's time, in seconds, is over."""
    fewer = "and health_gate_verify_steps asks for fewer verify steps"
    return Problem(time_is_over(limit), f"{MORE_TIME}, {fewer}")


def without_steps(answer: Answer) -> Problem:
    """A request that brought no verify step: it failed, or nothing speculates."""
    if answer.status != _HTTP_OK:
        return Problem(explain(answer), "requests fail: the engine's journal has the reason")
    return Problem(
        f"no speculation figures in an answer of {completion_tokens(answer)} tokens",
        "speculation is off: check the engine's speculative arguments and its journal",
    )


def judge_accept_length(
    measured: Speculation,
    *,
    min_steps: int,
    warn: float,
    fail: float,
    problem: Problem | None = None,
) -> Check:
    """The accept length is above its floors, over enough verify steps to mean something.

    Args:
        measured: the sums over all requests.
        min_steps: verify steps below which no figure is trusted: it fails.
        warn: floor below which the check warns.
        fail: floor below which it fails.
        problem: why no more requests were made, where there are too few steps.
    """
    length = measured.accept_length
    problem = problem or without_steps(Answer(_HTTP_OK))
    if length is None:
        asked = f"{measured.requests} requests, {measured.tokens} tokens"
        return Check(
            "accept_length", FAIL, "absent", fail, f"{problem.text}; {asked}", problem.remedy
        )
    value = round(length, 2)
    evidence = (
        f"{measured.accepted} draft tokens accepted in {measured.steps} verify steps "
        f"({measured.requests} requests)"
    )
    if measured.steps < min_steps:
        few = f"only {evidence}, {min_steps} are wanted; {problem.text}"
        return Check("accept_length", FAIL, value, fail, few, problem.remedy)
    if length < fail:
        return Check(
            "accept_length",
            FAIL,
            value,
            fail,
            evidence,
            "the draft does not predict this target: check the pairing of draft and target "
            "(revision, auxiliary layers) and the algorithm (EAGLE3 for an EAGLE-3 draft)",
        )
    if length < warn:
        return Check(
            "accept_length",
            WARN,
            value,
            warn,
            evidence,
            "the draft predicts little: speculation may cost more than it gains; measure both",
        )
    return Check("accept_length", OK, value, fail, evidence)
