# SPDX-License-Identifier: Apache-2.0
"""Does a class answer to a name: judged by meaning, across the files of a release."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal, cast

from ansible_collections.sm120.sglang.plugins.module_utils._patch.follow import (
    Bound,
    Perhaps,
    State,
    follow,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.hidden import Hidden
from ansible_collections.sm120.sglang.plugins.module_utils._patch.members import (
    Kind,
    binds,
    binds_outside,
    forwards,
    value_kind,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    Modules,
    Unknown,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import flat
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import Source

# Outside bases that have none of the names that engines ask models for. Module names are those
# that SGLang's models import them by.
PLAIN_BASES = {
    "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol",
    "torch.nn.Module", "nn.Module", "torch.nn.modules.module.Module",
}  # fmt: skip


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
        self._lines: dict[ast.ClassDef, tuple[list[ClassRef], str]] = {}
        self._own: dict[tuple[ast.ClassDef, str], Member | Uncertain | None] = {}
        self._sources: dict[Source, Hidden] = {}

    def line(self, start: ClassRef) -> tuple[list[ClassRef], str]:
        """The class and its bases in Python's order, and why the list may lack one (or ``""``)."""
        if start.node not in self._lines:
            doubts: list[str] = []
            order = self._linear(start, doubts, ())
            self._lines[start.node] = order, doubts[0] if doubts else ""
        return self._lines[start.node]

    def _linear(
        self, ref: ClassRef, doubts: list[str], inside: tuple[ast.ClassDef, ...]
    ) -> list[ClassRef]:
        if ref.node in inside:
            doubts.append(f"{ref.node.name} at {ref.at} is its own base")
            return []
        parents: list[ClassRef] = []
        for base in ref.node.bases:
            meaning = self.modules.resolve(ref.module, base, before=ref.node.lineno)
            if isinstance(meaning, ClassRef):
                parents.append(meaning)
            elif isinstance(meaning, Unknown):
                doubts.append(f"base '{ast.unparse(base)}' of {ref.node.name}: {meaning.reason}")
            elif meaning.name not in PLAIN_BASES:
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
        given = [m for ref in self.initialised(order) if (m := _given_by_init(ref, name))]
        if given or own:
            return (given or own)[0]
        for ref in order:
            hidden = self._hidden(ref).reason(ref.node, name, own=ref is order[0])
            if hidden:
                return Uncertain(hidden)
            forwarding = self._getattr(ref, name)
            if forwarding is not None:
                return forwarding
        searched = tuple(f"{ref.at} class {ref.node.name}" for ref in order)
        return Uncertain(doubt) if doubt else Missing(searched)

    def own(self, ref: ClassRef, name: str) -> Member | Uncertain | None:
        """What a class itself binds to a name, in its body or afterwards."""
        if (ref.node, name) not in self._own:
            self._own[ref.node, name] = self._find_own(ref, name)
        return self._own[ref.node, name]

    def _find_own(self, ref: ClassRef, name: str) -> Member | Uncertain | None:
        tree, end = ref.source.tree, ref.node.end_lineno or ref.node.lineno
        for statement, _ in flat(ref.node.body):
            if isinstance(statement, ast.Global) and name in statement.names:
                return Uncertain(f"{ref.source.at(statement)} declares {name} global")
        state: State[str] = follow(ref.node.body, None, lambda statement: binds(statement, name))
        if _may_be_touched(ref):
            state = follow(
                tree.body,
                state,
                lambda statement: (
                    binds_outside(statement, ref.node.name, name, tree)
                    if statement.lineno > end
                    else None
                ),
            )
        if isinstance(state, Perhaps):
            at = ref.source.at(state.statement)
            return Uncertain(f"{at} gives {ref.node.name} {name} under a condition only")
        if isinstance(state, Bound):
            at = ref.source.at(state.statement)
            if state.how == "delete":
                return Uncertain(f"{at} deletes {name}")
            return Member(cast("Kind", state.how), ref.node.name, at, state.statement)
        return None

    def _hidden(self, ref: ClassRef) -> Hidden:
        if ref.source not in self._sources:
            self._sources[ref.source] = Hidden(ref.source)
        return self._sources[ref.source]

    def initialised(self, order: list[ClassRef]) -> list[ClassRef]:
        """Those classes of a line whose own ``__init__`` runs when an object is made.

        A class that does not hand on with ``super().__init__`` leaves out those behind it.
        """
        runs: set[int] = set()
        todo = [0]
        while todo:
            start = todo.pop()
            for index in range(start, len(order)):
                init = self.own(order[index], "__init__")
                if init is None or index in runs:
                    continue
                if not isinstance(init, Member):
                    runs.add(index)  # one of several
                elif isinstance(init.node, ast.FunctionDef):
                    runs.add(index)
                    todo += self._handed_on(order, index, init.node)
                break
        return [ref for index, ref in enumerate(order) if index in runs]

    def _handed_on(self, order: list[ClassRef], index: int, init: ast.FunctionDef) -> list[int]:
        """Positions in a line at which an ``__init__`` calls that of another class."""
        found: list[int] = []
        if order[index].source.lines(init).count(b"__init__") == 1:
            return found
        for node in ast.walk(init):
            called = node.func if isinstance(node, ast.Call) else None
            if not isinstance(called, ast.Attribute) or called.attr != "__init__":
                continue
            base: ast.expr = called.value
            upwards = isinstance(base, ast.Call) and getattr(base.func, "id", "") == "super"
            if isinstance(base, ast.Call) and upwards:
                if not base.args:
                    found.append(index + 1)
                    continue
                base = base.args[0]
            meaning = self.modules.resolve(order[index].module, base)
            for position, ref in enumerate(order):
                if isinstance(meaning, ClassRef) and ref.node is meaning.node:
                    found.append(position + upwards)
        return found

    def _getattr(self, ref: ClassRef, name: str) -> Member | Uncertain | None:
        for special in ("__getattr__", "__getattribute__"):
            member = self.own(ref, special)
            if not isinstance(member, Member):
                continue
            if special == "__getattr__" and forwards(member.node):
                return Member("getattr", ref.node.name, member.at, member.node)
            return Uncertain(f"{special} at {member.at} may answer {name}")
        return None


def _may_be_touched(ref: ClassRef) -> bool:
    """A cheap first look: does the file name the class with a dot, or set attributes by name."""
    data = ref.source.data
    named = rb"\b" + re.escape(ref.node.name.encode()) + rb"[\s\\]*\."
    plain = ref.node.name.isascii()
    return not plain or b"attr" in data or re.search(named, data) is not None


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


def _given_by_init(ref: ClassRef, name: str) -> Member | None:
    """An attribute that a class's own ``__init__`` gives to every object."""
    for function in ref.node.body:
        if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
            continue
        state = follow(function.body, None, lambda inner: _sets(inner, name))
        if isinstance(state, Bound) and state.how == "set":
            given = [s for s, _ in flat(function.body) if _sets(s, name) == "set"]
            plain = all(value_kind(getattr(s, "value", None)) == "value" for s in given)
            at = ref.source.at(state.statement)
            return Member("value" if plain else "instance", ref.node.name, at, state.statement)
    return None


def _sets(statement: ast.stmt, name: str) -> Literal["set", "delete"] | None:
    """Whether a statement sets or deletes ``self.<name>``."""
    targets = list(getattr(statement, "targets", []))
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    items = [item for target in targets for item in getattr(target, "elts", [target])]
    if any(ast.unparse(item) == f"self.{name}" for item in items):
        return "delete" if isinstance(statement, ast.Delete) else "set"
    return None
