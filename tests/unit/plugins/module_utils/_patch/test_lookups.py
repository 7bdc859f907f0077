# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.lookups import find_lookups
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DictEntryRule,
    Patch,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import parse

COPING = {
    "get": "def f(c):\n    return T.get(c)\n",
    "get with default": "def f(c):\n    return T.get(c, ())\n",
    "in": "def f(c):\n    if c in T:\n        return T[c]\n",
    "not in": "def f(c):\n    if c not in T:\n        return None\n    return T[c]\n",
    "either": "def f(c, d):\n    if d or c not in T:\n        return None\n    return T[c]\n",
    "both": "def f(c, d):\n    return T[c] if d and c in T else 0\n",
    "and": "def f(c):\n    return c in T and T[c]\n",
    "not": "def f(c):\n    return None if not (c in T) else T[c]\n",
    "try": "def f(c):\n    try:\n        return T[c]\n    except KeyError:\n        return 0\n",
    "loop": (
        "def f(cs):\n    for c in cs:\n"
        "        if c not in T:\n            continue\n        g(T[c])\n"
    ),
}
HURTING = {
    "bare": "def f(c):\n    return T[c]\n",
    "other key tested": "def f(c, d):\n    if d in T:\n        return T[c]\n",
    "tested too late": "def f(c):\n    x = T[c]\n    return x if c in T else 0\n",
    "or": "def f(c):\n    return c in T or T[c]\n",
    "else": "def f(c):\n    return 0 if c in T else T[c]\n",
    "no way out": "def f(c):\n    if c not in T:\n        print(c)\n    return T[c]\n",
    "other error": (
        "def f(c):\n    try:\n        return T[c]\n    except ValueError:\n        return 0\n"
    ),
    "in the handler": (
        "def f(c):\n    try:\n        g()\n    except KeyError:\n        return T[c]\n"
    ),
    "one of two": "def f(c):\n    return T.get(c) or T[c]\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "copes"),
    [(text, True) for text in COPING.values()] + [(text, False) for text in HURTING.values()],
    ids=[*COPING, *HURTING],
)
def test_the_readers_tell_whether_a_missing_key_hurts(reader: str, copes: bool) -> None:
    text = f"from tables import T\n{reader}"
    found = find_lookups(parse("srt/reader.py", text.encode()), "T")
    assert found
    assert all(lookup.copes for lookup in found) == copes
    assert all(lookup.where.startswith("srt/reader.py:") for lookup in found)
    other = text.replace("import T", "import T as Sizes").replace("T[", "Sizes[")
    other = other.replace("T.", "Sizes.").replace("in T", "in Sizes")
    again = find_lookups(parse("srt/reader.py", other.encode()), "T")
    assert [lookup.copes for lookup in again] == [lookup.copes for lookup in found]


def test_a_class_table_is_read_through_its_objects() -> None:
    text = b"class K:\n    T = {}\n    def f(self, c):\n        return self.T[c], K.T.get(c)\n"
    found = find_lookups(parse("x.py", text), "K.T")
    assert [(lookup.text, lookup.copes) for lookup in found] == [
        ("self.T[c]", False),
        ("K.T.get(c)", True),
    ]


@pytest.mark.parametrize(
    ("readers", "state"),
    [
        ({"srt/reader.py": "T.get(1)\n"}, "obsolete"),
        ({"srt/reader.py": "T[1]\n"}, "needed"),
        ({}, "needed"),
        ({"srt/reader.py": "x = (\n"}, "conflict"),
        ({"srt/reader.py": "x = 1\n"}, "needed"),
    ],
)
def test_what_the_readers_mean_for_the_decision(readers: dict[str, str], state: str) -> None:
    rule = DictEntryRule("T", 12, value="[8]", lookups=("srt/reader.py",))
    files = {"srt/t.py": b"T = {10: [6]}\n", **{n: t.encode() for n, t in readers.items()}}
    decision = decide(Patch("p", "t", "srt/t.py", rule), files.get)
    assert decision.state == state
    assert bool(decision.edits) == (state != "conflict")
