# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _unforeseen


def test_what_nobody_foresaw_is_named_with_its_place() -> None:
    try:
        int("x1")
    except ValueError as error:
        told = _unforeseen.sentence("the switch", error)
    assert told.startswith(
        "the switch broke: ValueError: invalid literal for int() with base 10: 'x1'"
    )
    assert "(test_unforeseen.py:" in told
    assert "-vvv" in told


# Recorded from ansible-core 2.19.14: a module that raised, and one that was killed.
RAISED = {
    "changed": False,
    "failed": False,
    "failed_when_result": False,
    "failed_when_suppressed_exception": "(traceback unavailable)",
}
KILLED = {
    **RAISED,
    "module_stderr": "Killed\n",
    "module_stdout": "",
    "msg": "Module result deserialization failed: No start of json char found",
    "rc": 137,
}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (RAISED, "ended without a result before it could say why; its last words: nothing"),
        (KILLED, "ended with status 137 before it could say why; its last words: Killed"),
        ({"msg": "port taken", "touched": False}, "port taken"),
    ],
)
def test_a_refusal_says_why_even_where_its_module_could_not(
    result: dict[str, Any], said: str
) -> None:
    found = _unforeseen.with_reason(result)
    assert said in found["msg"]
    assert {key: found[key] for key in result if key != "msg"} == {
        key: value for key, value in result.items() if key != "msg"
    }


def test_no_refusal_stays_none() -> None:
    assert _unforeseen.with_reason({}) == {}
