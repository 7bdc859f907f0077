# SPDX-License-Identifier: Apache-2.0
"""The modules of a release: find them by name, and what their names mean."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    bound_names,
    flat,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source, parse

_MAX_HOPS = 20
# The engine's large files, of which few functions are looked at.
_OUTLINED = ("srt/managers/", "srt/model_executor/", "srt/speculative/")


@dataclass(frozen=True)
class ClassRef:
    """A class of the release: its module and its definition."""

    module: str
    source: Source
    node: ast.ClassDef

    @property
    def at(self) -> str:
        """``file:line``."""
        return self.source.at(self.node)


@dataclass(frozen=True)
class External:
    """A name that comes from outside the release, by its dotted name."""

    name: str


@dataclass(frozen=True)
class Unknown:
    """A name whose meaning the source does not tell, and why."""

    reason: str


Meaning = ClassRef | External | Unknown
Dotted = tuple[str, ...]


class Modules:
    """The modules of one package.

    Args:
        read: gives a file of the package by its path inside it, None where there is none.
        package: name of the package.
    """

    def __init__(self, read: Callable[[str], bytes | None], package: str = "sglang") -> None:
        self._read = read
        self.package = package
        self._data: dict[str, bytes | None] = {}
        self._cache: dict[str, Source | None] = {}
        self._bound: dict[str, dict[str, list[tuple[ast.stmt, bool]]]] = {}

    def data(self, path: str) -> bytes | None:
        """A file by path, None where there is none; read once."""
        if path not in self._data:
            self._data[path] = self._read(path)
        return self._data[path]

    def source(self, path: str) -> Source | None:
        """A parsed file by path, None where there is none.

        Raises:
            SourceError: it cannot be parsed.
        """
        if path not in self._cache:
            data = self.data(path)
            outlined = path.startswith(_OUTLINED)
            self._cache[path] = None if data is None else parse(path, data, outlined=outlined)
        return self._cache[path]

    def module(self, name: str) -> Source | None:
        """A module of the package by dotted name, None where it is not one of the package.

        Raises:
            SourceError: it cannot be parsed.
        """
        parts = name.split(".")
        if parts[0] != self.package:
            return None
        stem = "/".join(parts[1:])
        for path in (f"{stem}.py" if stem else "__init__.py", f"{stem}/__init__.py"):
            found = self.source(path.lstrip("/"))
            if found is not None:
                return found
        return None

    def name_of(self, path: str) -> str:
        """Dotted name of a file of the package."""
        parts = path.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join([self.package, *parts])

    def resolve(
        self, module: str, expression: ast.expr, hops: int = 0, before: int | None = None
    ) -> Meaning:
        """What an expression such as ``Base`` or ``models.Base`` means in a module.

        Args:
            module: the module, by dotted name.
            expression: the expression.
            hops: imports followed so far.
            before: the line that asks, where names that are bound again behind it still have
                their older meaning; None for the end of the module.
        """
        node = expression.value if isinstance(expression, ast.Subscript) else expression
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return Unknown(f"'{ast.unparse(expression)}' is computed")
        return self.lookup(module, (node.id, *parts), hops, before)

    def lookup(
        self, module: str, dotted: Dotted, hops: int = 0, before: int | None = None
    ) -> Meaning:
        """What a dotted name means in a module.

        Args:
            module: the module, by dotted name.
            dotted: the name, split at its dots.
            hops: imports followed so far.
            before: the line that asks; None for the end of the module.
        """
        if module.split(".", maxsplit=1)[0] != self.package:
            return External(".".join((module, *dotted)))
        if hops > _MAX_HOPS:
            return Unknown(f"{module}.{dotted[0]} is imported in a circle")
        try:
            source = self.module(module)
            if source is None:
                return self._submodule(module, dotted, hops)
            return self._inside(module, source, dotted, hops, before)
        except SourceError as error:
            return Unknown(error.cause)

    def _inside(
        self, module: str, source: Source, dotted: Dotted, hops: int, before: int | None
    ) -> Meaning:
        bindings = _standing(self._bindings(module, source).get(dotted[0], []), before)
        if not bindings:
            return self._elsewhere(module, source, dotted, hops)
        meanings = {self._binding(module, source, b, dotted, hops) for b in bindings}
        certain = [meaning for meaning in meanings if not isinstance(meaning, Unknown)]
        if len(meanings) == 1 or (len(certain) == 1 and isinstance(certain[0], ClassRef)):
            return certain[0] if certain else meanings.pop()
        where = ", ".join(source.at(binding) for binding in bindings)
        return Unknown(f"{dotted[0]} is defined more than once ({where})")

    def _bindings(self, module: str, source: Source) -> dict[str, list[tuple[ast.stmt, bool]]]:
        """Statements that bind each name, each with whether it runs for sure."""
        if module not in self._bound:
            table: dict[str, list[tuple[ast.stmt, bool]]] = {}
            for statement, certain in flat(source.tree.body):
                for name in bound_names(statement, walrus=source.walrus_in(statement)):
                    if isinstance(statement, ast.Assign) and _is_none(statement.value):
                        continue  # `X = None` in an `except ImportError` stands for "not there"
                    table.setdefault(name, []).append((statement, certain))
            self._bound[module] = table
        return self._bound[module]

    def _binding(
        self, module: str, source: Source, statement: ast.stmt, dotted: Dotted, hops: int
    ) -> Meaning:
        if isinstance(statement, ast.ClassDef):
            return _nested(ClassRef(module, source, statement), dotted[1:])
        if isinstance(statement, ast.ImportFrom):
            origin = self.absolute(module, source, statement)
            names = {alias.asname or alias.name: alias.name for alias in statement.names}
            return self.lookup(origin, (names[dotted[0]], *dotted[1:]), hops + 1)
        if isinstance(statement, ast.Import):
            return self._import(statement, dotted, hops)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            value: ast.expr = statement.value
            for part in dotted[1:]:
                value = ast.Attribute(value=value, attr=part, ctx=ast.Load())
            return self.resolve(module, value, hops + 1)
        return Unknown(f"{dotted[0]} at {source.at(statement)} is not a class")

    def absolute(self, module: str, source: Source, statement: ast.ImportFrom) -> str:
        """The module that an import statement names, relative ones worked out."""
        if not statement.level:
            return statement.module or ""
        parts = module.split(".")
        keep = len(parts) - statement.level + (source.path.rsplit("/", 1)[-1] == "__init__.py")
        return ".".join([*parts[: max(keep, 0)], *([statement.module] if statement.module else [])])

    def _import(self, statement: ast.Import, dotted: Dotted, hops: int) -> Meaning:
        for alias in statement.names:
            if alias.asname == dotted[0]:
                dotted = (*alias.name.split("."), *dotted[1:])
                break
        if dotted[0] != self.package:
            return External(".".join(dotted))
        for split in range(len(dotted) - 1, 0, -1):
            name = ".".join(dotted[:split])
            if self.module(name) is not None:
                return self.lookup(name, dotted[split:], hops + 1)
        return Unknown(f"{'.'.join(dotted)} is not in this release")

    def _submodule(self, module: str, dotted: Dotted, hops: int) -> Meaning:
        """A name behind a module of a folder, with or without an ``__init__.py``."""
        if len(dotted) > 1:
            return self.lookup(f"{module}.{dotted[0]}", dotted[1:], hops + 1)
        return Unknown(f"{module}.{dotted[0]} is not in this release")

    def _elsewhere(self, module: str, source: Source, dotted: Dotted, hops: int) -> Meaning:
        """A name that a module does not bind by itself: a star import, a submodule, a builtin."""
        doubts: list[str] = []
        for statement, _ in flat(source.tree.body):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                origin = self.absolute(module, source, statement)
                found = self.lookup(origin, dotted, hops + 1)
                if isinstance(found, ClassRef):
                    return found
                if isinstance(found, External):
                    star = f"'from {origin} import *' ({source.at(statement)})"
                    doubts.append(f"{dotted[0]} may come from {star}")
        if doubts:
            return Unknown(doubts[0])
        if len(dotted) == 1 and hasattr(builtins, dotted[0]):
            return External(f"builtins.{dotted[0]}")
        if source.path.endswith("__init__.py"):
            return self._submodule(module, dotted, hops)
        return Unknown(f"{dotted[0]} is not defined in {source.path}")


def _nested(owner: ClassRef, rest: Dotted) -> Meaning:
    for part in rest:
        inner = [s for s in owner.node.body if isinstance(s, ast.ClassDef) and s.name == part]
        if len(inner) != 1:
            return Unknown(f"{owner.node.name}.{part} at {owner.at} is not a class")
        owner = ClassRef(owner.module, owner.source, inner[0])
    return owner


def _standing(bindings: list[tuple[ast.stmt, bool]], before: int | None) -> list[ast.stmt]:
    """The bindings that may still hold: the last one that runs for sure, and those behind it."""
    earlier = [pair for pair in bindings if before is not None and pair[0].lineno < before]
    standing: list[ast.stmt] = []
    for statement, certain in earlier or bindings:
        standing = [statement] if certain else [*standing, statement]
    return standing


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
