# SPDX-License-Identifier: Apache-2.0
"""Render verdicts for people and for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.advice import advise
from ansible_collections.sm120.sglang.plugins.module_utils._host.judge import worst

FORMAT = 1
EXIT = {"ok": 0, "warn": 1, "fail": 2}
_MARKS = {"ok": "ok", "warn": "WARN", "fail": "FAIL"}
_WIDTH = 100
_INDENT = 29


def table(name: str, verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Render one node's verdicts: failures first, then warnings, then the rest.

    Args:
        name: The node.
        verdicts: Its verdicts.

    Returns:
        Lines of at most 100 characters.
    """
    order = {"fail": 0, "warn": 1, "ok": 2}
    counts = {key: sum(v["verdict"] == key for v in verdicts) for key in order}
    lines = [f"{name}: " + ", ".join(f"{count} {key}" for key, count in counts.items())]
    for entry in sorted(verdicts, key=lambda v: order[v["verdict"]]):
        mark = "accepted" if entry["accepted"] else _MARKS[entry["verdict"]]
        lines += _row(f"  {mark:<9}{entry['id']:<{_INDENT - 11}}", entry["read"])
        if entry["verdict"] != "ok":
            lines += _row(" " * (_INDENT - 9) + "why:     ", entry["why"])
            lines += _row(" " * (_INDENT - 9) + "remedy:  ", entry["remedy"])
    advice = advise(verdicts)
    if advice:
        lines.append("  what the role cuda_stack would cure, with a reboot that you allow:")
        lines += [f"    {variable}: {json.dumps(value)}" for variable, value in advice.items()]
    return "\n".join(lines)


def _row(head: str, text: str) -> list[str]:
    lines = textwrap.wrap(
        text, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False
    ) or [""]
    first = head if len(head) <= _INDENT else f"{head.rstrip()} "
    return [f"{first}{lines[0]}", *(" " * _INDENT + line for line in lines[1:])]


def report(nodes: Mapping[str, Iterable[Mapping[str, Any]]], written: str) -> dict[str, Any]:
    """Assemble the report of all nodes.

    Args:
        nodes: Node to its verdicts.
        written: When, ISO 8601.

    Returns:
        `format`, `written`, `worst`, `exit_code` (0 ok, 1 warnings, 2 failures), and `nodes`:
        node to `worst`, `verdicts` and `advice` (role variables that would cure it).
    """
    entries = {
        name: {"worst": worst(verdicts), "verdicts": verdicts, "advice": advise(verdicts)}
        for name, verdicts in ((name, list(found)) for name, found in nodes.items())
    }
    overall = worst({"verdict": entry["worst"]} for entry in entries.values())
    return {
        "format": FORMAT,
        "written": written,
        "worst": overall,
        "exit_code": EXIT[overall],
        "nodes": entries,
    }
