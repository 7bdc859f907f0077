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
_MAX_STEPS = 5_000

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


class _Walk:
    """One evaluation: the names it may use, and how far it has come.

    Names may stand for expressions that use each other's values many times over, so that the
    steps have to be counted.
    """

    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self.names = names
        self.depth = self.steps = 0

    def value(self, node: ast.expr) -> Any:
        """Value of one expression."""
        self.steps += 1
        if self.depth > _MAX_DEPTH or self.steps > _MAX_STEPS:
            raise NotConstant
        if isinstance(node, ast.Constant):
            return node.value
        self.depth += 1
        try:
            if isinstance(node, ast.Name) and node.id in self.names:
                return self.value(self.names[node.id])
            compound = _COMPOUND.get(type(node))
            if compound is None:
                raise NotConstant
            return compound(node, self)
        finally:
            self.depth -= 1


def evaluate(node: ast.expr, names: Mapping[str, ast.expr]) -> Any:
    """Value of a constant expression.

    Args:
        node: the expression.
        names: what each name that is bound exactly once, for sure, stands for.

    Raises:
        NotConstant: the value depends on something that only running would tell.
    """
    return _Walk(names).value(node)


def _sequence(
    node: ast.Tuple | ast.List | ast.Set, walk: _Walk
) -> tuple[Any, ...] | list[Any] | set[Any]:
    items = [walk.value(item) for item in node.elts]
    if isinstance(node, ast.Set):
        return _set(items)
    return tuple(items) if isinstance(node, ast.Tuple) else items


def _set(items: list[Any]) -> set[Any]:
    try:
        return set(items)
    except TypeError as error:
        raise NotConstant from error


def _dict(node: ast.Dict, walk: _Walk) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        found = walk.value(value)
        try:
            if key is None:
                result.update(found)
            else:
                result[walk.value(key)] = found
        except (TypeError, ValueError) as error:
            raise NotConstant from error
    return result


def _unary(node: ast.UnaryOp, walk: _Walk) -> int | float:
    value = walk.value(node.operand)
    if not isinstance(value, (int, float)) or not isinstance(node.op, (ast.USub, ast.UAdd)):
        raise NotConstant
    return -value if isinstance(node.op, ast.USub) else +value


def _binary(node: ast.BinOp, walk: _Walk) -> Any:
    left, right = walk.value(node.left), walk.value(node.right)
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


def _call(node: ast.Call, walk: _Walk) -> Any:
    # A name that the module binds itself is in `names` or ambiguous; the caller hides those.
    if not isinstance(node.func, ast.Name) or node.func.id in walk.names or node.keywords:
        raise NotConstant
    values = [walk.value(item) for item in node.args]
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


_COMPOUND: dict[type[ast.expr], Callable[[Any, _Walk], Any]] = {
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
