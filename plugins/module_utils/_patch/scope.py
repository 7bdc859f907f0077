# SPDX-License-Identifier: Apache-2.0
"""The scope that a table lives in: what its names stand for, and whether the table is certain."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._patch.constants import (
    NotConstant,
    evaluate,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    bound_names,
    constant_names,
    flat,
    standard_imports,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.uses import Uses

_PLAIN_DECORATORS = {"dataclass", "final", "runtime_checkable"}
# Bases by whose name a class attribute is not what its statement says.
_SPECIAL_BASES = ("Enum", "Flag", "TypedDict", "NamedTuple")
_SPECIAL_METHODS = ("__init_subclass__", "__prepare__", "__new__")


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


class Scope:
    """The module or class body that holds a table.

    Args:
        tree: the module.
        definition: the class; None for a table of the module.
        name: the table's bare name.
    """

    def __init__(self, tree: ast.Module, definition: ast.ClassDef | None, name: str) -> None:
        self.tree, self.definition, self.name = tree, definition, name
        self.body: Sequence[ast.stmt] = definition.body if definition else tree.body
        self._stable: dict[str, bool] = {}
        bound = {found for s, _ in flat(tree.body) for found in bound_names(s)}
        self._rebound = bound - standard_imports(tree)

    def constants(self) -> dict[str, ast.expr]:
        """What names stand for where the table is built, as far as that is certain."""
        names = constant_names(self.tree, self.tree.body)
        if self.definition is not None:
            start = min((s.lineno for s in self._binding(self.name, self.body)), default=0)
            for statement, _ in flat(self.body):
                for name in bound_names(statement):
                    names.pop(name, None)
            names.update(
                (name, value)
                for name, value in constant_names(self.tree, self.body).items()
                if getattr(value, "lineno", 0) < start
            )
        return {n: value for n, value in names.items() if self._certain(n, value, names)}

    def _certain(self, name: str, value: ast.expr, names: dict[str, ast.expr]) -> bool:
        try:
            mutable = isinstance(evaluate(value, names), (list, set, dict))
        except NotConstant:
            return True  # nobody can take it for a constant
        return not mutable or self.stable(name)

    def stable(self, name: str) -> bool:
        """Whether a container under another name is bound once, and only read from then on."""
        if name not in self._stable:
            inside = self.definition is not None and any(self._binding(name, self.body))
            owner = self.definition if inside else None
            body = self.body if inside else self.tree.body
            uses = Uses(self.tree, name, owner, self._rebound, reader=self.name)
            once = len(list(self._binding(name, body))) == 1
            self._stable[name] = once and uses.doubt() is None and not uses.followed
        return self._stable[name]

    def check_uses(self, other_key: Callable[[ast.expr], bool]) -> None:
        """Refuse a table that is changed, replaced or handed on in a way that nobody can follow.

        Args:
            other_key: whether an expression is a key that is not the one in question.

        Raises:
            Doubtful: it is.
        """
        self._refuse_star_imports()
        uses = Uses(self.tree, self.name, self.definition, self._rebound, other_key=other_key)
        doubt = uses.doubt()
        if doubt is not None:
            raise Doubtful(doubt.node, doubt.reason)
        for name in self._second_names():
            shared = Uses(self.tree, name, self.definition, self._rebound)
            doubt = shared.doubt()
            changed = doubt.node if doubt else next(iter(shared.followed), None)
            if changed is not None:
                raise Doubtful(changed, f"may be changed by its second name, {name}")

    def _refuse_star_imports(self) -> None:
        name = self.definition.name if self.definition else self.name
        first = min((s.lineno for s in self._binding(name, self.tree.body)), default=0)
        for statement, _ in flat(self.tree.body):
            star = isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
            if star and statement.lineno > first:
                raise Doubtful(statement, "may be replaced by what this imports")

    def _second_names(self) -> Iterator[str]:
        """Names that a chained assignment gives the table: ``OTHER = TABLE = {...}``."""
        for statement in self._binding(self.name, self.body):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if not any(isinstance(t, ast.Name) and t.id == self.name for t in targets):
                continue
            for target in targets:
                if not isinstance(target, ast.Name):
                    raise Doubtful(statement, "gets a second name or is handed on")
                if target.id != self.name:
                    yield target.id

    @staticmethod
    def _binding(name: str, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        return (statement for statement, _ in flat(body) if name in bound_names(statement))


def class_doubt(definition: ast.ClassDef, tree: ast.Module) -> str:
    """Why a class may not have the attributes that its body says; empty where it has them."""
    for decorator in definition.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(function).rsplit(".", 1)[-1] not in _PLAIN_DECORATORS:
            return f"is decorated by '{ast.unparse(decorator)}'"
    if any(
        k.arg != "metaclass" or ast.unparse(k.value) not in {"ABCMeta", "abc.ABCMeta"}
        for k in definition.keywords
    ):
        return "has a metaclass or class arguments"
    todo, seen = list(definition.bases), {definition.name}
    classes = {s.name: s for s, _ in flat(tree.body) if isinstance(s, ast.ClassDef)}
    while todo:
        base = ast.unparse(todo.pop()).split("[", 1)[0].rsplit(".", 1)[-1]
        if base.endswith(_SPECIAL_BASES):
            return f"is a kind of {base}"
        parent = classes.get(base)
        if parent is None or base in seen:
            continue
        seen.add(base)
        todo += parent.bases
        special = {s.name for s, _ in flat(parent.body) if isinstance(s, ast.FunctionDef)}
        if parent.keywords or special & set(_SPECIAL_METHODS):
            return f"has base {base}, which may change it"
    return ""
