# SPDX-License-Identifier: Apache-2.0
"""Read JSON into typed dataclasses, strictly: what does not fit is refused with its path."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


class SchemaError(ValueError):
    """A document does not fit its schema; the message begins with the field's path."""


def decode(kind: Any, value: object, path: str) -> Any:
    """Read a JSON value as `kind`.

    Args:
        kind: A dataclass, str, bool, int, float, `Any`, a `Literal`, `X | None`,
            `tuple[X, ...]` or `Mapping[str, X]`.
        value: What `json.loads` gave.
        path: Where the value stands, for messages.

    Returns:
        The value as `kind`. An integer is taken for a float, nothing else is converted.

    Raises:
        SchemaError: the value is not of this kind.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        (kept,) = [one for one in inner if one is not type(None)]
        return None if value is None else decode(kept, value, path)
    if origin is not None:
        return _READERS[origin](inner, value, path)
    if is_dataclass(kind):
        return _record(kind, value, path)
    return value if kind is Any else _plain(kind, value, path)


def _literal(allowed: tuple[Any, ...], value: object, path: str) -> object:
    for one in allowed:
        if isinstance(value, type(one)) and value == one:
            return one
    raise SchemaError(f"{path}: is {value!r}, not one of {', '.join(map(repr, allowed))}")


def _items(inner: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise SchemaError(f"{path}: is {_name(value)}, not a list")
    return tuple(decode(inner[0], item, f"{path}[{index}]") for index, item in enumerate(value))


def _mapping(inner: tuple[Any, ...], value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"{path}: is {_name(value)}, not an object")
    return {str(key): decode(inner[1], item, f"{path}.{key}") for key, item in value.items()}


_READERS: dict[Any, Any] = {Literal: _literal, tuple: _items, Mapping: _mapping}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _record(kind: Any, value: object, path: str) -> Any:
    if not isinstance(value, dict):
        raise SchemaError(f"{path}: is {_name(value)}, not an object")
    hints, known = _hints(kind), {one.name: one for one in fields(kind)}
    start = f"{path}." if path else ""
    for key in value:
        if key not in known:
            raise SchemaError(f"{start}{key}: no such field; there are {', '.join(known)}")
    missing = [
        name
        for name, one in known.items()
        if name not in value and one.default is MISSING and one.default_factory is MISSING
    ]
    if missing:
        raise SchemaError(f"{start}{missing[0]}: missing")
    return kind(**{key: decode(hints[key], item, start + key) for key, item in value.items()})


def _plain(kind: type, value: object, path: str) -> object:
    # Not the exact type: Ansible's variables are of subclasses that remember where they came from.
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise SchemaError(f"{path}: is {_name(value)}, not {_NAMES[kind]}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SchemaError(f"{path}: is {value}, not a finite number")
    return kind(value)


_NAMES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def _name(value: object) -> str:
    if value is None:
        return "null"
    short = repr(value)
    return short if len(short) <= 40 else f"{short[:37]}..."
