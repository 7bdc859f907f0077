# SPDX-License-Identifier: Apache-2.0
"""Follow a table through its scope: where it is built, changed, and what cannot be known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import NotConstant
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import Key
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    FUNCTIONS,
    assigned_value,
    bound_names,
    constant_names,
    find_class,
    flat,
    own_expressions,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source
from ansible_collections.sm120.sglang.plugins.module_utils._patch.tables import (
    Entry,
    Table,
    key_of,
    read_pairs,
    read_table,
)

_READERS = {"get", "items", "keys", "values", "copy", "__contains__", "__getitem__", "__len__"}
# Calls that take a table and leave it as it is.
_HARMLESS = {
    "all", "any", "dict", "enumerate", "frozenset", "isinstance", "iter", "len", "list", "max",
    "min", "print", "repr", "set", "sorted", "str", "sum", "tuple", "type", "id",
    "MappingProxyType", "OrderedDict",
}  # fmt: skip


class Doubtful(Exception):  # noqa: N818 - an answer, not a failure
    """The table's content is not certain.

    Args:
        node: where the doubt comes from.
        reason: why, as the end of a sentence.
    """

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


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
        key: the key in question; run-time changes of other keys do not matter.
    """

    def __init__(self, source: Source, name: str, key: Key) -> None:
        self.source = source
        *self.owner, self.name = name.split(".")
        self.key = key
        self.body: Sequence[ast.stmt] = source.tree.body
        self.known: dict[str, Table] = {}
        self.first: ast.AST | None = None

    def read(self) -> Built:
        """Follow the table from top to bottom.

        Raises:
            Doubtful: it is not there, or not certain.
        """
        later: list[ast.stmt] = []
        if self.owner:
            definition = self._class()
            self.body = definition.body
            top = self._top_level(definition)
            later = self.source.tree.body[self.source.tree.body.index(top) + 1 :]
        self.names = constant_names(self.source.tree, self.source.tree.body)
        if self.owner:
            self.names.update(constant_names(self.source.tree, self.body))
        for statement, certain in flat(self.body):
            self._step(statement, certain=certain, inside=True)
        for statement, certain in flat(later):
            self._step(statement, certain=certain, inside=False)
        if self.first is None:
            raise Doubtful(self.source.tree, "is not defined here")
        self._check_functions()
        return Built(self.known[self.name], self.names, self.first)

    def _class(self) -> ast.ClassDef:
        found = find_class(self.source.tree, self.owner)
        where = ".".join(self.owner)
        if not found:
            raise Doubtful(self.source.tree, f"is not defined here: there is no class {where}")
        definition, certain = found[0]
        if len(found) > 1 or not certain:
            raise Doubtful(
                found[-1][0], f"belongs to class {where}, which is not defined just once"
            )
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
            and _means_class(node.value, self.owner[-1])
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
        for name in bound_names(statement):
            if name == self.name:
                continue
            value = assigned_value(statement, name) if certain else None
            self.known.pop(name, None)
            if isinstance(value, ast.Name) and value.id == self.name:
                raise Doubtful(statement, f"has a second name, {name}")
            if value is not None and isinstance(
                value, (ast.Dict, ast.BinOp, ast.DictComp, ast.Call)
            ):
                self.known[name] = read_table(value, self.names, self.known)
        for node in own_expressions(statement):
            changed = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if isinstance(node, ast.Attribute) and node.attr not in _READERS:
                changed = True
            base = getattr(node, "value", None)
            if changed and isinstance(base, ast.Name) and base.id != self.name:
                self.known.pop(base.id, None)

    def _change(self, statement: ast.stmt, *, inside: bool) -> str:
        """What a statement does to the table: none, bind, mutate or doubt."""
        targets: list[ast.expr] = list(getattr(statement, "targets", []))
        if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
            targets = [statement.target]
        if inside and self.name in bound_names(statement):
            if isinstance(statement, ast.AugAssign):
                return "mutate" if isinstance(statement.op, ast.BitOr) else "doubt"
            plain = assigned_value(statement, self.name) is not None
            return "bind" if plain else "doubt"
        for target in targets:
            if not inside and self._is_table(target, inside=False):
                alone = isinstance(statement, ast.Assign)
                return "bind" if alone else "doubt"
            if isinstance(target, ast.Subscript) and self._is_table(target.value, inside=inside):
                simple = isinstance(statement, (ast.Assign, ast.Delete)) and len(targets) == 1
                return "mutate" if simple else "doubt"
        call = statement.value if isinstance(statement, ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and self._is_table(call.func.value, inside=inside)
            and call.func.attr not in _READERS
        ):
            return "mutate" if call.func.attr in {"update", "setdefault", "pop"} else "doubt"
        return "doubt" if self._leaks(statement, inside=inside) else "none"

    def _leaks(self, statement: ast.stmt, *, inside: bool) -> bool:
        """Whether an expression may change the table: a mutator, or a call that gets hold of it."""
        for node in own_expressions(statement):
            if (
                isinstance(node, ast.Attribute)
                and node.attr not in _READERS
                and self._is_table(node.value, inside=inside)
            ):
                return True
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                arguments = [*node.args, *[keyword.value for keyword in node.keywords]]
                held = any(self._is_table(item, inside=inside) for item in arguments)
                if held and name not in _HARMLESS:
                    return True
        return False

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

    def _check_functions(self) -> None:
        """Refuse a table that functions change at run time, unless they name another key."""
        for function in ast.walk(self.source.tree):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if not self.owner and self._is_local(function):
                continue
            for node in _function_nodes(function):
                self._check_run_time(node)

    def _is_local(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        arguments = function.args
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if any(argument.arg == self.name for argument in names):
            return True
        for node in _function_nodes(function):
            if isinstance(node, ast.Global) and self.name in node.names:
                return False
        return any(
            isinstance(node, ast.Name) and node.id == self.name and isinstance(node.ctx, ast.Store)
            for node in _function_nodes(function)
        )

    def _check_run_time(self, node: ast.AST) -> None:
        if isinstance(node, ast.Global) and self.name in node.names and not self.owner:
            raise Doubtful(node, "is replaced at run time by a function")
        stored = isinstance(getattr(node, "ctx", ast.Load()), (ast.Store, ast.Del))
        if isinstance(node, ast.Attribute) and stored and self.owner and node.attr == self.name:
            raise Doubtful(node, "is replaced at run time")
        if isinstance(node, ast.Subscript) and stored and self._is_table(node.value, inside=False):
            self._other_key(node, node.slice)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.attr not in _READERS
            if changed and self._is_table(node.func.value, inside=False):
                if node.func.attr not in {"setdefault", "pop"} or not node.args:
                    raise Doubtful(node, "is changed at run time")
                self._other_key(node, node.args[0])

    def _other_key(self, node: ast.AST, key: ast.expr) -> None:
        try:
            if key_of(key, self.names) != self.key:
                return
        except NotConstant:
            pass
        raise Doubtful(node, "is changed at run time")


def _function_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function outside the functions that it defines."""
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            todo.extend(ast.iter_child_nodes(node))


def _means_class(node: ast.expr, class_name: str) -> bool:
    """Whether an expression means the class or one of its objects, by the usual names."""
    if isinstance(node, ast.Name):
        return node.id in {"self", "cls", class_name}
    if isinstance(node, ast.Attribute):
        return node.attr in {"__class__", class_name}
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "type"
        and len(node.args) == 1
    )
