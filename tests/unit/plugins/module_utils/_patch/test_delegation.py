# SPDX-License-Identifier: Apache-2.0
"""Rule ``ensure_delegating_methods`` on many shapes of a class; Python says what is right."""

from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import apply_edits
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._patch.wrappers import (
    ALL_THREE,
    FILE,
    HEAD,
    INIT,
    NAMES,
    answers,
    check,
    judge,
)

NEEDED = {
    "plain": HEAD,
    "with a base": "class Base: pass\nclass Wrapper(Base):\n" + INIT,
    "in comments and strings": HEAD + "    # def first(self): pass\n    t = 'def second(self)'\n",
    "another class has them": f"class Other:\n{ALL_THREE}\n{HEAD}",
    "a nested class has them": HEAD + "    class Part:\n        def first(self): pass\n",
    "a nested function": HEAD + "    def f(self):\n        def first(self): pass\n",
    "a module function": "def first(self): pass\n" + HEAD,
    "annotation only": HEAD + "    first: object\n",
    "one is there": HEAD + "    def second(self):\n        return 2\n",
    "base only promises": (
        "class Base:\n    def first(self, ids=None):\n        raise NotImplementedError\n"
        "class Wrapper(Base):\n" + INIT
    ),
    "base only promises, by documentation": (
        "class Base:\n    def first(self, ids=None):\n        '''Doc.'''\n"
        "        raise NotImplementedError('no')\nclass Wrapper(Base):\n" + INIT
    ),
    "ends with an assignment": HEAD + "    x = 1\n",
    "ends with a comment": HEAD + "        # the end of the method\n    # the end of the class\n",
    "comment of the module": HEAD + "# about what follows\nx = 1\n",
    "statement behind": HEAD + "x = 1\n",
    "blank lines behind": HEAD + "\n\n\nx = 1\n",
    "semicolons": HEAD + "    x = 1; y = 2\n",
    "open lines": HEAD + "    x = [\n1,\n]\n",
    "text over lines": HEAD + '    x = """\nend\n"""\n',
    "two spaces": HEAD.replace("    ", "  "),
    "tabs": HEAD.replace("    ", "\t"),
    "inner by condition": (
        "class Wrapper:\n    def __init__(self):\n        self.inner = None\n"
        "        if True:\n            self.inner = make()\n"
    ),
    "inner as a property": (
        "class Wrapper:\n    @property\n    def inner(self):\n        return make()\n"
    ),
    "inner from a base": f"class Base:\n{INIT}class Wrapper(Base):\n    x = 1\n",
    "inner beside another": HEAD.replace("self.inner =", "self.inner, self.x ="
                                         ).replace("make()", "(make(), 1)"),
    "in a condition": "if True:\n" + "".join(f"    {line}\n" for line in HEAD.splitlines()),
    "decorated last": HEAD + "    @staticmethod\n    def f():\n        return 1\n",
    "decorated first": "class Wrapper:\n    @staticmethod\n    def f(): return 1\n" + INIT,
    "documented": 'class Wrapper:\n    """Text."""\n' + INIT,
    "header over lines": "class Wrapper(\n    object,\n):\n" + INIT,
    "no last newline": HEAD.rstrip("\n"),
}  # fmt: skip


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("text", NEEDED.values(), ids=NEEDED)
def test_shapes_that_are_edited(text: str, newline: str) -> None:
    data = text.replace("\n", newline).encode()
    decision = check(data)
    assert decision.state == "needed", decision.reason
    edited = apply_edits(data, decision.edits)
    assert edited.endswith(newline.encode()) == data.endswith(newline.encode())
    if newline != "\n":
        assert b"\n" not in edited.replace(newline.encode(), b"")


UPSTREAM = {
    "methods": HEAD + ALL_THREE,
    "a base in the file": f"class Base:\n{ALL_THREE}class Wrapper(Base):\n{INIT}",
    "two bases away": f"class A:\n{ALL_THREE}class B(A): pass\nclass Wrapper(B):\n{INIT}",
    "a mixin": f"class M:\n{ALL_THREE}class Wrapper(object, M):\n{INIT}".replace("object, ", ""),
    "base under another name": f"class A:\n{ALL_THREE}B = A\nclass Wrapper(B):\n{INIT}",
    "a class attribute": HEAD + "    first = second = third = print\n",
    "properties": HEAD + "".join(f"    @property\n    def {n}(self): return max\n" for n in NAMES),
    "assigned afterwards": HEAD + "".join(f"Wrapper.{name} = print\n" for name in NAMES),
    "setattr": HEAD + "".join(f"setattr(Wrapper, '{name}', print)\n" for name in NAMES),
    "setattr in a loop": (
        HEAD + "for n in ('first', 'second', 'third'):\n    setattr(Wrapper, n, print)\n"
    ),
    "in a condition": HEAD + "    if True:\n" + ALL_THREE.replace("    ", "        "),
    "in a try": HEAD + "    try:\n" + ALL_THREE.replace("    ", "        ")
    + "    except Exception:\n        pass\n",
    "guarded": HEAD + "".join(
        f"    def {name}(self, *a):\n        if self.inner is None:\n"
        f"            raise AttributeError\n        return self.inner.{name}(*a)\n"
        for name in NAMES),
    "given by __init__": HEAD + "".join(f"        self.{n} = self.inner.{n}\n" for n in NAMES),
    "forwarded": (
        HEAD + "    def __getattr__(self, name):\n        return getattr(self.inner, name)\n"
    ),
    "real one before a promise": (
        f"class A:\n{ALL_THREE}class B:\n    def first(self): raise NotImplementedError\n"
        f"class Wrapper(A, B):\n{INIT}"
    ),
    "async": HEAD + ALL_THREE.replace("def third", "async def third"),
    "decorated": HEAD + ALL_THREE.replace("    def first", "    @staticmethod\n    def first"),
}  # fmt: skip


@pytest.mark.parametrize("text", UPSTREAM.values(), ids=UPSTREAM)
def test_shapes_that_have_the_methods(text: str) -> None:
    decision = judge(text.encode())
    assert decision.state == "upstream", decision.reason
    assert len(decision.evidence) == len(NAMES)


DOUBTFUL = {
    "no class": "x = 1\n",
    "empty": "",
    "a function": "def Wrapper(): pass\n",
    "imported": "from elsewhere import Wrapper\n",
    "one line": "class Wrapper: inner = make()\n",
    "no inner": "class Wrapper:\n    def __init__(self):\n        self.llm = make()\n",
    "inner always None": "class Wrapper:\n    def __init__(self):\n        self.inner = None\n",
    "unknown base": "from elsewhere import Base\nclass Wrapper(Base):\n" + INIT,
    "computed base": "class Wrapper(make_base()):\n" + INIT,
    "own base": "class Wrapper(Wrapper):\n" + INIT,
    "metaclass": "class Wrapper(metaclass=Meta):\n" + INIT,
    "decorated class": "@register\n" + HEAD,
    "twice": HEAD + HEAD,
    "either": (
        "if x:\n    class Wrapper:\n        inner = 1\nelse:\n    class Wrapper:\n        y = 1\n"
    ),
    "replaced": HEAD + "Wrapper = wrap(Wrapper)\n",
    "not callable": HEAD + "    first = None\n",
    "only promised here": HEAD + "    def first(self):\n        raise NotImplementedError\n",
    "own __getattr__": HEAD + "    def __getattr__(self, n):\n        return table[n]\n",
    "__getattr__ with a way out": HEAD + (
        "    def __getattr__(self, n):\n"
        "        if n == 'first':\n            raise AttributeError\n"
        "        return getattr(self.inner, n)\n"),
    "__getattribute__": (
        HEAD + "    def __getattribute__(self, n):\n        return getattr(self.inner, n)\n"
    ),
    "__setattr__": HEAD + (
        "    def __setattr__(self, n, v):\n"
        "        if n != 'inner':\n            super().__setattr__(n, v)\n"),
    "deleted again": HEAD + ALL_THREE + "del Wrapper.first\n",
    "deleted by name": HEAD + ALL_THREE + "delattr(Wrapper, 'first')\n",
    "deleted in the body": HEAD + ALL_THREE + "    del first\n",
    "maybe deleted in the body": HEAD + ALL_THREE + "    if x:\n        del first\n",
    "maybe deleted": HEAD + ALL_THREE + "if x:\n    del Wrapper.first\n",
    "starred import": "from elsewhere import *\nclass Wrapper(Base):\n" + INIT,
    "not Python": "class Wrapper(:\n",
}  # fmt: skip


@pytest.mark.parametrize("text", DOUBTFUL.values(), ids=DOUBTFUL)
def test_shapes_that_are_refused(text: str) -> None:
    decision = judge(text.encode())
    assert decision.state == "conflict", decision.reason
    assert decision.reason
    assert decision.evidence


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """A module with a wrapper class of random form."""
    indent = draw(st.sampled_from(["    ", "  ", "\t"]))
    lines: list[str] = []

    def method(name: str, level: int, how: str) -> list[str]:
        pad = indent * level
        return {
            "def": [f"{pad}def {name}(self, *a):", f"{pad}{indent}return '{name}'"],
            "one line": [f"{pad}def {name}(self, *a): return '{name}'"],
            "attribute": [f"{pad}{name} = print"],
            "promise": [f"{pad}def {name}(self, *a):", f"{pad}{indent}raise NotImplementedError"],
            "if": [f"{pad}if True:", f"{pad}{indent}def {name}(self, *a): return 1"],
            "comment": [f"{pad}# def {name}(self): pass"],
            "annotation": [f"{pad}{name}: int"],
            "text": [f"{pad}'''", f"{pad}def {name}(self): pass", f"{pad}'''"],
        }[how]

    hows = ["def", "one line", "attribute", "promise", "if", "comment", "annotation", "text"]

    def members(level: int) -> list[str]:
        out: list[str] = []
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
            out += method(name, level, draw(st.sampled_from(hows)))
        return out

    based = draw(st.booleans())
    if based:
        lines += ["class Base:", f"{indent}x = 0", *members(1), ""]
    if draw(st.booleans()):
        lines += ["class Other:", f"{indent}x = 0", *members(1), ""]
    lines += [f"class Wrapper({'Base' if based else ''}):"]
    lines += [f"{indent}def __init__(self):", f"{indent * 2}self.inner = make()"]
    lines += members(1)
    lines += draw(st.sampled_from([[], [f"{indent}y = 2  # end"], [f"{indent}# end"], [""]]))
    name = draw(st.sampled_from(NAMES))
    lines += draw(
        st.sampled_from(
            [
                [], ["z = 1"], ["", f"Wrapper.{name} = print"],
                [f"setattr(Wrapper, '{name}', len)"],
                ["def f(): pass"], ["# Wrapper.first = 1"], ["x = 'ö'"],
            ]
        )
    )  # fmt: skip
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]))
    if encoding == "latin-1":
        text = f"# coding: latin-1\n{text}"
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"]))).encode(encoding)


@settings(max_examples=400)
@given(modules())
def test_a_mutated_class_is_edited_right_or_not_at_all(data: bytes) -> None:
    try:
        answers(data)
    except TypeError:
        return  # `len` as a method cannot be called with these arguments; nothing to compare
    check(data)


@settings(max_examples=200)
@given(st.sampled_from(sorted(NEEDED.values())), st.data())
def test_a_damaged_source_never_crashes(text: str, data: st.DataObject) -> None:
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        if data.draw(st.booleans()) and at < len(raw):
            del raw[at]
        else:
            raw[at:at] = data.draw(st.sampled_from([b"(", b":", b" ", b"\n", b"\xff", b"#", b"\\"]))
    decision = judge(bytes(raw))
    if decision.edits:
        edited = apply_edits(bytes(raw), decision.edits)
        compile(edited, FILE, "exec")
        assert judge(edited).state == "upstream"
