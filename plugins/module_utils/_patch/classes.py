# SPDX-License-Identifier: Apache-2.0
"""Does a class answer to a name: judged by meaning, across the files of a release."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    Modules,
    Unknown,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import (
    flat,
    names_of_target,
    own_expressions,
)

Kind = Literal["method", "property", "attribute", "instance", "getattr", "stub", "value"]

# Outside bases that have none of the names that engines ask models for. Module names are those
# that SGLang's models import them by.
_PLAIN_BASES = {
    "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol",
    "torch.nn.Module", "nn.Module", "torch.nn.modules.module.Module",
}  # fmt: skip
_PLAIN_DECORATORS = {"dataclass", "final", "runtime_checkable", "torch_compile"}


@dataclass(frozen=True)
class Member:
    """What a class has under a name.

    Attributes:
        kind: what it is. ``stub`` only raises NotImplementedError, or does nothing;
            ``value`` is a constant that cannot be called.
        owner: name of the class that brings it.
        at: ``file:line``.
        node: the statement.
    """

    kind: Kind
    owner: str
    at: str
    node: ast.AST


@dataclass(frozen=True)
class Missing:
    """No class in the line has the name; where was looked."""

    searched: tuple[str, ...]


@dataclass(frozen=True)
class Uncertain:
    """The sources do not tell, and why."""

    reason: str


Answer = Member | Missing | Uncertain


class Classes:
    """Answers questions about the classes of a release."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules

    def line(self, start: ClassRef) -> tuple[list[ClassRef], str]:
        """The class and its bases in Python's order, and why the list may lack one (or ``""``)."""
        doubts: list[str] = []
        order = self._linear(start, doubts, ())
        return order, doubts[0] if doubts else ""

    def _linear(
        self, ref: ClassRef, doubts: list[str], inside: tuple[ast.ClassDef, ...]
    ) -> list[ClassRef]:
        if ref.node in inside:
            doubts.append(f"{ref.node.name} at {ref.at} is its own base")
            return []
        parents: list[ClassRef] = []
        for base in ref.node.bases:
            meaning = self.modules.resolve(ref.module, base)
            if isinstance(meaning, ClassRef):
                parents.append(meaning)
            elif isinstance(meaning, Unknown):
                doubts.append(f"base '{ast.unparse(base)}' of {ref.node.name}: {meaning.reason}")
            elif meaning.name not in _PLAIN_BASES:
                doubts.append(f"base {meaning.name} of {ref.node.name} is not part of this release")
        if any(
            keyword.arg == "metaclass" and not _is_abc(keyword.value)
            for keyword in ref.node.keywords
        ):
            doubts.append(f"{ref.node.name} at {ref.at} has a metaclass")
        lines = [self._linear(parent, doubts, (*inside, ref.node)) for parent in parents]
        return [ref, *_merge([*lines, parents], doubts, ref)]

    def find(self, start: ClassRef, name: str) -> Answer:
        """What objects of a class have under a name.

        Class members come first, in the order of inheritance, then attributes that ``__init__``
        gives to the object, then a forwarding ``__getattr__``.
        """
        order, doubt = self.line(start)
        own = [member for ref in order if (member := self.own(ref, name)) is not None]
        if own and (isinstance(own[0], Uncertain) or own[0].kind != "stub"):
            return own[0]
        given = [member for ref in order if (member := _instance_member(ref, name)) is not None]
        if given or own:
            return (given or own)[0]
        for ref in order:
            for decorator in _decorator_doubt(ref.node):
                return Uncertain(f"decorator '{decorator}' of {ref.node.name} may add {name}")
            forwarding = self._getattr(ref, name)
            if forwarding is not None:
                return forwarding
        searched = tuple(f"{ref.at} class {ref.node.name}" for ref in order)
        return Uncertain(doubt) if doubt else Missing(searched)

    def own(self, ref: ClassRef, name: str) -> Member | Uncertain | None:
        """What a class itself binds to a name, in its body or afterwards."""
        found: Member | Uncertain | None = None
        kinds = [(s, _binds(s, name)) for s, _ in flat(ref.node.body)]
        tree = ref.source.tree
        kinds += [(s, _binds_outside(s, ref.node.name, name, tree)) for s in _after(ref)]
        for statement, kind in kinds:
            if kind == "delete":
                found = Uncertain(f"{ref.source.at(statement)} deletes {name}")
            elif kind is not None:
                found = Member(kind, ref.node.name, ref.source.at(statement), statement)
        return found

    def _getattr(self, ref: ClassRef, name: str) -> Member | Uncertain | None:
        for special in ("__getattr__", "__getattribute__"):
            member = self.own(ref, special)
            if not isinstance(member, Member):
                continue
            if special == "__getattr__" and _forwards(member.node):
                return Member("getattr", ref.node.name, member.at, member.node)
            return Uncertain(f"{special} at {member.at} may answer {name}")
        return None


def _merge(lines: list[list[ClassRef]], doubts: list[str], ref: ClassRef) -> list[ClassRef]:
    """Python's own linearization (C3)."""
    result: list[ClassRef] = []
    lines = [list(line) for line in lines if line]
    while lines:
        for line in lines:
            head = line[0].node
            if not any(head is item.node for other in lines for item in other[1:]):
                break
        else:
            doubts.append(f"the bases of {ref.node.name} at {ref.at} have no order")
            return result
        result.append(line[0])
        lines = [[item for item in other if item.node is not head] for other in lines]
        lines = [other for other in lines if other]
    return result


def _is_abc(node: ast.expr) -> bool:
    return ast.unparse(node) in {"ABCMeta", "abc.ABCMeta"}


def _decorator_doubt(node: ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(function).rsplit(".", 1)[-1] not in _PLAIN_DECORATORS:
            yield ast.unparse(decorator)


def _binds(statement: ast.stmt, name: str) -> Kind | Literal["delete"] | None:
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
        return _value_kind(getattr(statement, "value", None))
    return None


def _function_kind(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Kind:
    names = {ast.unparse(item).rsplit(".", 1)[-1] for item in node.decorator_list}
    if names & {"property", "cached_property"}:
        return "property"
    return "stub" if _is_stub(node) or "abstractmethod" in names else "method"


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = list(node.body)
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if len(body) > 1:
        return False
    for statement in body:
        if isinstance(statement, ast.Raise) and statement.exc is not None:
            raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
            return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
        return isinstance(statement, ast.Pass)
    return True


def _value_kind(value: ast.expr | None) -> Kind:
    plain = (ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr)
    return "value" if isinstance(value, plain) else "attribute"


def _after(ref: ClassRef) -> Iterator[ast.stmt]:
    """Statements at the module's top level behind the class."""
    end = ref.node.end_lineno or ref.node.lineno
    for statement, _ in flat(ref.source.tree.body):
        if statement.lineno > end:
            yield statement


def _binds_outside(
    statement: ast.stmt, class_name: str, name: str, tree: ast.Module
) -> Kind | Literal["delete"] | None:
    """How a statement behind the class gives it a name: ``K.m =`` or ``setattr(K, "m", ..)``."""
    targets: Sequence[ast.expr] = getattr(statement, "targets", [])
    for target in targets:
        for item in target.elts if isinstance(target, ast.Tuple) else [target]:
            if ast.unparse(item) == f"{class_name}.{name}":
                if isinstance(statement, ast.Delete):
                    return "delete"
                return _value_kind(getattr(statement, "value", None))
    for node in own_expressions(statement):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        function, first, second = ast.unparse(node.func), node.args[0], node.args[1]
        if not isinstance(first, ast.Name) or first.id != class_name:
            continue
        if function == "setattr" and name in _names_given(second, tree):
            return _value_kind(node.args[2] if len(node.args) > 2 else None)
        if function == "delattr" and name in _names_given(second, tree):
            return "delete"
    return None


def _names_given(node: ast.expr, tree: ast.Module) -> list[str]:
    """The constant names that an expression takes; those of a loop over constants included."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if not isinstance(node, ast.Name):
        return []
    for statement, _ in flat(tree.body):
        if isinstance(statement, ast.For) and ast.unparse(statement.target) == node.id:
            items = getattr(statement.iter, "elts", [])
            return [str(item.value) for item in items if isinstance(item, ast.Constant)]
    return []


def _instance_member(ref: ClassRef, name: str) -> Member | None:
    """An attribute that ``__init__`` gives to every object."""
    for statement, _ in flat(ref.node.body):
        if not isinstance(statement, ast.FunctionDef) or statement.name != "__init__":
            continue
        for inner, certain in flat(statement.body):
            targets: Sequence[ast.expr] = getattr(inner, "targets", [])
            if isinstance(inner, ast.AnnAssign) and inner.value is not None:
                targets = [inner.target]
            if certain and any(ast.unparse(target) == f"self.{name}" for target in targets):
                kind = _value_kind(getattr(inner, "value", None))
                found: Kind = "value" if kind == "value" else "instance"
                return Member(found, ref.node.name, ref.source.at(inner), inner)
    return None


def _forwards(node: ast.AST) -> bool:
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


def instance_targets(
    classes: Classes, start: ClassRef, name: str
) -> list[tuple[ClassRef, ast.stmt]]:
    """Statements by which a class or its bases give objects an attribute, in any method."""
    order, _ = classes.line(start)
    found: list[tuple[ClassRef, ast.stmt]] = []
    for ref in order:
        for node in ast.walk(ref.node):
            targets = list(getattr(node, "targets", []))
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            if isinstance(node, ast.stmt) and any(
                isinstance(item, ast.Attribute)
                and item.attr == name
                and isinstance(item.value, ast.Name)
                and item.value.id == "self"
                for target in targets
                for item in (target.elts if isinstance(target, ast.Tuple) else [target])
            ):
                found.append((ref, node))
    return found
