# SPDX-License-Identifier: Apache-2.0
"""Builtins that hand on what they are given, or ask for it by name."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ansible_collections.sm120.sglang.plugins.module_utils._contract.functions import Functions
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import Frame, State
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    NONE,
    NOTHING,
    Args,
    Cls,
    Const,
    Func,
    Model,
    Obj,
    Parent,
    Part,
    Row,
    Table,
    Value,
    Values,
    elements,
    join,
    many,
    row,
    table,
)

_CONDITIONS = {"isinstance", "hasattr", "callable"}
_NO_ARGUMENTS = Args()
_COPIES = {"list", "tuple", "set", "sorted", "reversed", "iter", "frozenset"}


class Known(Functions):
    """Works calls of builtins out."""

    def builtin(self, node: ast.Call, name: str, state: State, frame: Frame) -> Values | None:
        """What a builtin gives; None where it is none of those that matter."""
        if name == "super":
            bound = frame.owner is not None and frame.bound is not None
            return frozenset(self._parent(frame)) if bound else ANY
        if name == "dict" and not node.args:
            return table(self.arguments(node, state, frame).keywords)
        if not node.args:
            return None
        if name in _CONDITIONS:
            ways = self.ways(node, state, frame)
            return frozenset(Const(way.outcome, way.spec) for way in ways)
        special: dict[str, Callable[[ast.Call, State, Frame], Values]] = {
            "getattr": self._getattr,
            "setattr": self._setattr,
            "defaultdict": self._defaultdict,
        }
        if name in special:
            return special[name](node, state, frame)
        return self._collection(node, name, state, frame)

    def _parent(self, frame: Frame) -> list[Value]:
        if frame.owner is None or frame.bound is None:
            return []
        return [Parent(frame.bound, frame.owner)]

    def _collection(self, node: ast.Call, name: str, state: State, frame: Frame) -> Values | None:
        if name not in {*_COPIES, "next", "enumerate", "zip", "bool", "type"}:
            return None
        parts = [self.value(item, state, frame) for item in node.args]
        if name in _COPIES:
            return many(elements(parts[0]))
        if name == "enumerate":
            return many(row((ANY, elements(parts[0]))))
        if name == "zip":
            return many(row(elements(part) for part in parts))
        if name == "type":
            return join(*([Cls(v.ref)] if isinstance(v, Obj) else ANY for v in parts[0]))
        return elements(parts[0]) if name == "next" else parts[0]

    def arguments(self, node: ast.Call, state: State, frame: Frame) -> Args:
        """The arguments of a call, unpacked as far as they are known."""
        if not node.args and not node.keywords:
            return _NO_ARGUMENTS
        given: list[Values] = []
        more = False
        for item in node.args:
            if not isinstance(item, ast.Starred):
                given.append(self.value(item, state, frame))
                continue
            for value in self.value(item.value, state, frame):
                given += value.items if isinstance(value, Row) else ()
                more = more or not isinstance(value, Row)
        keywords: dict[str, Values] = {}
        for keyword in node.keywords:
            values = self.value(keyword.value, state, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = values
                continue
            for value in values:
                more = more or not isinstance(value, Table)
                for name, part in value.items if isinstance(value, Table) else ():
                    keywords[str(name)] = join(keywords.get(str(name), NOTHING), part)
        return Args(tuple(given), tuple(keywords.items()), more)

    def _defaultdict(self, node: ast.Call, state: State, frame: Frame) -> Values:
        given = self.arguments(node, state, frame).given
        found = [
            self.invoke(value, Args(), state, frame)
            for value in given[0]
            if isinstance(value, Func)
        ]
        for value in (value for part in given[1:] for value in part):
            found += [part for _, part in value.items] if isinstance(value, Table) else []
        return many(join(*found))

    def _getattr(self, node: ast.Call, state: State, frame: Frame) -> Values:
        if len(node.args) < 2:
            return ANY
        base = self.value(node.args[0], state, frame)
        names = self.texts(node.args[1], state, frame)
        default = self.value(node.args[2], state, frame) if len(node.args) > 2 else None
        found: list[Values] = []
        if any(isinstance(value, Model) and value.role == "target" for value in base):
            if not names:
                self.doubt(frame, node, "asks the target model for a name that is computed")
            found += [self._ask(node, name, default, state, frame) for name in names]
        rest = frozenset(value for value in base if not isinstance(value, Model))
        if rest:
            found += [self.attribute(node, rest, name, state, frame) for name in names]
            found += [default] if default is not None else []
        return join(*found) if found else ANY

    def _ask(
        self, node: ast.Call, name: str, default: Values | None, state: State, frame: Frame
    ) -> Values:
        """``getattr`` on the target model, with or without something to fall back to."""
        if default is None:
            self.touch(frame, state, node, name, "getattr", required=True)
            return frozenset({Part(name)})
        self.touch(frame, state, node, name, "getattr_default", required=False)
        if default == NONE:
            return frozenset({Part(name, optional=True)})
        return join(default, [Part(name, inner=True)])

    def _setattr(self, node: ast.Call, state: State, frame: Frame) -> Values:
        if len(node.args) < 3:
            return ANY
        values = self.value(node.args[2], state, frame)
        for base in self.value(node.args[0], state, frame):
            for name in self.texts(node.args[1], state, frame):
                if isinstance(base, Obj):
                    self.put(base, name, values, state.spec)
                elif isinstance(base, Model) and base.role == "target":
                    self.touch(frame, state, node, name, "write", required=False)
        return ANY

    def collect(self, node: ast.Call, args: Args, state: State, frame: Frame) -> None:
        """``collection.append(value)`` keeps the value in the collection."""
        given = args.given
        if not isinstance(node.func, ast.Attribute) or not given:
            return
        if not any(self.holds(value) for value in given[-1]):
            return
        target, extends = node.func.value, node.func.attr == "extend"
        kept = many(elements(given[-1]) if extends else given[-1])
        if isinstance(target, ast.Name):
            state.names[target.id] = join(state.names.get(target.id, NOTHING), kept)
        elif isinstance(target, ast.Attribute):
            for owner in self.value(target.value, state, frame):
                if isinstance(owner, Obj):
                    self.put(owner, target.attr, kept, state.spec)
