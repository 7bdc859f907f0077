# SPDX-License-Identifier: Apache-2.0
"""A wrapper class and the rule for it, for the tests of the delegation rule."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
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
