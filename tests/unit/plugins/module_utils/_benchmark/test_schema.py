# SPDX-License-Identifier: Apache-2.0
"""A document comes back as it was written, and what does not fit is refused by name."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decode import SchemaError
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    dumps,
    from_json,
    loads,
    to_json,
)
from hypothesis import given
from hypothesis import strategies as st

from tests import synthetic_benchmark as synthetic

WHOLE = synthetic.document(lambda setting, concurrency: 90.0 * concurrency, repeats=2)


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, as a path of keys and indexes."""
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [path, *(place for key, child in children for place in _places(child, (*path, key)))]


PLACES = [one for one in _places(to_json(WHOLE)) if one and one[0] != "stack"]
DICTS = [
    one
    for one in [(), *PLACES]
    if isinstance(functools.reduce(lambda v, k: v[k], one, to_json(WHOLE)), dict)
]


def test_a_document_comes_back_whole() -> None:
    assert loads(dumps(WHOLE)) == WHOLE
    assert json.loads(dumps(WHOLE))["stack"]["arguments"] == dict(WHOLE.stack.arguments)


def test_what_may_be_null_may_be_left_out() -> None:
    plain = to_json(WHOLE)
    for run in plain["runs"]:
        run.pop("kv_use")
        run.pop("gpu")
    assert from_json(plain).runs[0].kv_use is None


@given(place=st.sampled_from(PLACES), junk=st.sampled_from([float("nan"), [[]], {"x": object}]))
def test_junk_anywhere_is_refused_with_its_path(place: tuple[Any, ...], junk: object) -> None:
    plain = to_json(WHOLE)
    inner: Any = plain
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = junk
    with pytest.raises(SchemaError) as refused:
        from_json(plain)
    written = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    said = str(refused.value)
    assert said.startswith(written.lstrip(".")) or written.lstrip(".") == "schema", said


@given(place=st.sampled_from(DICTS))
def test_an_unknown_field_anywhere_is_refused(place: tuple[Any, ...]) -> None:
    plain = to_json(WHOLE)
    inner: Any = plain
    for key in place:
        inner = inner[key]
    inner["throughput"] = 1.0
    with pytest.raises(SchemaError, match="throughput: no such field"):
        from_json(plain)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("schema",), 2, "schema: is 2, this version reads 1"),
        (("node",), "", "node: empty"),
        (("started",), "2026-11-30 10:00", "started: is '2026-11-30 10:00', not like"),
        (("stack", "fingerprint"), "xyz", "stack.fingerprint: is 'xyz', not 12 hexadecimal"),
        (("stack", "environment"), {"NCCL_ALGO": 1}, "stack.environment.NCCL_ALGO: is 1, not"),
        (("configured",), "eagle9", "configured: 'eagle9' is no listed setting"),
        (("settings", 1, "id"), "off", "settings[1].id: 'off' is there twice"),
        (("settings", 1, "id"), "../off", "settings[1].id: '../off' is no file name"),
        (("settings", 1, "draft"), None, "settings[1].draft: is given with speculation"),
        (("settings", 1, "draft", "num_steps"), 0, "settings[1].draft.num_steps: is 0, not at"),
        (("points", 0, "concurrency"), 0, "points[0].concurrency: is 0, not at least 1"),
        (("points", 0, "concurrency"), True, "points[0].concurrency: is True, not a whole number"),
        (("runs", 0, "setting"), "on", "runs[0].setting: 'on' is not listed"),
        (("runs", 0, "point"), "c9", "runs[0].point: 'c9' is not listed"),
        (("runs", 0, "state"), "fine", "runs[0].state: is 'fine', not one of 'ok', 'failed'"),
        (("runs", 0, "state"), "failed", "runs[0].reason: missing in a run that is failed"),
        (("runs", 0, "output_tok_s"), None, "runs[0].output_tok_s: missing in a run that is ok"),
        (("runs", 0, "output_tok_s"), 0.0, "runs[0].output_tok_s: is 0.0, not above 0"),
        (("runs", 0, "output_tok_s"), "90", "runs[0].output_tok_s: is '90', not a number"),
        (("runs", 0, "ttft_ms", "p99"), -1, "runs[0].ttft_ms: is negative"),
        (("runs", 0, "kv_use"), 55.0, "runs[0].kv_use: is 55.0, not 0 to 1"),
        (("runs", 4, "accept", "length"), 0.9, "runs[4].accept.length: is below 1"),
        (("runs", 8, "repeat"), 1, "runs[8].repeat: 1 is there twice"),
    ],
)
def test_what_types_do_not_say_is_checked(place: tuple[Any, ...], value: object, said: str) -> None:
    plain: Any = copy.deepcopy(to_json(WHOLE))
    inner = plain
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(SchemaError) as refused:
        from_json(plain)
    assert str(refused.value).startswith(said)


class Tagged(str):
    """As Ansible's own text, of a subclass that remembers where it came from."""

    __slots__ = ()


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        return {Tagged(key): _tagged(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_tagged(one) for one in value]
    return Tagged(value) if isinstance(value, str) else value


def test_variables_of_ansible_are_read_as_what_they_are() -> None:
    found = from_json(_tagged(to_json(WHOLE)))
    assert found == WHOLE
    assert {type(found.node), type(found.runs[0].state), type(found.settings[0].id)} == {str}


def test_a_missing_field_and_text_that_is_no_json() -> None:
    plain = to_json(WHOLE)
    del plain["stack"]["release"]
    with pytest.raises(SchemaError, match=r"^stack\.release: missing"):
        from_json(plain)
    with pytest.raises(SchemaError, match=r"^not JSON"):
        loads("{")
