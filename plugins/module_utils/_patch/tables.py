# SPDX-License-Identifier: Apache-2.0
"""Which keys a dict expression has, known from the source alone, and where one more would go."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import (
    NotConstant,
    evaluate,
)

# Types that hand their argument's entries on unchanged.
_WRAPPERS = ("OrderedDict", "MappingProxyType")
_WRAPPER_MODULES = ("collections", "types", "typing")
_PAIR = 2


@dataclass(frozen=True)
class Entry:
    """One entry: the node of its value (None where a value is computed) and where it stands."""

    value: ast.expr | None
    node: ast.AST


@dataclass(frozen=True)
class Site:
    """Where a new entry goes: into a literal's braces, or ``expression | {...}``."""

    kind: Literal["literal", "union"]
    node: ast.expr


@dataclass
class Table:
    """A dict as far as it is known.

    Attributes:
        entries: known entries by key.
        site: where an entry can be added; None where no place is certain.
        unknown: why other keys may exist; empty where all keys are known.
    """

    entries: dict[Any, Entry] = field(default_factory=dict)
    site: Site | None = None
    unknown: str = ""

    def absorb(self, other: Table) -> None:
        """Take over the entries of a table that is merged into this one."""
        self.entries.update(other.entries)
        self.unknown = self.unknown or other.unknown


def read_table(node: ast.expr, names: Mapping[str, ast.expr], known: Mapping[str, Table]) -> Table:
    """Read a dict expression.

    Args:
        node: the expression.
        names: constants of the scope.
        known: tables that earlier statements of the scope built, by name.
    """
    if isinstance(node, ast.Dict):
        return _read_literal(node, names, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        table = Table()
        parts = [read_table(part, names, known) for part in (node.left, node.right)]
        for part in parts:
            table.absorb(part)
        literals = [part.site for part in parts if part.site and part.site.kind == "literal"]
        table.site = literals[-1] if literals else Site("union", node)
        return table
    if isinstance(node, ast.DictComp):
        return _read_comprehension(node, names)
    if isinstance(node, ast.Call):
        return _read_call(node, names, known)
    if isinstance(node, ast.Name) and node.id in known:
        shared = known[node.id]
        return Table(dict(shared.entries), None, shared.unknown)
    return Table(unknown=f"'{_short(node)}' is not a dict whose keys the source tells")


def key_of(node: ast.expr, names: Mapping[str, ast.expr]) -> Hashable:
    """Value of a key.

    Raises:
        NotConstant: it cannot be known, or cannot be a key.
    """
    value = evaluate(node, names)
    try:
        hash(value)
    except TypeError as error:
        raise NotConstant from error
    return value  # type: ignore[no-any-return]


def _read_literal(
    node: ast.Dict, names: Mapping[str, ast.expr], known: Mapping[str, Table]
) -> Table:
    table = Table(site=Site("literal", node))
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            table.absorb(read_table(value, names, known))
            continue
        try:
            table.entries[key_of(key, names)] = Entry(value, key)
        except NotConstant:
            table.unknown = table.unknown or f"key '{_short(key)}' is not a constant"
    return table


def _read_comprehension(node: ast.DictComp, names: Mapping[str, ast.expr]) -> Table:
    table = Table(site=Site("union", node))
    doubt = Table(unknown=f"the keys of '{_short(node)}' are computed")
    generator = node.generators[0]
    if len(node.generators) > 1 or generator.ifs or generator.is_async:
        return doubt
    try:
        for item in _items(generator.iter, names):
            local = {**names, **_bind(generator.target, item)}
            table.entries[key_of(node.key, local)] = Entry(None, node)
    except NotConstant:
        return doubt
    return table


def _items(node: ast.expr, names: Mapping[str, ast.expr]) -> list[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return list(node.elts)
    values = evaluate(node, names)
    if not isinstance(values, (tuple, list)):
        raise NotConstant
    return [_as_node(value) for value in values]


def _as_node(value: object) -> ast.expr:
    """A constant of any nesting as an expression."""
    if isinstance(value, (tuple, list)):
        return ast.Tuple(elts=[_as_node(item) for item in value], ctx=ast.Load())
    if value is not None and not isinstance(value, (str, bytes, int, float, bool)):
        raise NotConstant
    return ast.Constant(value=value)


def _bind(target: ast.expr, item: ast.expr) -> dict[str, ast.expr]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(item, (ast.Tuple, ast.List)):
        if len(target.elts) != len(item.elts):
            raise NotConstant
        bound: dict[str, ast.expr] = {}
        for part, value in zip(target.elts, item.elts, strict=True):
            bound.update(_bind(part, value))
        return bound
    raise NotConstant


def _read_call(node: ast.Call, names: Mapping[str, ast.expr], known: Mapping[str, Table]) -> Table:
    function = node.func
    called = function.id if isinstance(function, ast.Name) and function.id not in names else ""
    if isinstance(function, ast.Attribute):
        module = isinstance(function.value, ast.Name) and function.value.id in _WRAPPER_MODULES
        called = function.attr if module else ""
        if function.attr == "copy" and not node.args and not node.keywords:
            table = read_table(function.value, names, known)
            return Table(table.entries, Site("union", node), table.unknown)
    elif called == "dict":
        table = read_pairs(node, names, known)
        inner = table.site
        table.site = inner if inner and inner.kind == "literal" else Site("union", node)
        return table
    if called in _WRAPPERS and len(node.args) == 1 and not node.keywords:
        return read_table(node.args[0], names, known)
    return Table(unknown=f"'{_short(node)}' is not a dict whose keys the source tells")


def read_pairs(call: ast.Call, names: Mapping[str, ast.expr], known: Mapping[str, Table]) -> Table:
    """Read the arguments of ``dict(...)`` or ``table.update(...)``."""
    table = Table()
    if len(call.args) > 1:
        table.unknown = f"'{_short(call)}' has more than one argument"
    for argument in call.args[:1]:
        table = _read_sequence(argument, names) or read_table(argument, names, known)
    for keyword in call.keywords:
        if keyword.arg is None:
            table.absorb(read_table(keyword.value, names, known))
        else:
            table.entries[keyword.arg] = Entry(keyword.value, keyword.value)
    return table


def _read_sequence(node: ast.expr, names: Mapping[str, ast.expr]) -> Table | None:
    """A list of pairs or a ``zip``; None where the expression is neither."""
    pairs: list[tuple[ast.expr, ast.expr | None]] = []
    if isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            if not isinstance(item, (ast.Tuple, ast.List)) or len(item.elts) != _PAIR:
                return None
            pairs.append((item.elts[0], item.elts[1]))
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "zip"
        and "zip" not in names
        and len(node.args) == _PAIR
    ):
        try:
            columns = [_items(argument, names) for argument in node.args]
        except NotConstant:
            return None
        pairs = list(zip(*columns, strict=False))
    else:
        return None
    table = Table()
    try:
        table.entries = {key_of(key, names): Entry(value, node) for key, value in pairs}
    except NotConstant:
        table.unknown = f"the keys of '{_short(node)}' are not all constants"
    return table


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
