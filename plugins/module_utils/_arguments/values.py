# SPDX-License-Identifier: Apache-2.0
"""Values of a release's constants, across its files, as far as the source tells them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.scope import (
    Definition,
    Member,
    Opaque,
    Pending,
    Scope,
    Unresolved,
    with_known,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import Modules
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    bound_names,
    flat,
)

_MAX_DEPTH = 40
_MAX_STEPS = 200_000  # the newest release takes some 4 000; a hostile source would take for ever
_GROWS = ("add", "append", "extend", "update")  # methods that only make a collection larger
_COLLECT = ("list", "tuple", "set", "frozenset", "sorted")


class Values:
    """Works values out.

    Args:
        modules: The release's modules.

    Attributes:
        doubts: Places where a collection may hold more than was found; the caller empties it.
    """

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.doubts: list[str] = []
        self._tables: dict[int, dict[str, list[tuple[ast.stmt, bool]]]] = {}
        self._growths: dict[int, dict[str, list[tuple[ast.Call, bool]]]] = {}
        self._depth = 0
        self._steps = 0

    def value(self, scope: Scope, node: ast.expr) -> Any:
        """The value of an expression.

        Returns:
            A constant, a collection of values, a `Member`, or a `Definition`.

        Raises:
            Unresolved: The source alone does not tell.
        """
        self._steps += 1
        if self._depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            raise Unresolved(f"{scope.at(node)} is nested too deeply, or defined through itself")
        self._depth += 1
        try:
            return self._value(scope, node)
        except (TypeError, ValueError, AttributeError) as error:
            raise Unresolved(f"{scope.at(node)}: {error}") from error
        finally:
            self._depth -= 1

    def _value(self, scope: Scope, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.name(scope, node.id)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return self._items(scope, node.elts)
        handlers: dict[type[ast.expr], Any] = {
            ast.Attribute: self._attribute,
            ast.BinOp: self._binary,
            ast.Call: self._call,
            ast.Dict: self._dict,
            ast.JoinedStr: self._text,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.UnaryOp: self._unary,
        }
        handler = handlers.get(type(node))
        if handler is None:
            raise Unresolved(f"{scope.at(node)}: {ast.unparse(node)[:60]} is computed")
        return handler(scope, node)

    def _items(self, scope: Scope, nodes: Iterable[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items += self.iterate(scope, self.value(scope, node.value))
                continue
            items.append(self._or_opaque(scope, node))
        return items

    def _or_opaque(self, scope: Scope, node: ast.expr) -> Any:
        try:
            return self.value(scope, node)
        except Unresolved:
            return Opaque()

    def _dict(self, scope: Scope, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.value(scope, value))
            else:
                result[self.value(scope, key)] = Pending(scope, value)
        return result

    def _text(self, scope: Scope, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            parts.append(str(self.value(scope, inner)))
        return "".join(parts)

    def _unary(self, scope: Scope, node: ast.UnaryOp) -> Any:
        value = self.value(scope, node.operand)
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        raise Unresolved(f"{scope.at(node)} is computed")

    def _binary(self, scope: Scope, node: ast.BinOp) -> Any:
        left, right = self.value(scope, node.left), self.value(scope, node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(node.op, (ast.Add, ast.BitOr)) and not isinstance(left, dict):
            return [*self.iterate(scope, left), *self.iterate(scope, right)]
        if isinstance(node.op, ast.BitOr):
            return left | right
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if numbers and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            signs = {ast.Add: 1, ast.Sub: -1}
            return (
                left * right
                if isinstance(node.op, ast.Mult)
                else (left + signs[type(node.op)] * right)
            )
        raise Unresolved(f"{scope.at(node)} is computed")

    def _comprehension(self, scope: Scope, node: ast.ListComp) -> list[Any]:
        loop = node.generators[0]
        if len(node.generators) != 1 or not isinstance(loop.target, ast.Name):
            raise Unresolved(f"{scope.at(node)} is computed")
        if loop.ifs:
            self.doubts.append(scope.at(node))
        items = self.iterate(scope, self.value(scope, loop.iter))
        return [self.value(with_known(scope, {loop.target.id: item}), node.elt) for item in items]

    def iterate(self, scope: Scope, value: Any) -> list[Any]:
        """The items that a loop over a value sees.

        Raises:
            Unresolved: It is not a collection that the source tells.
        """
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return list(value)
        if isinstance(value, Definition) and isinstance(value.node, ast.ClassDef):
            members = [m for m in self.members(value) if isinstance(m, Member)]
            if members:
                return members
        raise Unresolved(f"{scope.source.path}: a loop over {type(value).__name__}")

    def members(self, owner: Definition) -> list[Any]:
        """The members of an enumeration; empty for any other class."""
        if not isinstance(owner.node, ast.ClassDef):
            return []
        if not any("Enum" in ast.unparse(base) for base in owner.node.bases):
            return []
        inside = Scope(owner.scope.module, owner.scope.source, owner=owner.node)
        return [
            Member(target.id, self._or_opaque(inside, statement.value))
            for statement in owner.node.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name) and not target.id.startswith("_")
        ]

    def _attribute(self, scope: Scope, node: ast.Attribute) -> Any:
        base = self.value(scope, node.value)
        if isinstance(base, Member):
            return {"name": base.name, "value": base.value}[node.attr]
        if isinstance(base, Definition) and isinstance(base.node, ast.ClassDef):
            for member in self.members(base):
                if member.name == node.attr:
                    return member
            inside = Scope(base.scope.module, base.scope.source, owner=base.node)
            bindings = self._names_in(base.node.body).get(node.attr, [])
            return self._bound(inside, node.attr, bindings)
        raise Unresolved(f"{scope.at(node)}: {ast.unparse(node)[:60]} is computed")

    def name(self, scope: Scope, name: str) -> Any:
        """The value of a name.

        Raises:
            Unresolved: It is not told by the source.
        """
        if name in scope.known:
            return scope.known[name]
        for body in (scope.body, scope.owner.body if scope.owner else ()):
            bindings = self._names_in(body).get(name, [])
            if bindings:
                return self._grown(scope, name, self._bound(scope, name, bindings), body)
        outside, body = Scope(scope.module, scope.source), scope.source.tree.body
        value = self._bound(outside, name, self._names_in(body).get(name, []))
        return self._grown(outside, name, value, body)

    def _names_in(self, body: Sequence[ast.stmt]) -> Mapping[str, list[tuple[ast.stmt, bool]]]:
        """The statements of a body that bind each name, with whether they run for sure."""
        if not body:
            return {}
        key = id(body[0])  # the modules keep their trees, so an id stays that statement's own
        if key not in self._tables:
            table: dict[str, list[tuple[ast.stmt, bool]]] = {}
            for statement, certain in flat(body):
                for name in bound_names(statement):
                    table.setdefault(name, []).append((statement, certain))
            self._tables[key] = table
        return self._tables[key]

    def _bound(self, scope: Scope, name: str, bindings: list[tuple[ast.stmt, bool]]) -> Any:
        """What the last certain binding gives, with everything that later ones may add."""
        value: Any = None
        found = False
        for statement, certain in bindings:
            one = self._binding(scope, name, statement, value if found else None)
            if found and not certain and isinstance(one, (list, set, tuple)):
                one = [*self.iterate(scope, value), *one]
            value, found = one, True
        if not found:
            raise Unresolved(f"{name} is not defined in {scope.source.path}")
        return value

    def _binding(self, scope: Scope, name: str, statement: ast.stmt, before: Any) -> Any:
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return Definition(scope, statement)
        if isinstance(statement, ast.ImportFrom):
            return self._imported(scope, name, statement)
        if isinstance(statement, ast.AugAssign) and before is not None:
            return [
                *self.iterate(scope, before),
                *self.iterate(scope, self.value(scope, statement.value)),
            ]
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return self.value(scope, statement.value)
        raise Unresolved(f"{scope.at(statement)}: {name} is computed")

    def _imported(self, scope: Scope, name: str, statement: ast.ImportFrom) -> Any:
        origin = self.modules.absolute(scope.module, scope.source, statement)
        own = {alias.asname or alias.name: alias.name for alias in statement.names}[name]
        try:
            source = self.modules.module(origin)
        except SourceError as error:
            raise Unresolved(error.cause) from error
        if source is None:
            raise Unresolved(f"{scope.at(statement)}: {origin} is not in this release")
        return self.name(Scope(origin, source), own)

    def _grown(self, scope: Scope, name: str, value: Any, body: Sequence[ast.stmt]) -> Any:
        """A collection with everything that the statements of its scope may add to it."""
        if not isinstance(value, (list, set, tuple)):
            return value
        items = list(value)
        for call, single in self._growths_in(body).get(name, []):
            more = self.value(scope, call.args[0])
            items += [more] if single else self.iterate(scope, more)
        return items

    def _growths_in(self, body: Sequence[ast.stmt]) -> Mapping[str, list[tuple[ast.Call, bool]]]:
        """Calls in a body that add to a name, with whether they add one item alone."""
        key = id(body[0])
        if key not in self._growths:
            table: dict[str, list[tuple[ast.Call, bool]]] = {}
            for statement, _ in flat(body):
                call = statement.value if isinstance(statement, ast.Expr) else None
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                    continue
                target = call.func.value
                grows = call.func.attr in _GROWS and len(call.args) == 1
                if isinstance(target, ast.Name) and grows:
                    single = call.func.attr in ("add", "append")
                    table.setdefault(target.id, []).append((call, single))
            self._growths[key] = table
        return self._growths[key]

    def _call(self, scope: Scope, node: ast.Call) -> Any:
        called = node.func
        if isinstance(called, ast.Name):
            if called.id in _COLLECT and len(node.args) == 1:
                return self.iterate(scope, self.value(scope, node.args[0]))
            if called.id in _COLLECT and not node.args:
                return []
            if called.id == "get_args" and len(node.args) == 1:
                return self._literal(scope, node.args[0])
        if isinstance(called, ast.Attribute) and not node.args:
            return self._method(scope, called)
        function = self.value(scope, called)
        if isinstance(function, Definition) and not node.args and not node.keywords:
            return self._returned(function)
        raise Unresolved(f"{scope.at(node)}: {ast.unparse(node)[:60]} is computed")

    def _literal(self, scope: Scope, node: ast.expr) -> list[Any]:
        alias = node
        if isinstance(node, ast.Name):
            for statement, _ in self._names_in(scope.source.tree.body).get(node.id, []):
                if isinstance(statement, ast.Assign):
                    alias = statement.value
        if isinstance(alias, ast.Subscript) and ast.unparse(alias.value).endswith("Literal"):
            inner = alias.slice
            return self._items(scope, inner.elts if isinstance(inner, ast.Tuple) else [inner])
        raise Unresolved(f"{scope.at(node)}: {ast.unparse(node)[:60]} is no Literal")

    def _method(self, scope: Scope, called: ast.Attribute) -> Any:
        base = self.value(scope, called.value)
        if isinstance(base, dict) and called.attr == "keys":
            return list(base)
        if isinstance(base, dict) and called.attr == "values":
            return [self._or_opaque(one.scope, one.node) for one in base.values()]
        if isinstance(base, str) and called.attr in ("lower", "upper", "strip"):
            return getattr(base, called.attr)()
        if isinstance(base, (list, set)) and called.attr == "copy":
            return list(base)
        raise Unresolved(f"{scope.at(called)}: {ast.unparse(called)[:60]} is computed")

    def _returned(self, function: Definition) -> Any:
        """Everything that a function may return, as one collection."""
        if isinstance(function.node, ast.ClassDef):
            raise Unresolved(f"{function.scope.at(function.node)} is a class")
        inside = Scope(function.scope.module, function.scope.source, tuple(function.node.body))
        returns = [s.value for s, _ in flat(function.node.body) if isinstance(s, ast.Return)]
        found: list[Any] = []
        for expression in filter(None, returns):
            found += self._unless_unresolved(inside, expression)
        if not found:
            raise Unresolved(f"what {inside.at(function.node)} returns is computed")
        if len(found) == 1:
            return found[0]
        return [item for value in found for item in self.iterate(inside, value)]

    def _unless_unresolved(self, scope: Scope, node: ast.expr) -> list[Any]:
        try:
            return [self.value(scope, node)]
        except Unresolved as unresolved:
            self.doubts.append(str(unresolved))
            return []
