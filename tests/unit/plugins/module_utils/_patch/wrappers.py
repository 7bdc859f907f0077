# SPDX-License-Identifier: Apache-2.0
"""A wrapper class, the rule for it, and Python's own word on what is right."""

from __future__ import annotations

import ast
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import (
    apply_edits,
    reverse_edits,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DelegationRule,
    Patch,
    parse_method,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision

FILE = "srt/models/wrapper.py"
RULE = DelegationRule(
    "Wrapper", "inner", tuple(map(parse_method, ("first(ids=None)", "second()", "third(a, b)")))
)
NAMES = ("first", "second", "third")
ARGUMENTS: dict[str, tuple[object, ...]] = {"first": (7,), "second": (), "third": (1, 2)}

INIT = "    def __init__(self):\n        self.inner = make()\n"
HEAD = "class Wrapper:\n" + INIT
ALL_THREE = "".join(f"    def {name}(self, *a):\n        return '{name}'\n" for name in NAMES)


def judge(data: bytes, **others: str) -> Decision:
    files = {FILE: data, **{name: text.encode() for name, text in others.items()}}
    return decide(Patch("p", "t", FILE, RULE), files.get)


class Inner:
    """Answers every method with its name and arguments; has nothing else."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: ("inner", name, args)


def answers(data: bytes) -> dict[str, object]:
    """What an object of the class answers to each method, by running the module."""
    scope: dict[str, Any] = {"__name__": "wrapper", "make": Inner}
    exec(compile(data, FILE, "exec"), scope)  # noqa: S102 - written by this test
    wrapper = scope["Wrapper"]()
    found: dict[str, object] = {}
    for name in NAMES:
        member = getattr(wrapper, name, None)
        if callable(member):
            try:
                found[name] = member(*ARGUMENTS[name])
            except NotImplementedError:
                continue
    return found


def defined(data: bytes) -> list[str]:
    """The rule's methods as the class's own body defines them, in order."""
    return [
        item.name
        for node in ast.walk(ast.parse(data))
        if isinstance(node, ast.ClassDef) and node.name == "Wrapper"
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name in NAMES
    ]


def check(data: bytes) -> Decision:
    """Right or a conflict: what was there stays, what was missing reaches the inner object."""
    decision = judge(data)
    assert decision.reason
    assert decision.evidence
    if decision.state == "conflict":
        assert not decision.edits
        return decision
    before = answers(data)
    if decision.state == "upstream":
        assert sorted(before) == sorted(NAMES)
        return decision
    assert decision.state == "needed"
    assert sorted(before) != sorted(NAMES)
    edited = apply_edits(data, decision.edits)
    for name, answer in answers(edited).items():
        assert answer == before.get(name, ("inner", name, ARGUMENTS[name]))
    assert sorted(answers(edited)) == sorted(NAMES)
    was, now = defined(data), defined(edited)
    assert now[: len(was)] == was
    assert not set(now[len(was) :]) & set(was), "a method is defined a second time"
    assert judge(edited).state == "upstream"
    assert apply_edits(edited, reverse_edits(decision.edits)) == data
    return decision
