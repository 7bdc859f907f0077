# SPDX-License-Identifier: Apache-2.0
"""How a table is read: does a place that looks a key up cope with its absence."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Lookup:
    """One place that reads the table.

    Attributes:
        where: ``file:line``.
        text: the expression.
        copes: a missing key is handled there.
    """

    where: str
    text: str
    copes: bool


def find_lookups(source: Source, table: str) -> list[Lookup]:
    """Places of a module that read a table by key.

    Args:
        source: the module that reads.
        table: ``NAME`` or ``Class.NAME``; imports under another name are followed.
    """
    *owner, name = table.split(".")
    names = {name} if owner else _local_names(source.tree, name)
    found: list[Lookup] = []
    for node, guards in _with_guards(source.tree.body, ()):
        lookup = _lookup(source, node, guards, names, by_attribute=bool(owner))
        if lookup:
            found.append(lookup)
    return sorted(found, key=lambda item: int(item.where.rsplit(":", 1)[1]))


def _local_names(tree: ast.Module, name: str) -> set[str]:
    names = {name}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {a.asname for a in node.names if a.name == name and a.asname}
    return names


def _is_table(node: ast.AST, names: set[str], *, by_attribute: bool) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in names
    return not by_attribute and isinstance(node, ast.Name) and node.id in names


def _lookup(
    source: Source,
    node: ast.AST,
    guards: tuple[str, ...],
    names: set[str],
    *,
    by_attribute: bool,
) -> Lookup | None:
    read: ast.expr | None = None
    copes = False
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        read = node.value
        guarded = f"{ast.unparse(node.slice)} in {ast.unparse(node.value)}" in guards
        copes = guarded or "KeyError" in guards
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        read = node.func.value if node.func.attr == "get" else None
        copes = True
    if read is None or not _is_table(read, names, by_attribute=by_attribute):
        return None
    return Lookup(source.at(node), ast.unparse(node), copes)


def _with_guards(
    body: Sequence[ast.stmt], guards: tuple[str, ...]
) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Every node with the membership tests that hold where it runs."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _expressions(statement.test, guards)
            holds, fails = _tests(statement.test)
            yield from _with_guards(statement.body, guards + holds)
            yield from _with_guards(statement.orelse, guards + fails)
            if statement.body and isinstance(statement.body[-1], _LEAVES):
                guards += fails
        elif isinstance(statement, ast.Try):
            caught = ("KeyError",) if any(map(_catches, statement.handlers)) else ()
            yield from _with_guards(statement.body, guards + caught)
            for handler in statement.handlers:
                yield from _with_guards(handler.body, guards)
            yield from _with_guards([*statement.orelse, *statement.finalbody], guards)
        else:
            inner = [getattr(statement, "body", []), getattr(statement, "orelse", [])]
            for child in ast.iter_child_nodes(statement):
                if not isinstance(child, ast.stmt):
                    yield from _expressions(child, guards)
            for block in inner:
                if isinstance(block, list):
                    yield from _with_guards(block, guards)


def _expressions(
    node: ast.AST, guards: tuple[str, ...]
) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    yield node, guards
    if isinstance(node, ast.IfExp):
        holds, fails = _tests(node.test)
        yield from _expressions(node.test, guards)
        yield from _expressions(node.body, guards + holds)
        yield from _expressions(node.orelse, guards + fails)
        return
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _expressions(value, guards)
            holds, fails = _tests(value)
            guards += holds if isinstance(node.op, ast.And) else fails
        return
    for child in ast.iter_child_nodes(node):
        yield from _expressions(child, guards)


def _tests(test: ast.expr) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Membership tests that hold when a condition is true, and when it is false."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        holds, fails = _tests(test.operand)
        return fails, holds
    if isinstance(test, ast.BoolOp):
        parts = [_tests(value) for value in test.values]
        if isinstance(test.op, ast.And):
            return tuple(guard for holds, _ in parts for guard in holds), ()
        return (), tuple(guard for _, fails in parts for guard in fails)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        text = f"{ast.unparse(test.left)} in {ast.unparse(test.comparators[0])}"
        if isinstance(test.ops[0], ast.In):
            return (text,), ()
        if isinstance(test.ops[0], ast.NotIn):
            return (), (text,)
    return (), ()


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        isinstance(item, ast.Name) and item.id in {"KeyError", "LookupError", "Exception"}
        for item in types
    )
