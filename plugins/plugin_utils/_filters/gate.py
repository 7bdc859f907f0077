# SPDX-License-Identifier: Apache-2.0
"""Filters: what is wrong with what the gate would be asked, before anything is stopped for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    ANSWER_KEYS,
    known_answer,
    limits_problem,
)


def gate_problems(
    answer: Mapping[str, Any], warn: float | str, fail: float | str, steps: int | str
) -> list[str]:
    """Judge the gate's variables.

    Args:
        answer: `health_gate_known_answer`.
        warn: `health_gate_accept_length_warn`.
        fail: `health_gate_accept_length_fail`.
        steps: `health_gate_verify_steps`.

    Returns:
        Sentences, each with the variable's name; none where the gate can ask with them.
    """
    found = []
    if strange := sorted(set(answer) - set(ANSWER_KEYS)):
        found.append(
            f"health_gate_known_answer: {', '.join(strange)} is not among {', '.join(ANSWER_KEYS)}"
        )
    try:
        known_answer(answer)
    except (ValueError, TypeError) as error:
        found.append(f"health_gate_known_answer: {error}")
    if problem := limits_problem(float(warn), float(fail), int(steps)):
        found.append(f"health_gate_accept_length_fail, health_gate_verify_steps: {problem}")
    return found


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {"gate_problems": gate_problems}
