# SPDX-License-Identifier: Apache-2.0
"""Rule ``ensure_dict_entry`` on many shapes of a table; Python itself says what is right."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import DictEntryRule
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._patch.small_tables import (
    FILE,
    IN_CLASS,
    RULE,
    check,
    judge,
    table_of,
)

EDITED = {
    "one line": "T = {9: [4, 6, 8], 10: [6, 8]}\n",
    "one line, trailing comma": "T = {9: [4, 6, 8], 10: [6, 8],}\n",
    "brace on the last line": "T = {9: [4, 6, 8],\n     10: [6, 8]}\n",
    "no comma at the end": "T = {\n    9: [4],\n    10: [6, 8]\n}\n",
    "comment behind the last": "T = {\n    9: [4],\n    10: [6, 8],  # B200\n}\n",
    "comment, no comma": "T = {\n    9: [4],\n    10: [6, 8]  # B200\n}\n",
    "comment line at the end": "T = {\n    9: [4],\n    10: [6, 8],\n    # 12: [8],\n}\n",
    "comma on its own line": "T = {\n    9: [4],\n    10: [6, 8]\n    ,\n}\n",
    "value in parentheses": "T = {\n    9: ([4]),\n    10: ([6, 8]),\n}\n",
    "parentheses over lines": "T = {\n    10: (\n        [6, 8]\n    ),\n}\n",
    "annotated": "T: dict[int, list[int]] = {9: [4], 10: [6, 8]}\n",
    "two names": "S = T = {9: [4], 10: [6, 8]}\n",
    "unpacked": "S, T = {1: 2}, {9: [4], 10: [6, 8]}\n",
    "unpacked deeply": "(S, (T, U)) = 1, ({10: [6, 8]}, {})\n",
    "semicolon": "x = 1; T = {10: [6, 8]}; y = 2\n",
    "tabs": "T = {\n\t9: [4],\n\t10: [6, 8],\n}\n",
    "no last newline": "T = {\n    9: [4],\n    10: [6, 8],\n}",
    "union": "T = {9: [4]} | {10: [6, 8]}\n",
    "union of a name": "B = {9: [4]}\nT = B | {10: [6, 8]}\n",
    "spread": "B = {9: [4]}\nT = {**B, 10: [6, 8]}\n",
    "spread behind": "B = {9: [4]}\nT = {10: [6, 8], **B}\n",
    "dict of a literal": "T = dict({9: [4], 10: [6, 8]})\n",
    "dict of pairs": "T = dict([(9, [4]), (10, [6, 8])])\n",
    "dict of a zip": "T = dict(zip((9, 10), ([4], [6, 8])))\n",
    "comprehension": "T = {k: [6, 8] for k in (9, 10)}\n",
    "comprehension of a range": "T = {k: [6, 8] for k in range(9, 11)}\n",
    "comprehension of pairs": "T = {k: v for k, v in ((9, [4]), (10, [6, 8]))}\n",
    "update": "T = {9: [4]}\nT.update({10: [6, 8]})\n",
    "update by pairs": "T = {9: [4]}\nT.update([(10, [6, 8])])\n",
    "item assigned": "T = {9: [4]}\nT[10] = [6, 8]\n",
    "in place union": "T = {9: [4]}\nT |= {10: [6, 8]}\n",
    "setdefault": "T = {9: [4]}\nT.setdefault(10, [6, 8])\n",
    "bound again": "T = {12: [1]}\nT = {10: [6, 8]}\n",
    "copied": "B = {10: [6, 8]}\nT = B.copy()\n",
    "key by name": "SM100 = 10\nT = {9: [4], SM100: [6, 8]}\n",
    "key computed": "T = {8 + 1: [4], 5 * 2: [6, 8]}\n",
    "wrapped": "from collections import OrderedDict\nT = OrderedDict({9: [4], 10: [6, 8]})\n",
    "key in a comment": "# 12: [8]\nT = {10: [6, 8]}  # 12\n'''T[12] = [8]'''\n",
    "other table has it": "U = {12: [8]}\nT = {10: [6, 8]}\n",
    "function writes another key": "T = {10: [6, 8]}\ndef f():\n    T[9] = [4]\n",
    "function has its own T": "T = {10: [6, 8]}\ndef f(T):\n    T[12] = [4]\n",
    "read by a call": "T = {10: [6, 8]}\nn = isinstance(T, dict)\n",
    "value by name": "B = [6, 8]\nT = {10: B}\n",
    "form feed": "x = 1\n\x0cT = {10: [6, 8]}\n",
    "continued line": "T = \\\n    {10: [6, 8]}\n",
}  # fmt: skip


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("text", EDITED.values(), ids=EDITED)
def test_shapes_that_are_edited(text: str, newline: str) -> None:
    data = text.replace("\n", newline).encode()
    # What a comprehension computes cannot be copied: the rule's own value is written.
    decision = check(data, RULE, [8] if " for " in text else [6, 8])
    assert decision.state == "needed", decision.reason
    edited = apply_edits(data, decision.edits)
    if newline != "\n":
        assert b"\n" not in edited.replace(newline.encode(), b"")


PRESENT = {
    "in the literal": "T = {10: [6], 12: [8]}\n",
    "as a float": "T = {10: [6], 12.0: [8]}\n",
    "by name": "SM120 = 12\nT = {10: [6], SM120: [8]}\n",
    "assigned": "T = {10: [6]}\nT[12] = [8]\n",
    "updated": "T = {10: [6]}\nT.update({12: [8]})\n",
    "united": "T = {10: [6]} | {12: [8]}\n",
    "spread": "B = {12: [8]}\nT = {10: [6], **B}\n",
    "default set": "T = {10: [6]}\nT.setdefault(12, [8])\n",
    "comprehension": "T = {k: [8] for k in (9, 10, 12)}\n",
    "zip": "T = dict(zip([10, 12], [1, 2]))\n",
    "empty value": "T = {10: [6], 12: []}\n",
}


@pytest.mark.parametrize("text", PRESENT.values(), ids=PRESENT)
def test_shapes_that_have_the_key(text: str) -> None:
    decision = check(text.encode(), RULE)
    assert decision.state == "upstream", decision.reason
    assert decision.evidence[0].startswith(f"{FILE}:")


DOUBTFUL = {
    "no table": "U = {}\n",
    "empty file": "",
    "imported": "from x import T\n",
    "a function": "def T(): pass\n",
    "computed": "T = build()\n",
    "unknown key": "import x\nT = {x.SM90: [4], 10: [6]}\n",
    "unknown spread": "from x import B\nT = {**B, 10: [6]}\n",
    "spread of a changed table": "B = {9: [4]}\nB[12] = [8]\nT = {**B, 10: [6]}\n",
    "under a condition": "import sys\nif sys.argv:\n    T = {10: [6]}\nelse:\n    T = {10: [7]}\n",
    "item under a condition": "import sys\nT = {10: [6]}\nif sys.argv:\n    T[12] = [8]\n",
    "in a loop": "T = {10: [6]}\nfor k in (11, 12):\n    T[k] = [8]\n",
    "in a try": "try:\n    T = {10: [6]}\nexcept Exception:\n    T = {}\n",
    "set at run time": "T = {10: [6]}\ndef f():\n    T[12] = [8]\n",
    "any key at run time": "T = {10: [6]}\ndef f(k):\n    T[k] = [8]\n",
    "replaced at run time": "T = {10: [6]}\ndef f():\n    global T\n    T = {}\n",
    "cleared": "T = {10: [6]}\nT.clear()\n",
    "handed to a call": "T = {10: [6]}\nregister(T)\n",
    "second name": "T = {10: [6]}\nU = T\nU[12] = [8]\n",
    "another table's name": "B = {10: [6]}\nT = B\n",
    "default dict": "from collections import defaultdict\nT = defaultdict(list, {10: [6]})\n",
    "filtered comprehension": "T = {k: [6] for k in range(20) if k in (9, 10)}\n",
    "own dict": "def dict(x): return {12: x}\nT = dict({10: [6]})\n",
    "deleted": "T = {10: [6]}\ndel T\n",
    "entry deleted": "T = {10: [6], 12: [8]}\ndel T[12]\n",
    "entry popped": "T = {10: [6], 12: [8]}\nT.pop(12, None)\n",
    "unpacked from a call": "S, T = pair()\n",
    "walrus": "print(T := {10: [6]})\n",
    "not a dict": "T = [1, 2]\n",
    "a conditional value": "import sys\nT = {10: [6]} if sys.argv else {}\n",
    "changed before it is built": "T[12] = [8]\nT = {10: [6]}\n",
}  # fmt: skip


@pytest.mark.parametrize("text", DOUBTFUL.values(), ids=DOUBTFUL)
def test_shapes_that_are_refused(text: str) -> None:
    decision = judge(text.encode())
    assert decision.state == "conflict"
    assert decision.reason
    assert decision.evidence


def body(text: str) -> bytes:
    return ("class K:\n" + textwrap.indent(text, "    ") + "    x = 1\n").encode()


@pytest.mark.parametrize(
    "text", [text for text in EDITED.values() if "def " not in text and "import" not in text]
)
def test_the_same_shapes_in_a_class(text: str) -> None:
    if " for " in text:
        return  # a comprehension in a class does not see the class's names
    decision = check(body(text if text.endswith("\n") else text + "\n"), IN_CLASS)
    assert decision.state == "needed", decision.reason


@pytest.mark.parametrize(
    ("tail", "state"),
    [
        ("K.T[12] = [8]\n", "upstream"),
        ("K.T.update({12: [8]})\n", "upstream"),
        ("K.T = {12: [8]}\n", "upstream"),
        ("K.T[11] = [8]\n", "needed"),
        ("class L:\n    T = {12: [8]}\n", "needed"),
        ("if 1:\n    K.T[12] = [8]\n", "conflict"),
        ("register(K.T)\n", "conflict"),
        ("def f(self):\n    self.T[12] = [8]\n", "conflict"),
        ("def f(self):\n    type(self).T = {}\n", "conflict"),
        ("def f(self):\n    return self.T[12]\n", "needed"),
        ("class K:\n    T = {}\n", "conflict"),
    ],
)
def test_what_happens_to_a_class_table_later(tail: str, state: str) -> None:
    assert judge(b"class K:\n    T = {10: [6]}\n" + tail.encode(), IN_CLASS).state == state


@pytest.mark.parametrize(
    ("neighbour", "rule_value", "written"),
    [
        ("[6, 8]", "[8]", b"12: [8]"),
        ("(6, 8)", "[8]", b"12: (8,)"),
        ("{6, 8}", "[8]", b"12: {8}"),
        ("frozenset({6, 8})", "[8]", b"12: frozenset({8})"),
        ("64 * MiB", str(128 << 20), b"12: 128 * MiB"),
        ("MiB * 64", str(128 << 20), b"12: 128 * MiB"),
        ("64 * MiB", "1000", b"12: 1000"),
        ("{2: 64 * MiB}", f"{{2: {64 << 20}, 8: {128 << 20}}}", b"12: {2: 64 * MiB, 8: 128 * MiB}"),
        ("{2: (6,)}", "{2: [8]}", b"12: {2: (8,)}"),
        ("'a'", "'b'", b"12: 'b'"),
        ("1", "2.5", b"12: 2.5"),
    ],
)
def test_a_value_is_written_as_its_neighbour_is(
    neighbour: str, rule_value: str, written: bytes
) -> None:
    data = f"MiB = 1024 * 1024\nT = {{10: {neighbour}}}\n".encode()
    decision = judge(data, DictEntryRule("T", 12, value=rule_value))
    assert decision.state == "needed", decision.reason
    assert written in apply_edits(data, decision.edits)


@pytest.mark.parametrize(
    ("neighbour", "rule"),
    [
        ("'a'", DictEntryRule("T", 12, value="[8]")),
        ("[8]", DictEntryRule("T", 12, value="{2: 3}")),
        ("compute()", DictEntryRule("T", 12, value="[8]")),
        ("compute()", DictEntryRule("T", 12, like=10, has_like=True)),
        ("[8]", DictEntryRule("T", 12, like=9, has_like=True)),
    ],
)
def test_a_value_that_does_not_fit_the_table_is_refused(
    neighbour: str, rule: DictEntryRule
) -> None:
    decision = judge(f"T = {{10: {neighbour}}}\n".encode(), rule)
    assert decision.state == "conflict"
    assert "T cannot get key 12" in decision.reason


def test_a_copied_value_keeps_its_comments_and_unit() -> None:
    text = "M = 2\nT = {\n    10: {\n        2: 64 * M,  # 64 MB\n    },\n}\n"
    decision = judge(text.encode())
    assert b"    12: {\n        2: 64 * M,  # 64 MB\n    }," in apply_edits(
        text.encode(), decision.edits
    )


@pytest.mark.parametrize("key", ["sm120", 1.5, True, None, (12, 0), -1])
def test_any_constant_may_be_the_key(key: Any) -> None:
    rule = DictEntryRule("T", key, value="1")
    data = b"T = {10: 2}\n"
    edited = apply_edits(data, judge(data, rule).edits)
    assert table_of(edited, rule)[0][key] == 1


@st.composite
def modules(draw: st.DrawFn) -> tuple[bytes, DictEntryRule]:
    """A module with a table, of random form, and a rule for it."""
    unit = draw(st.sampled_from(["MiB", "MB", "UNIT"]))
    keys = draw(st.lists(st.sampled_from([7, 8, 9, 10, 11, 12, 13]), unique=True, max_size=4))
    value = draw(
        st.sampled_from([f"64 * {unit}", "[4, 8]", "(4, 8)", f"{{2: 64 * {unit}, 4: 1}}", "'x'"])
    )
    pairs = [f"{draw(st.sampled_from(['', '0 + ']))}{key}: {value}" for key in keys]
    note = draw(st.sampled_from(["", "  # 12: [8]", "  # ö"]))
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    comma = draw(st.sampled_from([",", ""]))
    if draw(st.booleans()) and pairs:
        inner = f",{note}\n{indent}".join(pairs)
        literal = f"{{\n{indent}{inner}{comma}{note}\n}}"
    else:
        literal = "{" + ", ".join(pairs) + (comma if pairs else "") + "}"
    other = draw(st.sampled_from(["{}", "{9: 1}", "{12: 2}", "dict(a=1)", "OTHER"]))
    form = draw(
        st.sampled_from(
            [
                "T = {0}", "T: dict = {0}", "S = T = {0}", "S, T = 1, {0}", "T = {0} | {1}",
                "T = {1} | {0}", "T = dict({0})", "T = {{**{1}, **{0}}}", "T = {1}\nT.update({0})",
                "T = {0}\nT.update({1})", "T = {0}\nT |= {1}", "T = ({0})",
                "T = {0}\nT[12] = {1}", "T = {0}\nfor k in (12,):\n    T[k] = 1",
                "T = {0}\nif OTHER:\n    T[12] = 1", "T = {{k: 1 for k in {0}}}",
                "T = {0}\nU = dict(T)", "T = {0}\nU = [k for k in T if k != 12]",
                "if True:\n    T = {0}",
                "T = {0}\nT = {1}", "T = {0}.copy()", "T = {0} if OTHER else {1}",
            ]
        )
    )  # fmt: skip
    text = form.replace("{0}", literal).replace("{1}", other).replace("{{", "{").replace("}}", "}")
    before = draw(st.sampled_from(["", "'''T = {12: 0}'''\n", "def f():\n    return {12: 1}\n"]))
    after = draw(
        st.sampled_from(["\n", "", "\nx = 5\n", "\n# T[12] = 1", "\nclass T2:\n    y = 1\n"])
    )
    module = f"{unit} = 1 << 20\nOTHER = {{8: 1}}\n{before}{text}{after}"
    like = draw(st.sampled_from([9, 10]))
    rule = DictEntryRule("T", 12, like=like, has_like=draw(st.booleans()), value="[8]")
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]))
    if encoding == "latin-1":
        module = f"# -*- coding: latin-1 -*-\n{module}"
    return module.replace("\n", newline).encode(encoding), rule


@settings(max_examples=400)
@given(modules())
def test_a_mutated_table_is_edited_right_or_not_at_all(case: tuple[bytes, DictEntryRule]) -> None:
    data, rule = case
    check(data, rule)


@settings(max_examples=200)
@given(st.sampled_from(sorted(EDITED.values())), st.data())
def test_a_damaged_source_never_crashes(text: str, data: st.DataObject) -> None:
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        if data.draw(st.booleans()) and at < len(raw):
            del raw[at]
        else:
            raw[at:at] = data.draw(st.sampled_from([b"{", b"}", b",", b"\n", b"\xff", b"#", b"12"]))
    decision = judge(bytes(raw))
    if decision.edits:
        edited = apply_edits(bytes(raw), decision.edits)
        compile(edited, FILE, "exec")
        assert judge(edited).state == "upstream"
