# SPDX-License-Identifier: Apache-2.0
"""An outline gives the tree that Python gives, or none."""

from __future__ import annotations

import ast
import textwrap

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.outline import Body, outline
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import parse
from hypothesis import given, settings
from hypothesis import strategies as st

LONG = "".join(f"    value_{number} = [{number}, 'text', (1, 2)]\n" for number in range(20))
METHOD = textwrap.indent(LONG, "    ")
FILLER = "".join(f"NAME_{number} = {number}\n" for number in range(800))

# Each is Python, but for the last ones; what looks like a function in some of them is none.
PIECES = {
    "function": f"def f(a, b=(1, 2)):\n{LONG}    return a\n",
    "async": f"async def g():\n{LONG}    await x\n",
    "decorated": f"@one\n@two(a, b)\ndef h():\n{LONG}\n",
    "long header": f"def f(\n    a: int,\n    *,\n    b: str = 'x',\n) -> None:\n{LONG}",
    "hanging header": f"def f(a,\n      b):\n{LONG}",
    "comment behind the header": f"def f(a):  # noqa: (one\n{LONG}",
    "comment in the header": f"def f(\n    a,  # a (half\n):\n{LONG}",
    "one line": "def f(): return 1\n",
    "class": f"class A(B):\n    x = 1\n\n    def m(self):\n{METHOD}\n    def n(self):\n{METHOD}",
    "async method": f"class A:\n    async def m(self):\n{METHOD}        yield 1\n",
    "class in a class": f"class A:\n    class B:\n        def m(self):\n{METHOD}{METHOD}",
    "nested": f"def f():\n    def inner():\n{METHOD}        return 1\n    return inner\n",
    "conditional": f"if X:\n    def f():\n{METHOD}else:\n    def f():\n{METHOD}",
    "try": f"try:\n    def f():\n{METHOD}except E:\n    def f():\n{METHOD}",
    "docstring": f'def f():\n    """Text.\n\n    More (of it\n    """\n{LONG}',
    "text at the margin": f'def f():\n    x = """\nat the margin\n"""\n{LONG}',
    "def in a text": f'X = """\ndef f():\n{LONG}"""\n',
    "def in a text in a function": f'def f():\n    x = """\ndef g():\n{LONG}"""\n{LONG}',
    "other quotes": f"def f():\n    x = '''\ndef g():\n{LONG}'''\n{LONG}",
    "quotes in quotes": f'def f():\n    x = \'"""\'\n{LONG}',
    "bracket at the margin": f"def f():\n    x = (\n1,\n)\n{LONG}",
    "line goes on at the margin": f"def f():\n    x = 1 + \\\n2\n{LONG}",
    "comments at the margin": f"def f():\n{LONG}# here (\n{LONG}    # last\n\n# behind\n",
    "blank lines": f"def f():\n\n\n{LONG}\n\n\n{LONG}\n\n",
    "umlauts": f"def f():\n    x = 'äöü', '\U0001f600'; y = 2\n{LONG}",
    "walrus and lambda": f"def f(a=lambda x: x):\n    if (n := a(1)): pass\n{LONG}",
    "match": f"def f(x):\n    match x:\n        case 1:\n            pass\n{LONG}",
    "global": f"def f():\n    global Z\n{LONG}",
    "tabs": "def f():\n" + LONG.replace("    ", "\t"),
    "form feed": f"def f():\n{LONG}\f\n",
    "carriage returns": f"def f():\n{LONG}".replace("\n", "\r\n"),
    "assignment": "A = B = {'x': [1, 2, 3]}\n",
    "not Python": "def f(:\n    pass\n",
    "not Python inside": f"class A\n{LONG}",
    "open text": f'def f():\n    x = """\n{LONG}',
}


def shown(tree: ast.Module) -> str:
    """All of a tree but the columns of the ends of what holds statements."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.ExceptHandler)) and hasattr(node, "body"):
            node.end_col_offset = 0
    return ast.dump(tree, include_attributes=True)


def check(text: str) -> bool:
    """Whether there is an outline; it must be the whole tree."""
    data = text.encode()
    found = outline("x.py", data, lambda error: error)
    if found is None:
        return False
    assert shown(found) == shown(ast.parse(data))
    return True


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_by_itself_and_among_others(name: str) -> None:
    for text in (
        PIECES[name] + FILLER,
        FILLER + PIECES[name],
        FILLER + PIECES["function"] + PIECES[name] + PIECES["class"] + PIECES[name].rstrip("\n"),
    ):
        check(text)


@pytest.mark.parametrize(
    "name", ["function", "async", "decorated", "long header", "class", "docstring", "conditional"]
)
def test_what_is_common_is_outlined(name: str) -> None:
    assert check(FILLER + PIECES[name] + FILLER)


@given(st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=6), st.data())
@settings(max_examples=60)
def test_any_pieces_together(names: list[str], data: st.DataObject) -> None:
    text = FILLER + "".join(PIECES[name] for name in names)
    cut = data.draw(st.integers(len(FILLER), len(text)))
    check_if_python(text)
    check_if_python(text[:cut])


def check_if_python(text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        outline("x.py", text.encode(), lambda error: error)
    else:
        check(text)


def functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_a_body_is_parsed_when_it_is_looked_at() -> None:
    """What is wrong in one does no harm before, and is named with its line then."""
    text = FILLER + PIECES["function"] + f"def broken():\n{LONG}    return ]\n" + FILLER
    source = parse("srt/x.py", text.encode(), outlined=True)
    good, broken = functions(source.tree)
    assert isinstance(good.body, Body)
    assert len(good.body) == 21
    assert isinstance(good.body[-1], ast.Return)
    assert isinstance(next(reversed(good.body)), ast.Return)
    line = text[: text.index("return ]")].count("\n") + 1
    for _ in range(2):
        with pytest.raises(SourceError, match=rf"srt/x\.py:{line}: not valid for Python"):
            list(broken.body)
    assert source.lines(broken).endswith(b"return ]")


def test_small_files_are_parsed_as_a_whole() -> None:
    assert outline("x.py", PIECES["function"].encode(), lambda error: error) is None
