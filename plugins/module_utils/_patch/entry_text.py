# SPDX-License-Identifier: Apache-2.0
"""Write a new table entry in the style of its neighbours."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import (
    NotConstant,
    evaluate,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import Edit
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source

_GAP = re.compile(
    rb"(?P<close>\))|(?P<comma>,)|(?P<comment>#[^\r\n]*)|(?P<line>\r\n|\r|\n)"
    rb"|(?P<space>[ \t\f]|\\(?:\r\n|\r|\n))"
)
_SEQUENCES = (list, tuple, set, frozenset)


class Misfit(Exception):  # noqa: N818 - becomes a conflict's reason
    """The new value does not fit the form of the table."""


def render(
    source: Source, value: Any, model: ast.expr | None, names: Mapping[str, ast.expr]
) -> bytes:
    """Write a value the way a neighbour is written: its container type, its unit constant.

    Args:
        source: the file.
        value: plain data.
        model: a neighbour's value; None in an empty table.
        names: constants of the scope.

    Raises:
        Misfit: the neighbour is another kind of thing.
    """
    return source.encode(_text(value, model, names))


def _text(value: Any, model: ast.expr | None, names: Mapping[str, ast.expr]) -> str:
    if model is None:
        return repr(value)
    try:
        seen = evaluate(model, names)
    except NotConstant as error:
        raise Misfit(f"'{ast.unparse(model)}' is not a constant") from error
    if isinstance(value, dict) and isinstance(seen, dict):
        inner = list(model.values) if isinstance(model, ast.Dict) else []
        style = inner[-1] if inner else None
        parts = [f"{key!r}: {_text(item, style, names)}" for key, item in value.items()]
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, _SEQUENCES) and isinstance(seen, _SEQUENCES):
        return _sequence(list(value), seen, model, names)
    if type(value) is type(seen) or {type(value), type(seen)} == {int, float}:
        unit = _unit(model, names) if isinstance(value, int) else None
        if unit and value and value % unit[1] == 0:
            return f"{value // unit[1]} * {unit[0]}"
        return repr(value)
    raise Misfit(
        f"the table holds {type(seen).__name__} values such as {seen!r}, the rule gives {value!r}"
    )


def _sequence(
    items: list[Any], seen: object, model: ast.expr, names: Mapping[str, ast.expr]
) -> str:
    elements = model.elts if isinstance(model, (ast.List, ast.Tuple, ast.Set)) else []
    style = elements[-1] if elements else None
    parts = [_text(item, style, names) for item in items]
    body = ", ".join(parts)
    if isinstance(seen, tuple):
        return f"({body},)" if len(parts) == 1 else f"({body})"
    if isinstance(seen, list):
        return f"[{body}]"
    plain = "{" + body + "}" if parts else "set()"
    if isinstance(seen, set):
        return plain
    return f"frozenset({plain})" if parts else "frozenset()"


def _unit(model: ast.expr, names: Mapping[str, ast.expr]) -> tuple[str, int] | None:
    """The unit constant of ``64 * MiB``, with its value."""
    if isinstance(model, ast.BinOp) and isinstance(model.op, ast.Mult):
        for side in (model.right, model.left):
            if isinstance(side, ast.Name) and side.id in names:
                value = evaluate(side, names)
                if isinstance(value, int) and value > 1:
                    return side.id, value
    return None


def add_to_literal(source: Source, node: ast.Dict, key: bytes, value: bytes) -> tuple[Edit, ...]:
    """Put an entry behind the last one inside a literal's braces.

    Raises:
        Misfit: not certain where it belongs.
    """
    entry = key + b": " + value
    if not node.values:
        start, end = source.span(node)
        if source.data[start + 1 : end - 1].strip():
            raise Misfit("the empty table holds a comment: not certain where an entry belongs")
        return (Edit(start + 1, b"", entry),)
    value_end, comma, line_end = _behind_last(source, node)
    tail, glue = (b"", b",") if comma is None else (b",", b"")
    anchor = value_end if comma is None else comma
    indent = _entry_indent(source, node)
    if line_end is None:
        separator = b" "
        if _one_per_line(node):
            separator = source.newline(source.line_of(anchor)) + indent
        return (Edit(anchor, b"", glue + separator + entry + tail),)
    text = source.newline(source.line_of(line_end)) + indent + entry + tail
    if glue and value_end < line_end:
        return Edit(value_end, b"", glue), Edit(line_end, b"", text)
    return (Edit(line_end, b"", glue + text),)


def _behind_last(source: Source, node: ast.Dict) -> tuple[int, int | None, int | None]:
    """Where the last entry ends.

    Returns:
        Offsets behind the last value (its parentheses included), behind its comma, and of the end
        of that line; None where there is no comma, or the closing brace stands on the same line.
    """
    position = value_end = source.span(node.values[-1])[1]
    brace = source.span(node)[1] - 1
    comma: int | None = None
    breaks: list[int] = []
    while position < brace:
        match = _GAP.match(source.data, position)
        if not match:
            raise Misfit("the end of the table cannot be read")
        if match["close"]:
            value_end = match.end()
        elif match["comma"]:
            comma = match.end()
        elif match["line"]:
            breaks.append(match.start())
        position = match.end()
    anchor = value_end if comma is None else comma
    return value_end, comma, next((at for at in breaks if at >= anchor), None)


def _one_per_line(node: ast.Dict) -> bool:
    lines = [(key or value).lineno for key, value in zip(node.keys, node.values, strict=True)]
    return len(lines) > 1 and len(set(lines)) == len(lines)


def _entry_indent(source: Source, node: ast.Dict) -> bytes:
    """White space before an entry, copied from one that begins its line."""
    first: bytes = b""
    for key, value in zip(reversed(node.keys), reversed(node.values), strict=True):
        start = source.span(key if key is not None else value)[0]
        line = source.starts[source.line_of(start) - 1]
        prefix = source.data[line:start]
        if key is None:
            prefix = prefix.rstrip(b"*")
        if not prefix.strip():
            return prefix
        first = prefix
    return re.sub(rb"[^\t]", b" ", first)


def add_union(source: Source, node: ast.expr, key: bytes, value: bytes) -> Edit:
    """Append ``| {key: value}`` to an expression."""
    return Edit(source.span(node)[1], b"", b" | {" + key + b": " + value + b"}")
