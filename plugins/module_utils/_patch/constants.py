# SPDX-License-Identifier: Apache-2.0
"""Work out constant expressions of a source without running it."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Keeps a hostile or broken source from making this evaluate for ever.
_MAX_INT = 1 << 80
_MAX_RANGE = 4096
_MAX_DEPTH = 60

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
}


class NotConstant(Exception):  # noqa: N818 - a question's answer, not a failure
    """The expression's value cannot be known from the source alone."""


def evaluate(node: ast.expr, names: Mapping[str, ast.expr], depth: int = 0) -> Any:
    """Value of a constant expression.

    Args:
        node: the expression.
        names: what each name that is bound exactly once, for sure, stands for.
        depth: nesting so far.

    Raises:
        NotConstant: the value depends on something that only running would tell.
    """
    if depth > _MAX_DEPTH:
        raise NotConstant
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return evaluate(names[node.id], names, depth + 1)
    compound = _COMPOUND.get(type(node))
    if compound is None:
        raise NotConstant
    return compound(node, names, depth + 1)


def _sequence(
    node: ast.Tuple | ast.List | ast.Set, names: Mapping[str, ast.expr], depth: int
) -> tuple[Any, ...] | list[Any] | set[Any]:
    items = [evaluate(item, names, depth) for item in node.elts]
    if isinstance(node, ast.Set):
        return _set(items)
    return tuple(items) if isinstance(node, ast.Tuple) else items


def _set(items: list[Any]) -> set[Any]:
    try:
        return set(items)
    except TypeError as error:
        raise NotConstant from error


def _dict(node: ast.Dict, names: Mapping[str, ast.expr], depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        found = evaluate(value, names, depth)
        try:
            if key is None:
                result.update(found)
            else:
                result[evaluate(key, names, depth)] = found
        except (TypeError, ValueError) as error:
            raise NotConstant from error
    return result


def _unary(node: ast.UnaryOp, names: Mapping[str, ast.expr], depth: int) -> int | float:
    value = evaluate(node.operand, names, depth)
    if not isinstance(value, (int, float)) or not isinstance(node.op, (ast.USub, ast.UAdd)):
        raise NotConstant
    return -value if isinstance(node.op, ast.USub) else +value


def _binary(node: ast.BinOp, names: Mapping[str, ast.expr], depth: int) -> Any:
    left, right = evaluate(node.left, names, depth), evaluate(node.right, names, depth)
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    try:
        if numbers and isinstance(node.op, (ast.LShift, ast.Pow)):
            if not (isinstance(left, int) and isinstance(right, int) and 0 <= right <= 64):
                raise NotConstant
            result = left << right if isinstance(node.op, ast.LShift) else left**right
        elif type(node.op) in _BINARY and (numbers or type(left) is type(right)):
            result = _BINARY[type(node.op)](left, right)
        else:
            raise NotConstant
    except (ArithmeticError, TypeError) as error:
        raise NotConstant from error
    if isinstance(result, int) and abs(result) > _MAX_INT:
        raise NotConstant
    return result


def _call(node: ast.Call, names: Mapping[str, ast.expr], depth: int) -> Any:
    # A name that the module binds itself is in `names` or ambiguous; the caller hides those.
    if not isinstance(node.func, ast.Name) or node.func.id in names or node.keywords:
        raise NotConstant
    values = [evaluate(item, names, depth) for item in node.args]
    name = node.func.id
    try:
        if name in _CONTAINERS and len(values) <= 1:
            return _CONTAINERS[name](*values)
        if name == "range" and 1 <= len(values) <= 3:
            numbers = range(*values)
            if len(numbers) <= _MAX_RANGE:
                return list(numbers)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotConstant from error
    raise NotConstant


_COMPOUND: dict[type[ast.expr], Callable[[Any, Mapping[str, ast.expr], int], Any]] = {
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Call: _call,
}


def literal(text: str) -> Any:
    """Value of a Python literal written as text; arithmetic such as ``64 * 1024`` is allowed.

    Raises:
        NotConstant: it is not one.
    """
    try:
        parsed = ast.parse(text.strip(), mode="eval")
        return evaluate(parsed.body, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotConstant from error
