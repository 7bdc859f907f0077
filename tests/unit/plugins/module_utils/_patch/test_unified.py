# SPDX-License-Identifier: Apache-2.0
"""Rule ``unified_diff``: exactly there, or not at all; difflib makes the diffs."""

from __future__ import annotations

import difflib

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import (
    apply_edits,
    reverse_edits,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import DiffRule, Patch
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision
from ansible_collections.sm120.sglang.plugins.module_utils._patch.unified import (
    DiffError,
    parse_diff,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

FILE = "srt/notes.txt"
LINES = st.lists(st.sampled_from(["a", "b", "c", "", " d", "ö", "+e", "-f", "@@ g"]), max_size=12)


def diff_of(old: list[str], new: list[str], context: int = 3) -> str:
    lines = list(difflib.unified_diff(old, new, "a/x", "b/x", n=context, lineterm=""))
    return "\n".join(lines) + "\n"


def judge(data: bytes, diff: str, file: str = FILE) -> Decision:
    return decide(Patch("p", "t", file, DiffRule(parse_diff(diff))), {file: data}.get)


def has_context(diff: str) -> bool:
    try:
        parse_diff(diff)
    except DiffError as error:
        assert "no context" in error.problem
        return False
    return True


def joined(lines: list[str], newline: str) -> bytes:
    return "".join(line + newline for line in lines).encode()


@settings(max_examples=300)
@given(LINES, LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.integers(0, 3))
def test_a_diff_leads_from_old_to_new_and_back(
    old: list[str], new: list[str], newline: str, context: int
) -> None:
    diff = diff_of(old, new, context)
    assume(old != new and has_context(diff))
    before, after = joined(old, newline), joined(new, newline)
    decision = judge(before, diff)
    if decision.state == "conflict":
        assert "both fit" in decision.reason
        return
    assert decision.state == "needed", decision.reason
    assert apply_edits(before, decision.edits) == after
    assert apply_edits(after, reverse_edits(decision.edits)) == before
    there = judge(after, diff)
    assert there.state == "upstream" or "both fit" in there.reason


@settings(max_examples=200)
@given(LINES, LINES, st.data())
def test_a_changed_file_is_refused(old: list[str], new: list[str], data: st.DataObject) -> None:
    diff = diff_of(old, new, context=12)
    assume(old != new and has_context(diff))
    at = data.draw(st.integers(0, len(old) - 1))
    moved = [*old[:at], "something else", *old[at:]]
    assert judge(joined(moved, "\n"), diff).state == "conflict"


PYTHON = ["a = 1", "b = [", "    2,", "]", "def f():", "    return a", "c = f()", "d = a + c"]


@settings(max_examples=200)
@given(st.integers(0, 7), st.lists(st.sampled_from(["x = 9", "# y", ""]), max_size=3), st.data())
def test_a_source_around_a_hunk_may_change_behind_it_only(
    at: int, more: list[str], data: st.DataObject
) -> None:
    """Python's own word: the one changed value is there, and everything else is as before."""
    new = [line.replace("a = 1", "a = 5") for line in PYTHON]
    diff = diff_of(PYTHON, new, context=1)
    moved = [*PYTHON[:at], *more, *PYTHON[at:]]
    newline = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    before = joined(moved, newline)
    decision = judge(before, diff, "srt/x.py")
    if moved[:2] != PYTHON[:2]:
        assert decision.state == "conflict"
        return
    try:
        compile(before, "x", "exec")
    except SyntaxError:
        assert decision.state == "conflict"
        return
    assert decision.state == "needed", decision.reason
    edited = apply_edits(before, decision.edits)
    assert edited == before.replace(b"a = 1", b"a = 5")
    scope: dict[str, object] = {}
    exec(compile(edited, "x", "exec"), scope)  # noqa: S102 - written by this test
    assert (scope["a"], scope["b"], scope["c"], scope["d"]) == (5, [2], 5, 10)


NEVER = "\\ No newline at end of file\n"


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        (b"a", f"@@ -1 +1 @@\n-a\n{NEVER}+b\n{NEVER}", b"b"),
        (b"a", f"@@ -1 +1 @@\n-a\n{NEVER}+a\n", b"a\n"),
        (b"a\n", f"@@ -1 +1 @@\n-a\n+a\n{NEVER}", b"a"),
        (b"a\nb\n", "@@ -1 +1,2 @@\n+x\n a\n", b"x\na\nb\n"),
        (b"a\nb\n", "@@ -1,2 +1 @@\n a\n-b\n", b"a\n"),
        (b"a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n", b"a\r\nx\r\nb\r\n"),
        (b"\xef\xbb\xbfa\nb\n", "@@ -1 +1 @@\n-a\n+x\n", b"\xef\xbb\xbfx\nb\n"),
        (
            b"# coding: latin-1\n\xe9\n",
            "@@ -2 +2 @@\n-\u00e9\n+\u00e8\n",
            b"# coding: latin-1\n\xe8\n",
        ),
        (b"a\n\nb\n", "@@ -1,3 +1,4 @@\n a\n\n b\n+c\n", b"a\n\nb\nc\n"),
        (b"a\nb\nc\n", "@@ -1 +1 @@\n-a\n+x\n@@ -3 +3 @@\n-c\n+z\n", b"x\nb\nz\n"),
    ],
)  # fmt: skip
def test_edges(before: bytes, diff: str, after: bytes) -> None:
    decision = judge(before, diff)
    assert decision.state == "needed", decision.reason
    assert apply_edits(before, decision.edits) == after
    assert judge(after, diff).state == "upstream"


@pytest.mark.parametrize(
    ("data", "diff", "evidence"),
    [
        (b"x\n", "@@ -1 +1 @@\n-a\n+b\n", f"{FILE}:1 expected 'a', found 'x'"),
        (b"z\na\n", "@@ -1 +1 @@\n-a\n+b\n", f"{FILE}:1 expected 'a', found 'z'"),
        (b"a \n", "@@ -1 +1 @@\n-a\n+b\n", f"{FILE}:1 expected 'a', found 'a '"),
        (b"", "@@ -1 +1 @@\n-a\n+b\n", f"{FILE}:1 expected 'a', found the end of the file"),
        (b"a\n", "@@ -7 +7 @@\n-a\n+b\n", f"{FILE}:7 expected 'a', found the end of the file"),
        (b"a", "@@ -1 +1 @@\n-a\n+b\n", f"{FILE}:1 newline at the end of the file"),
        (b"c1\nc1\nc1\n", "@@ -1,2 +1,3 @@\n c1\n+c1\n c1\n", f"{FILE}:1"),
        (b"a\nb\nc\n", "@@ -1,2 +1,3 @@\n a\n b\n+x\n", f"{FILE}:2 expected the end of the file"),
        (b"\xff\n", "@@ -1 +1 @@\n-a\n+b\n", FILE),
    ],
    ids=[
        "other",
        "offset",
        "space",
        "empty",
        "short",
        "newline",
        "both fit",
        "not the end",
        "bad bytes",
    ],
)
def test_what_does_not_fit_exactly_is_refused(data: bytes, diff: str, evidence: str) -> None:
    decision = judge(data, diff)
    assert decision.state == "conflict"
    assert decision.evidence[0].startswith(evidence), decision


def test_a_diff_that_breaks_python_is_refused() -> None:
    decision = judge(b"a = 1\n", "@@ -1 +1 @@\n-a = 1\n+a = (\n", "srt/x.py")
    assert decision.state == "conflict"
    assert "does not compile" in decision.reason


def test_a_missing_file_is_absent() -> None:
    patch = Patch("p", "t", "srt/gone.py", DiffRule(parse_diff("@@ -1 +1 @@\n-a\n+b\n")))
    assert decide(patch, lambda _path: None).state == "absent"
