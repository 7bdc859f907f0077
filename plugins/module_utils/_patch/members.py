# SPDX-License-Identifier: Apache-2.0
"""How a statement gives a class a name, and what it is then."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    bound_names,
    flat,
    names_of_target,
    own_expressions,
)

# ``stub`` only raises NotImplementedError, or does nothing; ``value`` is a constant that cannot
# be called; ``instance`` is given by ``__init__``, ``getattr`` by a forwarding ``__getattr__``.
Kind = Literal["method", "property", "attribute", "instance", "getattr", "stub", "value"]


def binds(statement: ast.stmt, name: str) -> Kind | Literal["delete"] | None:
    """How a statement of a class body binds a name."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return _function_kind(statement) if statement.name == name else None
    if isinstance(statement, ast.ClassDef):
        return "attribute" if statement.name == name else None
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return "attribute" if any((a.asname or a.name) == name for a in statement.names) else None
    if isinstance(statement, ast.Delete):
        return "delete" if any(name in names_of_target(t) for t in statement.targets) else None
    targets: Sequence[ast.expr] = getattr(statement, "targets", [])
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target] if statement.value is not None else []
    if any(name in names_of_target(target) for target in targets):
        return value_kind(getattr(statement, "value", None))
    # A loop, a `with`, a pattern or `:=`; the name that `except` gives is taken away again.
    handled = isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar"
    return "attribute" if not handled and name in bound_names(statement) else None


def _function_kind(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Kind:
    names = {ast.unparse(item).rsplit(".", 1)[-1] for item in node.decorator_list}
    if names & {"property", "cached_property"}:
        return "property"
    return "stub" if _is_stub(node) or "abstractmethod" in names else "method"


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function only promises: it always raises NotImplementedError, or does nothing."""
    return does_nothing(node) or _only_raises(node)


def _only_raises(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    last = node.body[-1]
    if not isinstance(last, ast.Raise) or last.exc is None:
        return False
    raised = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    ways_out = (ast.Return, ast.Yield, ast.YieldFrom, ast.Raise)
    others = [item for s in node.body[:-1] for item in ast.walk(s) if isinstance(item, ways_out)]
    return getattr(raised, "id", "") == "NotImplementedError" and not others


def does_nothing(node: ast.AST) -> bool:
    """Whether a function has no statement but ``pass``, ``...`` and its documentation."""
    body: list[ast.stmt] = getattr(node, "body", [])
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and all(
        isinstance(item, ast.Pass)
        or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
        for item in body
    )


def is_silent(node: ast.AST) -> bool:
    """Whether a function does nothing without the usual signs of a promise."""
    if not does_nothing(node):
        return False
    abstract = [ast.unparse(item) for item in getattr(node, "decorator_list", [])]
    dots = [s for s in getattr(node, "body", []) if getattr(s, "value", None) is not None]
    return not (
        any(name.endswith("abstractmethod") for name in abstract)
        or any(getattr(statement.value, "value", None) is ... for statement in dots)
    )


def value_kind(value: ast.expr | None) -> Kind:
    plain = (ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr)
    return "value" if isinstance(value, plain) else "attribute"


def binds_outside(
    statement: ast.stmt, class_name: str, name: str, tree: ast.Module
) -> Kind | Literal["delete"] | None:
    """How a statement behind the class gives it a name: ``K.m =`` or ``setattr(K, "m", ..)``."""
    for node in own_expressions(statement):
        if isinstance(node, ast.Attribute) and node.attr == name and _is(node.value, class_name):
            if isinstance(node.ctx, ast.Del):
                return "delete"
            if isinstance(node.ctx, ast.Store):
                alone = getattr(statement, "targets", []) == [node]
                return value_kind(getattr(statement, "value", None) if alone else node)
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        function, first, second = getattr(node.func, "id", ""), node.args[0], node.args[1]
        if not _is(first, class_name):
            continue
        if function == "setattr" and name in (names_given(second, tree) or ()):
            return value_kind(node.args[2] if len(node.args) > 2 else None)
        if function == "delattr" and name in (names_given(second, tree) or ()):
            return "delete"
    return None


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def names_given(node: ast.expr, tree: ast.Module) -> list[str] | None:
    """The constant names that an expression takes, in a loop for example; None if not certain."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if not isinstance(node, ast.Name):
        return None
    found: list[str] | None = None
    for statement, certain in flat(tree.body):
        if node.id not in bound_names(statement):
            continue
        if found is not None or not certain:
            return None  # bound more than once, or on some ways only
        items: list[ast.expr] = []
        if isinstance(statement, ast.For):
            items = getattr(statement.iter, "elts", [])
        elif isinstance(statement, ast.Assign):
            items = [statement.value]
        found = [str(item.value) for item in items if isinstance(item, ast.Constant)]
        if not found or len(found) < len(items):
            return None
    return found


def forwards(node: ast.AST) -> bool:
    """Whether ``__getattr__`` hands every name on: ``return getattr(self.inner, name)``."""
    if not isinstance(node, ast.FunctionDef) or len(node.args.args) != 2:
        return False
    parameter = node.args.args[1].arg
    last = node.body[-1]
    call = last.value if isinstance(last, ast.Return) else None
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func) == "getattr"
        and len(call.args) == 2
        and isinstance(call.args[0], ast.Attribute)
        and ast.unparse(call.args[1]) == parameter
        and not any(
            isinstance(item, (ast.Raise, ast.Return))
            for statement in node.body[:-1]
            for item in ast.walk(statement)
        )
    )
