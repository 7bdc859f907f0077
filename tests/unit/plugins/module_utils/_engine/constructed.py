# SPDX-License-Identifier: Apache-2.0
"""Journals and unit states that a test makes up: deaths that cannot be provoked at will."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

OUTSIDE = "killed-from-outside"


def lines(text: str, pid: int = 10) -> list[Line]:
    return [Line(line, pid=pid) for line in text.strip("\n").splitlines()]


def traceback(error: str, *, mark: str = "", line: int = 7) -> str:
    frame = f'  File "/v/sglang/srt/a.py", line {line}, in f'
    return f"{mark}Traceback (most recent call last):\n{frame}\n    f()\n{error}"


STAMP = "[2026-11-29 16:50:58 TP1] "


def unit(**values: object) -> UnitState:
    base: dict[str, object] = {
        "load_state": "loaded",
        "active": "failed",
        "sub": "failed",
        "invocation_id": "1",
    }
    return UnitState("sglang.service", **{**base, **values})  # type: ignore[arg-type]


def manager(*texts: str) -> list[Line]:
    return [Line(text, pid=1, manager=True) for text in texts]
