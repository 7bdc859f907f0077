# SPDX-License-Identifier: Apache-2.0
"""A module with a table, the rule for it, and Python's own word on what is right."""

from __future__ import annotations

from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import (
    apply_edits,
    reverse_edits,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DictEntryRule,
    Patch,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision

FILE = "srt/tables.py"
RULE = DictEntryRule("T", 12, like=10, has_like=True, value="[8]")
IN_CLASS = DictEntryRule("K.T", 12, value="[8]")


def judge(data: bytes, rule: DictEntryRule = RULE, **others: str) -> Decision:
    files = {FILE: data, **{name: text.encode() for name, text in others.items()}}
    return decide(Patch("p", "t", FILE, rule), files.get)


def table_of(data: bytes, rule: DictEntryRule) -> tuple[Any, dict[str, Any]]:
    """The table as Python builds it, and the rest of the module."""
    scope: dict[str, Any] = {"__name__": "tables"}
    exec(compile(data, FILE, "exec"), scope)  # noqa: S102 - written by this test
    value: Any = scope
    for part in rule.table.split("."):
        value = value[part] if isinstance(value, dict) and value is scope else getattr(value, part)
    rest = {
        name: item
        for name, item in scope.items()
        if not name.startswith(("__", "derived")) and isinstance(item, (int, str, list, tuple))
    }
    return value, rest


def check(data: bytes, rule: DictEntryRule, wanted: object = None) -> Decision:
    """Right or a conflict: what the decision says is what Python does."""
    decision = judge(data, rule)
    assert decision.reason
    assert decision.evidence
    if decision.state == "conflict":
        assert not decision.edits
        return decision
    table, rest = table_of(data, rule)
    if decision.state == "upstream":
        assert rule.key in table
        assert not decision.edits
        return decision
    assert decision.state in {"needed", "obsolete"}
    assert rule.key not in table
    edited = apply_edits(data, decision.edits)
    after, rest_after = table_of(edited, rule)
    assert rest_after == rest
    assert {key: after[key] for key in after if key != rule.key} == dict(table)
    assert type(after) is type(table)
    if wanted is not None:
        assert after[rule.key] == wanted
        assert type(after[rule.key]) is type(wanted)
    assert judge(edited, rule).state == "upstream"
    assert apply_edits(edited, reverse_edits(decision.edits)) == data
    return decision
