# SPDX-License-Identifier: Apache-2.0
"""What the inventory says of speculation: on, off, or whatever was measured here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import plan
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decide import (
    decide_speculation,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decode import SchemaError
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    from_json,
)

_ON, _OFF = ("on", "true", "yes"), ("off", "false", "no")


def choose(
    wanted: object, configured: Mapping[str, Any] | None, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Decide whether to speculate, and how.

    Args:
        wanted: `on`, `off` or `auto`; YAML makes booleans of the first two.
        configured: The draft's settings in the inventory; None without a draft model.
        known: `node`, `profile`, `margin`, `accept_meaningless`, `fingerprint` (of the stack that
            is to serve; empty before the node is read) and `results` (stored documents).

    Returns:
        `on`, `draft` (`algorithm`, `num_steps`, `eagle_topk`, `num_draft_tokens`; empty when off),
        `measured` (whether a result decided) and `reason`, one line.

    Raises:
        plan.PlanError: The settings cannot be.
    """
    if configured is None:
        return _answer(None, False, "speculation is off: there is no draft model")
    setting = plan.draft_setting(configured)
    draft = setting.draft
    word = str(wanted).strip().lower()
    if word in _ON:
        return _answer(draft, False, f"speculation is on ({setting.label}): engine_speculation")
    if word in _OFF:
        return _answer(None, False, "speculation is off: engine_speculation")
    if not known["fingerprint"]:
        return _answer(draft, False, "speculation is on until the node is read")
    decision = decide_speculation(
        documents(known["results"]),
        known["profile"],
        float(known["margin"]),
        node=known["node"],
        fingerprint=known["fingerprint"],
        configured=draft,
        accept_meaningless=bool(known["accept_meaningless"]),
    )
    return _answer(
        decision.draft if decision.speculation else None, decision.measured, decision.reason
    )


def _answer(draft: Any, measured: bool, reason: str) -> dict[str, Any]:
    return {
        "on": draft is not None,
        "draft": asdict(draft) if draft is not None else {},
        "measured": measured,
        "reason": reason,
    }


def documents(results: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Those of this schema; a later version's, or a damaged one, decides nothing."""
    return [found for result in results if (found := _document(result)) is not None]


def _document(result: Mapping[str, Any]) -> Document | None:
    try:
        return from_json(result)
    except SchemaError:
        return None
