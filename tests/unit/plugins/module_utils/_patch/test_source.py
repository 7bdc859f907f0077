# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import (
    MAX_BYTES,
    check_compiles,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = ["value", "größe", "变量"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "gbk", "shift_jis"]
)
@pytest.mark.parametrize("comment", ["plain", "größe", "变量"])
def test_a_node_leads_back_to_its_bytes(newline: str, encoding: str, comment: str) -> None:
    cookie = "" if encoding.startswith("utf") else f"# -*- coding: {encoding} -*-\n"
    text = f'{cookie}text = "{comment}"; number = [1,\n  2]  # {comment}\n'
    try:
        data = text.replace("\n", newline).encode(encoding)
    except UnicodeEncodeError:
        return  # the codec has no such letters
    source = parse("x.py", data)
    found = [node for node in ast.walk(source.tree) if isinstance(node, ast.List)]
    assert source.code(found[0]) == f"[1,{newline}  2]".encode(encoding.removesuffix("-sig"))
    assert source.newline(found[0].lineno) == newline.encode()


@given(st.lists(st.sampled_from(["a = 1", "b = '\x0c'", "c = '\u2028'", "", "# é"]), max_size=8))
def test_lines_are_those_of_python(lines: list[str]) -> None:
    source = parse("x.py", ("\n".join(lines)).encode())
    for statement in source.tree.body:
        assert source.code(statement) == ast.unparse(statement).encode() or b"'" in source.code(
            statement
        )
        assert source.line_of(source.span(statement)[0]) == statement.lineno


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"a = 1\nb = '\xff'\n", r"x\.py:2: byte 0xff is not utf-8"),
        (b"# coding: utf-8\n\xe9", r"x\.py:2: byte 0xe9"),
        (b"# coding: klingon\na = 1\n", "encoding declaration is wrong"),
        (b"\xef\xbb\xbf# coding: latin-1\na = 1\n", "encoding declaration is wrong"),
        (b"# coding: utf-7\na = 1\n", "cannot be edited"),
        (b"# coding: iso2022_jp\na = 1\n", "cannot be edited"),
        (b"\xff\xfea\x00=\x001\x00", "byte 0xff"),
        (b"a = (1,\n", "x.py:1: not valid for Python"),
        (b"def f(:\n  pass\n", "not valid for Python"),
        (b"a = 1\x00\n", "cannot be parsed|not valid for Python"),
        (b"a" * (MAX_BYTES + 1), "more than the"),
        (b"x = 1\n" * (10 * 1024 * 1024 // 6), "more than the"),
        (b"a = " + b"(" * 5000 + b")" * 5000, "not valid for Python|cannot be parsed"),
        (b"a = " + b"-" * 200_000 + b"1", "not valid for Python|cannot be parsed"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_not_a_source_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(SourceError, match=cause):
        parse("x.py", data)


def test_an_empty_file_is_a_source() -> None:
    assert parse("x.py", b"").tree.body == []
    assert parse("x.py", b"\xef\xbb\xbf").starts == (3,)


def test_new_text_must_fit_the_encoding() -> None:
    source = parse("x.py", b"# coding: latin-1\na = '\xe9'\n")
    assert source.encode("é") == b"\xe9"
    with pytest.raises(SourceError, match="does not fit the file's encoding"):
        source.encode("变")


def test_what_parses_may_still_not_compile() -> None:
    check_compiles("x.py", b"a = 1\n")
    with pytest.raises(SourceError, match="does not compile"):
        check_compiles("x.py", b"return 1\n")
