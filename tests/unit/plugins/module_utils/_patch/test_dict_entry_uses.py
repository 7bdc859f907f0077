# SPDX-License-Identifier: Apache-2.0
"""Ways to change a table behind the reader's back: refused, or followed to the right answer.

Every module here runs; Python itself says what the table holds before and after an edit.
"""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._patch.cases import read_cases
from tests.unit.plugins.module_utils._patch.small_tables import IN_CLASS, RULE, check, judge


@pytest.mark.parametrize(("text", "state"), read_cases("table_cases.txt"))
def test_what_touches_the_table_is_told_right(text: str, state: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        decision = check(text.encode(), IN_CLASS if "class K" in text else RULE)
    assert decision.state == state, decision
    assert decision.reason
    assert decision.evidence
    assert bool(decision.edits) == (state == "needed")


TABLES = [
    "T = {10: [6], 9: [4]}",
    "S = T = {10: [6]}",
    "T: dict[int, list[int]] = {10: [6]}",
    "BASE = {9: [4]}\nT = {**BASE, 10: [6]}",
    "KEYS = (9, 10)\nT = {k: [6] for k in KEYS}",
    "KEYS = [9, 10]\nT = dict(zip(KEYS, ([4], [6])))",
    "BASE = {9: [4]}\nT = BASE | {10: [6]}",
    "T = dict({10: [6]})\nT.update({9: [4]})",
]
# One more statement before or behind the table: most change something, some only read.
STATEMENTS = [
    "{0}[12] = [8]", "{0}.update({{12: [8]}})", "alias = {0}", "alias[12] = [8]",
    "def f():\n    {0}[12] = [8]", "f()", "def g(t={0}):\n    t[12] = [8]", "g()",
    "class A:\n    {0}[12] = [8]", "class B:\n    t = {0}", "B.t[12] = [8]",
    "h = lambda: {0}.setdefault(12, [8])", "h()", "for derived in {0}:\n    pass",
    "for k in (12,):\n    {0}[k] = [8]", "if 12 not in {0}:\n    {0}[12] = [8]",
    "derived = len({0})", "derived = sorted({0}, key=repr)", "def r(k):\n    return {0}.get(k)",
    "def s(k):\n    return {0}[k] if k in {0} else None", "globals()['{0}'][12] = [8]",
    "copy = dict({0})", "copy[12] = [8]", "derived = [*{0}]", "def q():\n    return {0}",
    "q()[12] = [8]", "try:\n    {0}[12] = [8]\nexcept TypeError:\n    pass",
    "assert 10 in {0} or True", "del {0}[12]", "{0}.pop(12, None)", "{0} = {{10: [6]}}",
    "exec('{0}[12] = [8]')", "KEYS = (12,)", "x, {0}[12] = 1, [8]", "print({0})",
]  # fmt: skip


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """A table between statements that touch it, or another name."""
    statement = st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(["T", "T", "BASE", "S"]))
    before, after = (draw(st.lists(statement, max_size=size)) for size in (1, 3))
    lines = [text.format(name) for text, name in before]
    lines.append(draw(st.sampled_from(TABLES)))
    lines += [text.format(name) for text, name in after]
    return ("\n".join(lines) + "\n").encode()


@settings(max_examples=300)
@given(modules())
def test_a_table_among_other_statements_is_edited_right_or_not_at_all(data: bytes) -> None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(data, "tables", "exec"), {})  # noqa: S102 - written by this test
    except Exception:
        judge(data, RULE)  # a module that cannot be imported; any word on it will do
        return
    with contextlib.redirect_stdout(io.StringIO()):
        check(data, RULE)
