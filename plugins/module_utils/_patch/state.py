# SPDX-License-Identifier: Apache-2.0
"""The words a decision is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import Edit

State = Literal["needed", "applied", "upstream", "obsolete", "conflict", "absent"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class Decision:
    """What one rule means for one release.

    Attributes:
        state: one of `STATES`.
        reason: one sentence for a person.
        evidence: lines ``file:line what is there``.
        edits: byte edits that bring the behaviour; present for ``needed`` and ``obsolete``.
    """

    state: State
    reason: str
    evidence: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()


def conflict(reason: str, *evidence: str) -> Decision:
    """Refuse: the shape is not one that an edit is certain to fit."""
    return Decision("conflict", reason, evidence)
