# SPDX-License-Identifier: Apache-2.0
"""Ways in which a class may get a name that no plain statement tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from ansible_collections.sm120.sglang.plugins.module_utils._patch.members import names_given
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    FUNCTIONS,
    bound_names,
    flat,
    own_expressions,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source

_PLAIN_DECORATORS = {"dataclass", "final", "runtime_checkable", "torch_compile"}
_BY_TEXT = {"exec", "eval", "locals", "vars", "globals"}
_SETTERS = {"setattr", "__setattr__"}
# A comprehension may set an attribute of a class by its target; prose has words side by side.
_TARGET = re.compile(rb"\bfor\b((?:(?!\bin\b|\bfor\b)[^:=#])*)\bin\b")
_PROSE = re.compile(rb"\w\s+\w")


class Hidden:
    """Looks for them in one file.

    Args:
        source: the file.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tree = source.tree
        self._stores: list[tuple[ast.Attribute, bool]] = []
        self._calls: list[tuple[ast.Call, bool]] = []
        self._local: set[str] = set()
        self._scan()

    def _scan(self) -> None:
        """Find what sets attributes, each with whether it runs at import."""
        todo: list[tuple[ast.AST, bool]] = [(self.tree, True)]
        # In functions, expressions count for calls of setters and for targets of comprehensions.
        everywhere = self.source.encoding != "utf-8" or _sets_in_expressions(self.source.data)
        while todo:
            node, at_import = todo.pop()
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                if getattr(node.value, "id", "") not in {"self", "cls"}:
                    self._stores.append((node, at_import))
            elif isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if at_import or name in _SETTERS:
                    self._calls.append((node, at_import))
            inner = at_import and not isinstance(node, FUNCTIONS)
            if inner or everywhere:
                todo.extend((child, inner) for child in ast.iter_child_nodes(node))
            else:
                todo.extend((child, False) for child in ast.iter_child_nodes(node) if _binds(child))
        for statement, _ in flat(self.tree.body):
            if not isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef)):
                self._local.update(bound_names(statement, walrus=self.source.walrus_in(statement)))

    def reason(self, node: ast.ClassDef, name: str, *, own: bool) -> str:
        """Why a class may have a name although nothing binds it; empty where it cannot.

        Args:
            node: the class.
            name: the name.
            own: it is the class in question and not one of its bases.
        """
        return next(self._reasons(node, name, own=own), "")

    def _reasons(self, node: ast.ClassDef, name: str, *, own: bool) -> Iterator[str]:
        where = f"{self.source.path}:"
        for decorator in node.decorator_list:
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(function).rsplit(".", 1)[-1] not in _PLAIN_DECORATORS:
                yield f"decorator '{ast.unparse(decorator)}' of {node.name} may add {name}"
        yield from self._in_body(node, name, own=own)
        for store, at_import in self._stores:
            base = getattr(store.value, "id", "")
            if store.attr == name and (at_import or base == node.name):
                if base == node.name or not self._is_other_class(store.value):
                    yield f"{where}{store.lineno} '{ast.unparse(store)} =' may add {name}"
            elif base == node.name and store.attr in {"__bases__", "__class__"}:
                yield f"{where}{store.lineno} changes the bases of {node.name}"
        for call, at_import in self._calls:
            if self._may_add(call, node.name, name, at_import=at_import):
                yield f"{where}{call.lineno} '{ast.unparse(call)[:60]}' may add {name}"

    def _in_body(self, node: ast.ClassDef, name: str, *, own: bool) -> Iterator[str]:
        where = f"{self.source.path}:"
        for statement, _ in flat(node.body):
            line = f"{where}{statement.lineno}"
            if "__slots__" in bound_names(statement) and self._may_hold(statement, name):
                yield f"{line} __slots__ may have {name}"
            called = [item for item in own_expressions(statement) if isinstance(item, ast.Call)]
            by_text = [item for item in called if getattr(item.func, "id", "") in _BY_TEXT]
            if by_text:
                yield f"{line} '{ast.unparse(by_text[0])}' may add {name} to {node.name}"
            if not own and _is_hook(statement) and _may_set(statement, name):
                yield f"{line} __init_subclass__ of {node.name} may add {name}"

    @staticmethod
    def _may_hold(statement: ast.stmt, name: str) -> bool:
        try:
            slots = ast.literal_eval(getattr(statement, "value", statement))
        except (ValueError, TypeError):
            return True
        return name in ([slots] if isinstance(slots, str) else slots)

    def _is_other_class(self, node: ast.expr) -> bool:
        return any(
            isinstance(statement, ast.ClassDef) and statement.name == getattr(node, "id", "")
            for statement, _ in flat(self.tree.body)
        )

    def _may_add(self, call: ast.Call, owner: str, name: str, *, at_import: bool) -> bool:
        """Whether a call may give a class a name."""
        first = call.args[0]
        handed = any(isinstance(item, ast.Name) and item.id == owner for item in call.args)
        called = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if called in {"exec", "eval"}:
            return isinstance(call.func, ast.Name)
        if called in _SETTERS:
            held = handed or (at_import and not self._is_other_class(first))
            position = next((i for i, item in enumerate(call.args[:-1]) if item is not first), 1)
            given = names_given(call.args[position], self.tree) if len(call.args) > 1 else None
            return held and (given is None or name in given)
        # A function of this file may set attributes of the class that it is given; one from
        # elsewhere is taken for what such calls are in SGLang's models: a registry.
        return handed and (called in self._local or isinstance(call.func, ast.Lambda))


def _is_hook(statement: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(statement, ast.FunctionDef) and statement.name == "__init_subclass__"


def _may_set(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function may give its first argument, a class, a name."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == name:
            return True
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            arguments = [*node.args, *[keyword.value for keyword in node.keywords]]
            first = function.args.args[0].arg if function.args.args else ""
            handed = any(isinstance(a, ast.Name) and a.id == first for a in arguments)
            if called in _SETTERS | {"exec", "update"} or (handed and called != "super"):
                return True
    return False


def _sets_in_expressions(data: bytes) -> bool:
    """Whether an expression may set an attribute of a class: by a setter, or by a comprehension."""
    return b"setattr" in data or any(
        b"." in target and not _PROSE.search(target) for target in _TARGET.findall(data)
    )


def _binds(node: ast.AST) -> bool:
    """A statement or a part of one that holds others, or a target."""
    if isinstance(node, ast.expr):
        return not isinstance(getattr(node, "ctx", _LOAD), ast.Load)
    return isinstance(node, (ast.stmt, ast.ExceptHandler, ast.withitem, ast.match_case))


_LOAD = ast.Load()
