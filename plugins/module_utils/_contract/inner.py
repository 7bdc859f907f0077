# SPDX-License-Identifier: Apache-2.0
"""The inner objects of a wrapper class: under which attribute, and of which classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.sm120.sglang.plugins.module_utils._contract.members import Members
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    Unknown,
)

# Inner language models before vision towers and projectors, where several have what is asked.
_LIKELY = ("language_model", "llm", "text_model", "thinker", "model", "inner")
_HOPS = 6


@dataclass
class Holder:
    """An attribute that holds an inner object.

    Attributes:
        name: the attribute.
        at: ``file:line`` where it is set.
        classes: the classes that its object may be of.
        doubt: why there may be others; "" where there are none.
    """

    name: str
    at: str
    classes: list[ClassRef] = field(default_factory=list)
    doubt: str = ""


@dataclass(frozen=True)
class Place:
    """A method of a class, seen from one of its heirs."""

    ref: ClassRef
    owner: ClassRef
    method: ast.FunctionDef


class Inner:
    """Finds inner objects."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.program = members.program

    def holders(self, ref: ClassRef) -> list[Holder]:
        """The attributes of a class's objects that hold objects of the release's classes."""
        found: dict[str, Holder] = {}
        line = self.program.line(ref)
        for owner in self.program.classes.initialised(line):
            for method in owner.node.body:
                if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
                    continue
                here: dict[str, Holder] = {}
                for statement in ast.walk(method):
                    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                        self._statement(Place(ref, owner, method), statement, here)
                for name, holder in here.items():
                    found.setdefault(name, holder)
        order = {name: index for index, name in enumerate(_LIKELY)}
        holders = [holder for holder in found.values() if holder.classes or holder.doubt]
        return sorted(holders, key=lambda holder: (order.get(holder.name, 99), holder.name))

    def _statement(
        self,
        place: Place,
        statement: ast.Assign | ast.AnnAssign,
        found: dict[str, Holder],
    ) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        value = statement.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return
        for target in targets:
            if not isinstance(target, ast.Attribute) or ast.unparse(target.value) != "self":
                continue
            holder = found.setdefault(
                target.attr, Holder(target.attr, place.owner.source.at(statement))
            )
            for item in self._classes(place, value, 0):
                if isinstance(item, ClassRef):
                    if all(item.node is not known.node for known in holder.classes):
                        holder.classes.append(item)
                else:
                    holder.doubt = holder.doubt or item

    def _classes(self, place: Place, value: ast.expr, hops: int) -> Iterator[ClassRef | str]:
        """The classes of the object that an expression makes; a text for a doubt."""
        if hops > _HOPS:
            yield f"{ast.unparse(value)[:60]} goes in a circle"
        elif isinstance(value, ast.IfExp):
            for branch in (value.body, value.orelse):
                yield from self._classes(place, branch, hops + 1)
        elif isinstance(value, ast.Constant) and value.value is None:
            return
        elif isinstance(value, ast.Call):
            yield from self._made(place, value, hops)
        elif isinstance(value, ast.Name):
            yield from self._local(place, value.id, hops)

    def _made(self, place: Place, call: ast.Call, hops: int) -> Iterator[ClassRef | str]:
        function = call.func
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "self":
            member = self.program.find(place.ref, function.attr)
            node = member.node if member else None
            if member is None or not isinstance(node, ast.FunctionDef):
                yield f"self.{function.attr} is not found"
                return
            for statement in ast.walk(node):
                if isinstance(statement, ast.Return) and statement.value is not None:
                    yield from self._classes(
                        Place(place.ref, member.owner, node), statement.value, hops + 1
                    )
            return
        yield from self._named(place, function, hops)

    def _named(self, place: Place, node: ast.expr, hops: int) -> Iterator[ClassRef | str]:
        """The classes that an expression in the place of a class stands for."""
        if hops > _HOPS:
            yield f"{ast.unparse(node)[:60]} goes in a circle"
            return
        if isinstance(node, ast.Name):
            local = list(_bindings(place.method, node.id))
            if local:
                for statement in local:
                    yield from self._bound(place, statement, node.id, hops)
                return
        if isinstance(node, ast.IfExp):
            for branch in (node.body, node.orelse):
                yield from self._named(place, branch, hops + 1)
            return
        meaning = self.program.modules.resolve(place.owner.module, node)
        if isinstance(meaning, ClassRef):
            yield meaning
        elif isinstance(meaning, Unknown) and _looks_like_class(node):
            yield f"its class is chosen by {ast.unparse(node)[:60]}"

    def _bound(
        self, place: Place, statement: ast.AST, name: str, hops: int
    ) -> Iterator[ClassRef | str]:
        if isinstance(statement, ast.ImportFrom):
            here = place.owner
            origin = self.program.modules.absolute(here.module, here.source, statement)
            original = next(a.name for a in statement.names if (a.asname or a.name) == name)
            meaning = self.program.modules.lookup(origin, (original,))
            if isinstance(meaning, ClassRef):
                yield meaning
        elif isinstance(statement, ast.Assign):
            yield from self._named(place, statement.value, hops + 1)
        elif isinstance(statement, ast.arguments):
            default = _default_of(statement, name)
            if default is not None:
                yield from self._plain(place.owner, default)
            yield f"{name} is given by whoever makes the object"

    def _plain(self, owner: ClassRef, node: ast.expr) -> Iterator[ClassRef | str]:
        meaning = self.program.modules.resolve(owner.module, node)
        if isinstance(meaning, ClassRef):
            yield meaning

    def _local(self, place: Place, name: str, hops: int) -> Iterator[ClassRef | str]:
        for statement in _bindings(place.method, name):
            if isinstance(statement, ast.Assign):
                yield from self._classes(place, statement.value, hops + 1)


def _bindings(method: ast.FunctionDef, name: str) -> Iterator[ast.AST]:
    """Statements of a function that bind a name; its arguments where it is a parameter."""
    spec = method.args
    if any(a.arg == name for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)):
        yield spec
    for statement in ast.walk(method):
        if isinstance(statement, ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in statement.names):
                yield statement
        elif isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in statement.targets
        ):
            yield statement


def _default_of(spec: ast.arguments, name: str) -> ast.expr | None:
    positional = [*spec.posonlyargs, *spec.args]
    pairs = zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True)
    found = {argument.arg: default for argument, default in pairs}
    found |= {
        a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None
    }
    return found.get(name)


def _looks_like_class(node: ast.expr) -> bool:
    if isinstance(node, (ast.Subscript, ast.Call)):
        return True
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name[:1].isupper() or "cls" in name or "class" in name
