# SPDX-License-Identifier: Apache-2.0
"""What the real engine wrote and answered; tests/recordings/engine/README.md says when and how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line, parse_lines
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer

FOLDER = Path(__file__).parents[4] / "recordings" / "engine"


def raw_journal(name: str) -> list[str]:
    """Lines of `journalctl -o json`."""
    return (FOLDER / f"{name}.jsonl").read_text().splitlines()


def journal(name: str) -> list[Line]:
    """The same, parsed."""
    return parse_lines(raw_journal(name))


def exchanges(name: str) -> dict[str, dict[str, Any]]:
    """Requests and answers of one recorded engine, by the recording's names."""
    recorded: dict[str, dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return recorded


def answer(name: str, exchange: str) -> Answer:
    """One recorded answer."""
    one = exchanges(name)[exchange]
    return Answer(status=one["status"], body=one["body"])


def recorded(name: str) -> list[Answer]:
    """The answers of `/generate` in a recording."""
    return [answer(name, one) for one in exchanges(name) if one.startswith("generate")]


def generated(meta: dict[str, Any], tokens: int = 8) -> Answer:
    """An answer of `/generate` in the engine's form, with figures of a test's own."""
    return Answer(200, {"text": "x", "meta_info": {"completion_tokens": tokens, **meta}})
