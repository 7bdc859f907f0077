# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import (
    NotConstant,
    evaluate,
    literal,
)
from hypothesis import given
from hypothesis import strategies as st

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN.filter(lambda value: "inf" not in repr(value)))
def test_plain_values_survive(value: object) -> None:
    assert literal(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64 * 1024 * 1024", 67108864),
        ("1 << 20", 1048576),
        ("2 ** 10 - 1", 1023),
        ("-(3 // 2) % 5", 4),
        ("frozenset([4, 8])", frozenset({4, 8})),
        ("tuple(range(2, 9, 2))", (2, 4, 6, 8)),
        ("{**{1: 2}, 3: 4}", {1: 2, 3: 4}),
        ("set()", set()),
        ("'a' + 'b'", "ab"),
        ("{1} | {2}", {1, 2}),
    ],
)
def test_arithmetic(text: str, value: object) -> None:
    assert literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "name", "f(1)", "1 / 2", "9 ** 9 ** 9", "1 << 10_000_000", "range(10**9)", "[1] * 10**9",
        "{[]: 1}", "{[1]}", "1 // 0", "lambda: 1", "", "(", "'a' * 9", "{**[1]}", "-'a'",
        "int('1')", "tuple(1, 2)", "list(5)", "[" * 100 + "]" * 100,
    ],
)  # fmt: skip
def test_what_only_running_would_tell(text: str) -> None:
    with pytest.raises(NotConstant):
        literal(text)


def test_names_are_followed_and_circles_end() -> None:
    def expression(text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body

    names = {"MiB": expression("1024 * KiB"), "KiB": expression("1024"), "a": expression("a")}
    assert evaluate(expression("64 * MiB"), names) == 67108864
    with pytest.raises(NotConstant):
        evaluate(expression("a"), names)
