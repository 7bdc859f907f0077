# SPDX-License-Identifier: Apache-2.0
"""Sources that no release should have: every rule kind decides, quickly, and never crashes."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import (
    apply_edits,
    reverse_edits,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import DiffRule, Patch
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision
from ansible_collections.sm120.sglang.plugins.module_utils._patch.unified import parse_diff

from tests.unit.plugins.module_utils._patch import small_tables, wrappers

TABLE = b"T = {10: [6]}\n"
CLASS = wrappers.HEAD.encode()
DIFF = DiffRule(parse_diff("@@ -1 +1 @@\n-a = 1\n+a = 2\n"))


def nested(line: bytes, depth: int) -> bytes:
    """Blocks in blocks."""
    return b"".join(b" " * level + line for level in range(depth)) + b" " * depth + b"pass\n"


def doubling(first: bytes, more: bytes, times: int) -> bytes:
    """Names that each use the one before twice."""
    lines = [b"A0 = " + first]
    lines += [b"A%d = " % n + more.replace(b"B", b"A%d" % (n - 1)) for n in range(1, times)]
    return b"\n".join(lines) + b"\n"


BAD_BYTES = {
    "null": b"\0",
    "null in text": b"x = '\0'\n",
    "ten megabytes": b"x = 1\n" * (10 * 1024 * 1024 // 6),
    "one long line": b"x = '" + b"a" * 2 * 1024 * 1024 + b"'\n",
    "utf-16": "x = 1\n".encode("utf-16"),
    "utf-32": "x = 1\n".encode("utf-32"),
    "not utf-8": b"x = '\xff'\n",
    "overlong": b"x = '\xc0\xaf'\n",
    "surrogate": b"x = '\xed\xa0\x80'\n",
    "declared too late": b"#\n#\n# coding: latin-1\nx = '\xe9'\n",
    "two marks": b"\xef\xbb\xbf\xef\xbb\xbfx = 1\n",
    "control z": b"x = 1\n\x1a\n",
}
BAD_CODECS = (
    "rot13", "cp037", "mbcs", "hex", "zlib", "undefined", "idna", "punycode", "utf-7", "hz",
    "iso2022_kr", "klingon",
)  # fmt: skip
BAD_PYTHON = {
    "parentheses": b"x = " + b"(" * 1000 + b")" * 1000 + b"\n",
    "lists": b"x = " + b"[" * 1000 + b"]" * 1000 + b"\n",
    "ifs": nested(b"if 1:\n", 1000),
    "unclosed": b"x = (\n",
    "unterminated": b"x = '''\n",
    "a lone backslash": b"x = 1 \\",
    "an odd indent": b"  x = 1\n y = 2\n",
    "tabs and blanks": b"if 1:\n\tx = 1\n        y = 2\n",
    "Python 2": b"print 'a'\n",
}
NOT_COMPILED = {
    "return": b"return 1\n",
    "await": b"await x\n",
    "nonlocal": b"nonlocal x\n",
    "two arguments": b"def f(a, a): pass\n",
    "future": b"x = 1\nfrom __future__ import annotations\n",
    "global": b"def f():\n  x = 1\n  global x\n",
    "break": b"break\n",
}
DEEP = {
    "minus": b"x = " + b"-" * 5000 + b"1\n",
    "not": b"x = " + b"not " * 3000 + b"1\n",
    "plus": b"x = " + b"1+" * 9000 + b"1\n",
    "attributes": b"x = a" + b".b" * 9000 + b"\n",
    "calls": b"x = a" + b"()" * 5000 + b"\n",
    "subscripts": b"x = a" + b"[0]" * 5000 + b"\n",
    "elif": b"if a:\n  pass\n" + b"elif a:\n  pass\n" * 3000,
    "lambdas": b"x = " + b"lambda: " * 3000 + b"1\n",
    "conditions": b"x = " + b"1 if a else " * 3000 + b"1\n",
    "and": b"x = " + b" and ".join([b"a"] * 1000) + b"\n",
    "less": b"x = " + b" < ".join([b"a"] * 1000) + b"\n",
    "classes": nested(b"class A:\n", 99),
    "functions": nested(b"def f():\n", 99),
    "blocks": nested(b"if 1:\n", 99),
}
HEAVY = {
    "power": b"U = 2**2**2**2**2\n",
    "digits": b"U = " + b"9" * 4000 + b"\n",
    "text": b"U = 'a' * 10**9\n",
    "list": b"U = [0] * 10**9\n",
    "range": b"U = {k: 1 for k in range(10**9)}\n",
    "shift": b"U = 1 << 10**9\n",
    "percent": b"U = '%1000000000d' % 1\n",
    "doubled tuples": doubling(b"(1, 1)", b"(B, B)", 60) + b"U = {A59: 1}\n",
    "doubled tables": doubling(b"{1: 1}", b"{**B, **B}", 14) + b"U = {**A13}\n",
    "own value": b"U = U\n",
    "a circle": b"U = V\nV = U\n",
    "many entries": b"U = {\n" + b"".join(b"  %d: [6],\n" % n for n in range(1000)) + b"}\n",
    "a long union": b"U = " + b" | ".join([b"{10: [6]}"] * 400) + b"\n",
}
NEWER = {  # syntax of Python 3.12 to 3.14
    "type": b"type X = int\n",
    "type parameters": b"def f[U](x: U): pass\nclass A[U]: pass\n",
    "quotes in an f-string": b"x = f'{'a'}'\n",
    "except without parentheses": b"try:\n  pass\nexcept A, B:\n  pass\n",
    "template": b"x = t'a'\n",
}
FINE = {
    "empty": b"",
    "a mark alone": b"\xef\xbb\xbf",
    "blanks": b"   \n\t\n",
    "carriage returns": b"x = 1\ry = 2\r",
    "mixed line ends": b"x = 1\r\ny = 2\nz = 3\r",
    "separators in text": "x = '\u2028\x85'  # \u2028\x0b\n".encode(),
    "ligature": "\ufb01 = 1\n".encode(),
    "directions": "x = '\u202e'  # \u2066\n".encode(),
    "escapes": b"# coding: raw_unicode_escape\nx = '\xe9'\n",
    "vim": b"# vim: set fileencoding=latin-1 :\nx = '\xe9'\n",
    "declared and marked": b"\xef\xbb\xbf# coding: utf-8\nx = 1\n",
    "star except": b"try:\n  pass\nexcept ValueError:\n  pass\n",
}


def judged(data: bytes) -> list[Decision]:
    """What the three kinds of rules say of a source that also holds what they look for."""
    body = b"".join(b"    " + line + b"\n" for line in data.split(b"\n")[:500])
    diffed = {"srt/x.py": b"a = 1\n" + data}
    results = []
    for judge, source in (
        (small_tables.judge, data + TABLE),
        (wrappers.judge, data + CLASS),
        (wrappers.judge, CLASS + body),
        (lambda _data: decide(Patch("p", "t", "srt/x.py", DIFF), diffed.get), diffed["srt/x.py"]),
    ):
        decision = judge(source)
        assert decision.reason
        assert decision.evidence
        if decision.edits:
            edited = apply_edits(source, decision.edits)
            compile(edited, "x", "exec")
            assert apply_edits(edited, reverse_edits(decision.edits)) == source
        results.append(decision)
    return results


@pytest.mark.parametrize("data", [*BAD_BYTES.values(), *BAD_PYTHON.values()],
                         ids=[*BAD_BYTES, *BAD_PYTHON])  # fmt: skip
def test_what_is_no_source_is_a_conflict(data: bytes) -> None:
    table, wrapper, _, diff = judged(data)
    assert {table.state, wrapper.state, diff.state} == {"conflict"}


@pytest.mark.parametrize("codec", BAD_CODECS)
def test_codecs_that_are_none_or_cannot_be_edited(codec: str) -> None:
    table, wrapper, *_ = judged(f"# coding: {codec}\nx = 1\n".encode())
    assert {table.state, wrapper.state} == {"conflict"}
    # Pythons differ in what they notice first.
    reasons = ("encoding", "not valid", f"is not {codec}")
    assert any(reason in table.reason for reason in reasons)


@pytest.mark.parametrize("data", NOT_COMPILED.values(), ids=NOT_COMPILED)
def test_what_parses_and_does_not_compile_is_not_edited(data: bytes) -> None:
    table, wrapper, _, diff = judged(data)
    assert {table.state, wrapper.state, diff.state} == {"conflict"}
    assert "does not compile" in table.reason


@pytest.mark.parametrize("data", [*DEEP.values(), *HEAVY.values()], ids=[*DEEP, *HEAVY])
def test_deep_and_heavy_sources_are_decided(data: bytes) -> None:
    assert {decision.state for decision in judged(data)} <= {"needed", "conflict"}


@pytest.mark.parametrize("data", NEWER.values(), ids=NEWER)
def test_syntax_that_this_python_may_not_know(data: bytes) -> None:
    try:
        compile(data, "x", "exec")
        wanted = {"needed"}
    except SyntaxError:
        wanted = {"conflict"}
    table, wrapper, _, diff = judged(data)
    assert {table.state, wrapper.state, diff.state} == wanted
    if wanted == {"conflict"}:
        assert f"not valid for Python {sys.version_info.major}.{sys.version_info.minor}" in (
            table.reason
        )


@pytest.mark.parametrize("data", FINE.values(), ids=FINE)
def test_unusual_sources_are_edited(data: bytes) -> None:
    table, wrapper, *_ = judged(data)
    assert (table.state, wrapper.state) == ("needed", "needed")
