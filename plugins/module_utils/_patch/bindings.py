# SPDX-License-Identifier: Apache-2.0
"""Follow a table through its scope: where it is built, changed, and what cannot be known."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import NotConstant
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import Key
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scope import (
    Doubtful,
    Scope,
    class_doubt,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    assigned_value,
    bound_names,
    find_class,
    flat,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source
from ansible_collections.sm120.sglang.plugins.module_utils._patch.tables import (
    Entry,
    Table,
    key_of,
    read_pairs,
    read_table,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.uses import FOLLOWED


@dataclass(frozen=True)
class Built:
    """A table that is known for sure.

    Attributes:
        table: its entries.
        names: constants that its expressions may use.
        node: statement that first binds it.
    """

    table: Table
    names: dict[str, ast.expr]
    node: ast.AST


class TableReader:
    """Reads one table of one module.

    Args:
        source: the module.
        name: ``NAME`` or ``Class.NAME``.
        key: the key in question; functions may write other keys.
    """

    def __init__(self, source: Source, name: str, key: Key) -> None:
        self.source = source
        *self.owner, self.name = name.split(".")
        self.key = key
        self.known: dict[str, Table] = {}
        self.first: ast.AST | None = None

    def read(self) -> Built:
        """Follow the table from top to bottom.

        Raises:
            Doubtful: it is not there, or not certain.
        """
        tree = self.source.tree
        definition = self._class() if self.owner else None
        later: list[ast.stmt] = []
        if definition is not None:
            later = tree.body[tree.body.index(self._top_level(definition)) + 1 :]
        self.scope = Scope(tree, definition, self.name)
        self.names = self.scope.constants()
        self.scope.check_uses(self._is_other_key)
        for statement, certain in flat(self.scope.body):
            self._step(statement, certain=certain, inside=True)
        for statement, certain in flat(later):
            self._step(statement, certain=certain, inside=False)
        if self.first is None:
            raise Doubtful(tree, "is not defined here")
        return Built(self.known[self.name], self.names, self.first)

    def _class(self) -> ast.ClassDef:
        found = find_class(self.source.tree, self.owner)
        where = ".".join(self.owner)
        if not found:
            raise Doubtful(self.source.tree, f"is not defined here: there is no class {where}")
        definition, certain = found[0]
        bound = [s for s, _ in flat(self.source.tree.body) if self.owner[0] in bound_names(s)]
        if len(found) > 1 or not certain or len(bound) > 1:
            raise Doubtful(
                [*found, (bound[-1], True)][-1][0],
                f"belongs to class {where}, which is not defined just once",
            )
        doubt = class_doubt(definition, self.source.tree)
        if doubt:
            raise Doubtful(definition, f"belongs to class {where}, which {doubt}")
        return definition

    def _top_level(self, definition: ast.ClassDef) -> ast.stmt:
        for statement in self.source.tree.body:
            if statement.lineno <= definition.lineno <= (statement.end_lineno or 0):
                return statement
        raise Doubtful(definition, "belongs to a class that is not found at the top level")

    def _is_table(self, node: ast.AST, *, inside: bool) -> bool:
        """Whether an expression means the table: by bare name in its scope, else by its class."""
        if inside or not self.owner:
            return isinstance(node, ast.Name) and node.id == self.name
        return (
            isinstance(node, ast.Attribute)
            and node.attr == self.name
            and getattr(node.value, "id", getattr(node.value, "attr", "")) == self.owner[-1]
        )

    def _step(self, statement: ast.stmt, *, certain: bool, inside: bool) -> None:
        if inside:
            self._note_other_tables(statement, certain=certain)
        change = self._change(statement, inside=inside)
        if change == "none":
            return
        if not certain:
            raise Doubtful(statement, "is changed under a condition or in a loop")
        if change == "doubt":
            raise Doubtful(statement, "is changed in a way that cannot be followed")
        if self.first is None and change != "bind":
            raise Doubtful(statement, "is changed before it is built")
        if change == "bind":
            self._rebind(statement, inside=inside)
        else:
            self._mutate(statement)
        self.first = self.first or statement

    def _note_other_tables(self, statement: ast.stmt, *, certain: bool) -> None:
        """Remember tables that this one may be built from."""
        for name in bound_names(statement):
            value = assigned_value(statement, name) if certain and name != self.name else None
            table = (ast.Dict, ast.BinOp, ast.DictComp, ast.Call)
            if isinstance(value, table) and self.scope.stable(name):
                self.known[name] = read_table(value, self.names, self.known)

    def _change(self, statement: ast.stmt, *, inside: bool) -> str:
        """What a statement does to the table: none, bind, mutate or doubt."""
        targets: list[ast.expr] = list(getattr(statement, "targets", []))
        if inside and self.name in bound_names(statement):
            if isinstance(statement, ast.AugAssign):
                return "mutate" if isinstance(statement.op, ast.BitOr) else "doubt"
            plain = assigned_value(statement, self.name) is not None
            return "bind" if plain else "doubt"
        for target in targets:
            if not inside and self._is_table(target, inside=False):
                return "bind" if isinstance(statement, ast.Assign) else "doubt"
            if isinstance(target, ast.Subscript) and self._is_table(target.value, inside=inside):
                return "mutate"
        call = statement.value if isinstance(statement, ast.Expr) else None
        called = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and self._is_table(call.func.value, inside=inside)
            and call.func.attr in FOLLOWED
        )
        return "mutate" if called else "none"

    def _rebind(self, statement: ast.stmt, *, inside: bool) -> None:
        value = assigned_value(statement, self.name) if inside else None
        if value is None and isinstance(statement, ast.Assign):
            value = statement.value
        if value is None:
            raise Doubtful(statement, "gets a value that cannot be followed")
        self.known[self.name] = read_table(value, self.names, self.known)

    def _mutate(self, statement: ast.stmt) -> None:
        table = self.known[self.name]
        try:
            if isinstance(statement, ast.AugAssign):
                table.absorb(read_table(statement.value, self.names, self.known))
            elif isinstance(statement, ast.Assign) and isinstance(
                statement.targets[0], ast.Subscript
            ):
                key = key_of(statement.targets[0].slice, self.names)
                table.entries[key] = Entry(statement.value, statement)
            elif isinstance(statement, ast.Delete) and isinstance(
                statement.targets[0], ast.Subscript
            ):
                table.entries.pop(key_of(statement.targets[0].slice, self.names), None)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._called(table, statement.value)
        except NotConstant as error:
            raise Doubtful(statement, "gets a key that is not a constant") from error

    def _called(self, table: Table, call: ast.Call) -> None:
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method == "update":
            table.absorb(read_pairs(call, self.names, self.known))
            return
        if not call.args:
            raise NotConstant
        key = key_of(call.args[0], self.names)
        if method == "pop":
            table.entries.pop(key, None)
        else:
            value = call.args[1] if len(call.args) > 1 else None
            table.entries.setdefault(key, Entry(value, call))

    def _is_other_key(self, key: ast.expr) -> bool:
        try:
            return bool(key_of(key, self.names) != self.key)
        except NotConstant:
            return False
