# SPDX-License-Identifier: Apache-2.0
"""A release as the audit walks through it: its files, classes and names."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import Named
from ansible_collections.sm120.sglang.plugins.module_utils._patch.classes import Classes
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    PatchError,
    SourceError,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    Modules,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    assigned_value,
    bound_names,
    flat,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef

# The engine's speculative and model-runner code; what it hands a model to is followed anywhere.
SCOPE = ("srt/speculative/", "srt/model_executor/")
_MOST_IMPORTS = 20
# A name that may be assigned, by itself or among others; more of them do no harm.
_ASSIGNED = re.compile(rb"self\.(?<!\w.....)(\w+)\s*(?::[^=\n]+)?(?:=(?!=)|,|\))")
# Code elsewhere that is handed a runner is followed where it asks the runner for its model.
_ASKS_RUNNER = re.compile(rb"runner\w*\.model\b"), re.compile(rb"worker\w*\.model\b")


class Reads(Protocol):
    """The files of a release's ``sglang`` package, wherever they lie."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none."""

    def names(self, prefix: str = "") -> list[str]:
        """Paths of the files whose path starts with ``prefix``."""


class ContractError(PatchError):
    """The audit cannot answer: no such class or algorithm, or a release of another shape."""


@dataclass(frozen=True)
class ClassMember:
    """What a class body binds: a function, or a statement."""

    owner: ClassRef
    node: ast.stmt
    certain: bool = True


class Program:
    """Look up files, classes and names, each once."""

    def __init__(self, reads: Reads, modules: Modules | None = None) -> None:
        self.reads = reads
        self.modules = modules or Modules(reads.read)
        self.classes = Classes(self.modules)
        self._lines: dict[ast.ClassDef, tuple[list[ClassRef], str]] = {}
        self._members: dict[ast.ClassDef, dict[str, list[ClassMember]]] = {}
        self._globals: dict[str, dict[str, list[ast.stmt]]] = {}
        self._found: dict[tuple[ast.ClassDef, str], ClassMember | None] = {}
        self._asks: dict[str, bool] = {}
        self._stores: dict[ast.ClassDef, tuple[set[str], set[str]]] = {}
        self._assigned: dict[ast.ClassDef, frozenset[str]] = {}
        self._methods: dict[ast.ClassDef, dict[str, ClassMember]] = {}
        self._fields: dict[ast.ClassDef, list[str]] = {}
        self._scope: dict[str, bool] = {}
        self._sources: dict[str, Source | None] = {}

    def source(self, module: str) -> Source | None:
        """A module's file; None where it is not of the release or cannot be read."""
        if module not in self._sources:
            try:
                self._sources[module] = self.modules.module(module)
            except SourceError:
                self._sources[module] = None
        return self._sources[module]

    def in_scope(self, module: str) -> bool:
        """Speculative or model-runner code."""
        found = self._scope.get(module)
        if found is None:
            path = module.replace(".", "/").removeprefix("sglang/")
            found = self._scope[module] = path.startswith(SCOPE)
        return found

    def asks_runner(self, module: str) -> bool:
        """Whether a file outside the scope may reach the model of a runner that it is handed."""
        if module not in self._asks:
            stem = "/".join(module.split(".")[1:])
            data = (
                self.modules.data(f"{stem}.py") or self.modules.data(f"{stem}/__init__.py") or b""
            )
            self._asks[module] = any(pattern.search(data) for pattern in _ASKS_RUNNER)
        return self._asks[module]

    def line(self, ref: ClassRef) -> list[ClassRef]:
        """A class and its bases in Python's order."""
        if ref.node not in self._lines:
            self._lines[ref.node] = self.classes.line(ref)
        return self._lines[ref.node][0]

    def cut(self, ref: ClassRef) -> None:
        """Leave the bases of a class alone: what is asked of it stands in the class itself."""
        self._lines[ref.node] = ([ref], "")
        self._found.clear()
        self._methods.clear()

    def members(self, ref: ClassRef) -> dict[str, list[ClassMember]]:
        """What a class itself binds, by name."""
        if ref.node not in self._members:
            table: dict[str, list[ClassMember]] = {}
            for statement, certain in flat(ref.node.body):
                names = set(bound_names(statement, walrus=ref.source.walrus_in(statement)))
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    names.add(statement.target.id)
                for name in names:
                    table.setdefault(name, []).append(ClassMember(ref, statement, certain))
            self._members[ref.node] = table
        return self._members[ref.node]

    def find(self, ref: ClassRef, name: str, after: ClassRef | None = None) -> ClassMember | None:
        """A class member by name, along the bases; behind the class ``after`` where given."""
        if after is None:
            key = (ref.node, name)
            try:
                return self._found[key]
            except KeyError:
                self._found[key] = self._along(self.line(ref), name)
            return self._found[key]
        line = self.line(ref)
        behind = [index for index, item in enumerate(line, 1) if item.node is after.node]
        return self._along(line[behind[0] :], name) if behind else None

    def _along(self, line: Sequence[ClassRef], name: str) -> ClassMember | None:
        for item in line:
            found = self.members(item).get(name)
            if found:
                return found[-1]
        return None

    def methods(self, ref: ClassRef) -> dict[str, ClassMember]:
        """All functions that objects of a class answer to."""
        if ref.node not in self._methods:
            found: dict[str, ClassMember] = {}
            for item in reversed(self.line(ref)):
                for name, members in self.members(item).items():
                    found.pop(name, None)
                    if isinstance(members[-1].node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        found[name] = members[-1]
            self._methods[ref.node] = found
        return self._methods[ref.node]

    def assigned(self, ref: ClassRef) -> frozenset[str]:
        """Names that a class's methods assign to ``self``, an ``__init__`` only where it runs.

        A class whose own ``__init__`` does not hand on leaves that of its base out.
        """
        if ref.node not in self._assigned:
            line = self.line(ref)
            initialised = [item for item in line if "__init__" in self.members(item)]
            if len(initialised) > 1:
                initialised = self.classes.initialised(line)
            initial = [self._stored(item)[0] for item in initialised]
            others = [self._stored(item)[1] for item in line]
            self._assigned[ref.node] = frozenset[str]().union(*initial, *others)
        return self._assigned[ref.node]

    def _stored(self, ref: ClassRef) -> tuple[set[str], set[str]]:
        """Names that the ``__init__`` of a class itself assigns to ``self``, and its others."""
        if ref.node not in self._stores:
            initial: set[str] = set()
            others: set[str] = set()
            for statement in ref.node.body:
                found = _ASSIGNED.findall(ref.source.lines(statement))
                kept = initial if getattr(statement, "name", "") == "__init__" else others
                kept.update(name.decode() for name in found)
            self._stores[ref.node] = initial, others
        return self._stores[ref.node]

    def fields(self, ref: ClassRef) -> list[str]:
        """Fields of a class without ``__init__``, such as a dataclass, in their order."""
        if ref.node not in self._fields:
            self._fields[ref.node] = list(
                dict.fromkeys(
                    statement.target.id
                    for item in reversed(self.line(ref))
                    for statement in item.node.body
                    if isinstance(statement, ast.AnnAssign)
                    and isinstance(statement.target, ast.Name)
                )
            )
        return self._fields[ref.node]

    def global_statements(self, module: str, name: str) -> list[ast.stmt]:
        """Statements at a module's top level that bind a name."""
        if module not in self._globals:
            table: dict[str, list[ast.stmt]] = {}
            source = self.source(module)
            for statement, _ in flat(source.tree.body) if source else ():
                walrus = source is None or source.walrus_in(statement)
                for bound in bound_names(statement, walrus=walrus):
                    table.setdefault(bound, []).append(statement)
            self._globals[module] = table
        return self._globals[module].get(name, [])

    def global_value(
        self, module: str, name: str, stop: Callable[[str], bool] | None = None
    ) -> tuple[str, ast.AST] | Named | None:
        """What a name of a module stands for, imports followed: its module and the node.

        Imports are followed up to a module that ``stop`` names.

        The node is a function or class definition, the expression of an assignment, or an
        ``ast.Module`` for a module of the release.
        """
        for _ in range(_MOST_IMPORTS):
            statements = self.global_statements(module, name)
            if not statements:
                return self._starred(module, name, stop) or self._submodule(module, name)
            statement = statements[-1]
            if not isinstance(statement, (ast.Import, ast.ImportFrom)):
                return _defined(module, statement, name)
            step = self.imported(module, statement, name)
            if step is None:
                return None
            module, name = step
            if not name:
                source = self.source(module)
                return (module, source.tree) if source else None
            if stop is not None and stop(module):
                return Named(module, name)
        return None

    def _starred(
        self, module: str, name: str, stop: Callable[[str], bool] | None
    ) -> tuple[str, ast.AST] | Named | None:
        """A name that comes by ``from module import *``."""
        source = self.source(module)
        for statement in self.global_statements(module, "*") if name != "*" else ():
            if source is None or not isinstance(statement, ast.ImportFrom):
                continue
            origin = self.modules.absolute(module, source, statement)
            if origin.split(".")[0] == self.modules.package:
                found = self.global_value(origin, name, stop)
                if found is not None:
                    return found
        return None

    def _submodule(self, module: str, name: str) -> tuple[str, ast.AST] | None:
        source = self.source(f"{module}.{name}")
        return (f"{module}.{name}", source.tree) if source else None

    def imported(
        self, module: str, statement: ast.Import | ast.ImportFrom, name: str
    ) -> tuple[str, str] | None:
        """Where an import statement takes a name from; the name is "" for a module itself.

        None where it is not of the release.
        """
        for alias in statement.names:
            if (alias.asname or alias.name.split(".", maxsplit=1)[0]) != name:
                continue
            if isinstance(statement, ast.Import):
                target = alias.name if alias.asname else name
                return (target, "") if target.split(".")[0] == self.modules.package else None
            source = self.source(module)
            if source is None:
                return None
            origin = self.modules.absolute(module, source, statement)
            return (origin, alias.name) if origin.split(".")[0] == self.modules.package else None
        return None


def _defined(module: str, statement: ast.stmt, name: str) -> tuple[str, ast.AST] | None:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return module, statement
    value = assigned_value(statement, name)
    return (module, value) if value is not None else None


def decorators(node: Function) -> set[str]:
    """Names of a function's decorators, without their modules and arguments."""
    found: set[str] = set()
    for item in node.decorator_list:
        inner = item.func if isinstance(item, ast.Call) else item
        if isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.Name):
            found.add(inner.id)
    return found
