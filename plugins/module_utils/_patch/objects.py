# SPDX-License-Identifier: Apache-2.0
"""What objects of a class hold under a name, and which class made it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._patch.classes import Classes, Member
from ansible_collections.sm120.sglang.plugins.module_utils._patch.follow import Bound, follow
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    FUNCTIONS,
    assigned_value,
    bound_names,
    flat,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
_PLAIN_VALUES = (
    ast.Constant, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.JoinedStr, ast.ListComp,
    ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Compare, ast.Lambda,
)  # fmt: skip
_MAX_STEPS = 10


@dataclass(frozen=True)
class Given:
    """One statement by which a method gives objects an attribute.

    Attributes:
        owner: the class whose method it is.
        function: the method.
        statement: the statement.
        value: what it gives; None where the statement does not tell (a loop, ``with``).
    """

    owner: ClassRef
    function: Function
    statement: ast.stmt
    value: ast.expr | None

    @property
    def at(self) -> str:
        """``file:line``."""
        return self.owner.source.at(self.statement)

    @property
    def text(self) -> str:
        """The statement in one short line."""
        return " ".join(ast.unparse(self.statement).split())[:80]

    @property
    def is_none(self) -> bool:
        """It gives None."""
        return isinstance(self.value, ast.Constant) and self.value.value is None


def given_to_objects(classes: Classes, start: ClassRef, name: str) -> list[Given]:
    """Statements by which methods of a class and its bases set ``self.<name>``.

    An ``__init__`` that never runs, because a class in front of it does not call it, is left out.
    """
    order, _ = classes.line(start)
    runs = classes.initialised(order)
    found: list[Given] = []
    for ref in order:
        for function, _ in flat(ref.node.body):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if function.name != "__init__" or any(ref.node is item.node for item in runs):
                found += [
                    Given(ref, function, statement, value)
                    for statement in _statements(function)
                    for value in _values(statement, name)
                ]
    return found


def last_given(given: list[Given]) -> Given | None:
    """What the ``__init__`` that comes first in the line leaves in place for sure."""
    first = next((item.function for item in given if item.function.name == "__init__"), None)
    if first is None:
        return None
    by_statement = {item.statement: item for item in given}
    state = follow(first.body, None, lambda s: True if s in by_statement else None)
    return by_statement[state.statement] if isinstance(state, Bound) else None


def is_deleted(classes: Classes, start: ClassRef, name: str) -> bool:
    """Whether some method deletes ``self.<name>``."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Del)
        and getattr(node.value, "id", "") == "self"
        for ref in classes.line(start)[0]
        for node in ast.walk(ref.node)
    )


def _statements(function: Function) -> Iterator[ast.stmt]:
    """Statements of a function and of the functions in it; not of classes in it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.ClassDef):
            continue
        if isinstance(node, ast.stmt):
            yield node
        todo.extend(
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case))
        )


def _values(statement: ast.stmt, name: str) -> Iterator[ast.expr | None]:
    """What a statement gives to ``self.<name>``."""
    targets = list(getattr(statement, "targets", []))
    if isinstance(statement, ast.Delete):
        targets = []
    value: ast.expr | None = getattr(statement, "value", None)
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target] if statement.value is not None else []
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        targets, value = [statement.target], None
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items if item.optional_vars]
        value = None
    for target in targets:
        yield from _matching(target, value, name)


def _matching(target: ast.expr, value: ast.expr | None, name: str) -> Iterator[ast.expr | None]:
    if isinstance(target, ast.Attribute):
        if target.attr == name and getattr(target.value, "id", "") == "self":
            yield value
        return
    parts: list[ast.expr] = getattr(target, "elts", [])
    values: list[ast.expr] = getattr(value, "elts", [])
    plain = len(parts) == len(values) and not any(
        isinstance(item, ast.Starred) for item in [*parts, *values]
    )
    for index, part in enumerate(parts):
        inner = part.value if isinstance(part, ast.Starred) else part
        yield from _matching(inner, values[index] if plain else None, name)


@dataclass(frozen=True)
class Inner:
    """Which classes an attribute's object may be of.

    Attributes:
        classes: those that are known.
        plain: an expression that gives no object with methods of its own; None where there is
            none.
    """

    classes: tuple[ClassRef, ...] = ()
    plain: ast.expr | None = None


def inner_of(classes: Classes, given: Given) -> Inner:
    """The classes whose objects a statement gives, as far as the source tells."""
    found: list[ClassRef] = []
    plain: list[ast.expr] = []
    todo = [(given.value, 0)]
    while todo:
        value, steps = todo.pop()
        if value is None or steps > _MAX_STEPS:
            continue
        if isinstance(value, ast.IfExp):
            todo += [(value.body, steps + 1), (value.orelse, steps + 1)]
        elif isinstance(value, ast.BoolOp):
            todo += [(item, steps + 1) for item in value.values]
        elif isinstance(value, ast.NamedExpr):
            todo.append((value.value, steps + 1))
        elif isinstance(value, ast.Name):
            todo.append((_local(given.function, value.id), steps + 1))
        elif isinstance(value, ast.Call):
            made = _class_named(classes, given, value.func)
            found += [made] if made else []
        elif isinstance(value, _PLAIN_VALUES) and not _is_none(value):
            plain.append(value)
    return Inner(tuple(found), plain[0] if plain else None)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _class_named(classes: Classes, given: Given, expression: ast.expr) -> ClassRef | None:
    """The class that a called expression means, local names of the method included."""
    for _ in range(_MAX_STEPS):
        if not isinstance(expression, ast.Name):
            break
        own = [
            statement
            for statement, _ in flat(given.function.body)
            if expression.id in bound_names(statement)
        ]
        if len(own) == 1 and isinstance(own[0], ast.ClassDef):
            return ClassRef(given.owner.module, given.owner.source, own[0])
        if len(own) == 1 and isinstance(own[0], ast.ImportFrom):
            origin = classes.modules.absolute(given.owner.module, given.owner.source, own[0])
            names = {alias.asname or alias.name: alias.name for alias in own[0].names}
            meaning = classes.modules.lookup(origin, (names.get(expression.id, "*"),))
            return meaning if isinstance(meaning, ClassRef) else None
        value = _local(given.function, expression.id)
        if value is None:
            if own or expression.id in _parameters(given.function):
                return None
            break
        expression = value
    meaning = classes.modules.resolve(given.owner.module, expression)
    return meaning if isinstance(meaning, ClassRef) else None


def _parameters(function: Function) -> dict[str, ast.expr | None]:
    """Parameters of a function, each with its default."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    padding: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    found = dict(zip((a.arg for a in positional), [*padding, *arguments.defaults], strict=True))
    found.update(
        (argument.arg, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    )
    return found


def _local(function: Function, name: str) -> ast.expr | None:
    """What a local name of a method stands for, where it is bound once and for sure."""
    bound = [pair for pair in flat(function.body) if name in bound_names(pair[0])]
    if not bound:
        return _parameters(function).get(name)
    statement, certain = bound[0]
    return assigned_value(statement, name) if len(bound) == 1 and certain else None


def settles(classes: Classes, ref: ClassRef, name: str) -> str:
    """Why setting ``self.<name>`` may not give objects that attribute; empty where it does."""
    setter = classes.find(ref, "__setattr__")
    if not isinstance(setter, Member):
        return ""
    mentions = any(
        isinstance(node, ast.Constant) and node.value == name for node in ast.walk(setter.node)
    )
    hands_on = any(
        isinstance(node, ast.Attribute) and node.attr in {"__setattr__", "__dict__"}
        for node in ast.walk(setter.node)
    )
    if mentions or not hands_on or not isinstance(setter.node, FUNCTIONS):
        return f"__setattr__ at {setter.at} treats self.{name} in its own way"
    return ""
