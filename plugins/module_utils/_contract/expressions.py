# SPDX-License-Identifier: Apache-2.0
"""Expressions: what they may stand for, and where they touch the target model."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._contract.algorithm import OFF
from ansible_collections.sm120.sglang.plugins.module_utils._contract.collections import Collections
from ansible_collections.sm120.sglang.plugins.module_utils._contract.conditions import Way, asks
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import decorators
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import Frame, State
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import Fact
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    NOTHING,
    Algorithm,
    Args,
    Cls,
    Const,
    Func,
    Many,
    Model,
    Module,
    Named,
    Obj,
    Parent,
    Part,
    Row,
    Table,
    Unknown,
    Value,
    Values,
    join,
    marked,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

# The audit is for NVIDIA nodes: what the release asks about its platform has one answer there.
PLATFORM = {
    "is_cuda": True, "is_cuda_alike": True, "is_npu": False, "is_hip": False, "is_xpu": False,
    "is_cpu": False, "is_hpu": False, "is_musa": False, "is_mps": False, "use_mlx": False,
}  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PROPERTIES = {"property", "cached_property"}


class Expressions(Collections):
    """Works expressions out; calls come from the class built on this one."""

    closures: list[dict[str, Values]]
    entries: set[str]

    @abstractmethod
    def call(self, node: ast.Call, state: State, frame: Frame) -> Values:
        """What a call may give."""

    @abstractmethod
    def invoke(self, function: Func, args: Args, state: State, frame: Frame) -> Values:
        """What calling a function may give."""

    def value(self, node: ast.expr, state: State, frame: Frame) -> Values:
        """What an expression may stand for."""
        if isinstance(node, ast.Name):
            found = state.names.get(node.id)
            return self.global_name(frame.module, node.id) if found is None else found
        return self._kinds[type(node)](node, state, frame)

    _kinds: dict[type[ast.expr], Callable[[Any, State, Frame], Values]]

    def _parts(self, node: ast.expr, state: State, frame: Frame) -> Values:
        parts = self._inner.get(node)
        if parts is None:
            parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            self._inner[node] = parts
        for part in parts:
            self.value(part, state, frame)
        return ANY

    _inner: dict[ast.expr, list[ast.expr]]

    def _value_constant(self, node: ast.Constant, state: State, frame: Frame) -> Values:
        del state, frame
        return self._literal(node)

    def _literal(self, node: ast.Constant) -> Values:
        found = self._constants.get(node)
        if found is None:
            kept = node.value is None or isinstance(node.value, (bool, int, str))
            found = self._constants[node] = frozenset({Const(node.value)}) if kept else ANY
        return found

    _constants: dict[ast.Constant, Values]

    def _value_attribute(self, node: ast.Attribute, state: State, frame: Frame) -> Values:
        base = self.value(node.value, state, frame)
        return self.attribute(node, base, node.attr, state, frame)

    def global_name(self, module: str, name: str) -> Values:
        """What a name of a module stands for."""
        key = (module, name)
        known = self._names.get(key)
        if known is None:
            known = self._look_up(module, name)
            if not any(_depends(value) for value in known):
                self._names[key] = known
        return known

    # What does not depend on the way to it; forgotten where the scope grows.
    _names: dict[tuple[str, str], Values]

    def _look_up(self, module: str, name: str) -> Values:
        found = self.program.global_value(module, name, self.is_foreign)
        if found is None:
            return ANY
        if isinstance(found, Named):
            return frozenset({found})
        return self._global(*found)

    def is_foreign(self, module: str) -> bool:
        """A module that is looked into only when it is handed the model."""
        known = self.program.in_scope(module) or module in self.entries
        return not known and module != self.table.ref.module

    def named(self, value: Named) -> Values:
        """What a name that was left alone stands for."""
        values: Values = frozenset({Module(value.module)})
        for name in value.name.split("."):
            values = join(*(self._inside(item, name) for item in values))
        return values

    def _inside(self, value: Value, name: str) -> Values:
        if not isinstance(value, Module):
            return self._plain_attribute(value, name)
        found = self.program.global_value(value.name, name)
        return self._global(*found) if isinstance(found, tuple) else ANY

    def _global(self, where: str, node: ast.AST) -> Values:
        source = self.program.source(where)
        if isinstance(node, ast.Module):
            return frozenset({Module(where)})
        if isinstance(node, _FUNCTIONS):
            return frozenset({Func(where, node)})
        if isinstance(node, ast.ClassDef) and source is not None:
            return frozenset({Cls(ClassRef(where, source, node))})
        if isinstance(node, (ast.Constant, ast.Tuple, ast.Call, ast.Attribute, ast.Lambda)):
            return self._constant(node, where)
        return ANY

    def _constant(self, node: ast.expr, module: str) -> Values:
        """A global as far as it is constant: a literal, a platform question, an alias."""
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            return frozenset({Const(PLATFORM[name])}) if name in PLATFORM else ANY
        frame = Frame(module, "", "")
        if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
            return ANY
        return self.value(node, State({}), frame)

    def attribute(
        self, node: ast.AST, base: Values, name: str, state: State, frame: Frame
    ) -> Values:
        """What values have under a name; reading it off the target model is a touch."""
        if base is ANY:
            return ANY
        if len(base) == 1:
            (value,) = base
            return self._attribute(node, value, name, state, frame)
        return join(*(self._attribute(node, value, name, state, frame) for value in base))

    def _attribute(
        self, node: ast.AST, value: Value, name: str, state: State, frame: Frame
    ) -> Values:
        if isinstance(value, Model):
            if value.role == "draft":
                return ANY
            self.touch(frame, state, node, name, "read", required=True)
            return frozenset({Part(name)})
        if isinstance(value, Obj):
            return self._field(value, name, state, frame)
        if isinstance(value, Parent):
            member = self.program.find(_class_of(value.bound) or value.owner, name, value.owner)
            return self.bound(member.owner, member.node, value.bound) if member else ANY
        if isinstance(value, Algorithm):
            return self._of_algorithm(value, name)
        return self._plain_attribute(value, name)

    def _plain_attribute(self, value: Value, name: str) -> Values:
        """What a value has under a name that is neither an object nor the model."""
        if isinstance(value, Part):
            return frozenset({Part(value.name, inner=True)})
        if isinstance(value, Cls):
            return self._class_attribute(value, name)
        if isinstance(value, Module) and not self.is_foreign(value.name):
            return self.global_name(value.name, name)
        if isinstance(value, Module):
            return frozenset({Named(value.name, name)})
        if isinstance(value, Named):
            return frozenset({Named(value.module, f"{value.name}.{name}")})
        return frozenset({value}) if isinstance(value, Unknown) and value.spec else ANY

    def _of_algorithm(self, value: Algorithm, name: str) -> Values:
        member = self.program.find(self.table.ref, name)
        if member is not None and isinstance(member.node, _FUNCTIONS):
            return self.bound(member.owner, member.node, value)
        entry = self.table.registered.get(value.name)
        if entry is None or entry.worker is None or "factory" not in name:
            return ANY
        made = self.value(entry.worker, State({}), Frame(self.table.ref.module, "", ""))
        return frozenset(replace(v, spec=True) if isinstance(v, Func) else v for v in made)

    def _class_attribute(self, value: Cls, name: str) -> Values:
        if value.ref.node is self.table.ref.node and name in {*self.table.names, OFF}:
            return frozenset({Algorithm(name)})
        member = self.program.find(value.ref, name)
        if member is None:
            return ANY
        if isinstance(member.node, _FUNCTIONS):
            bound = value if "classmethod" in self.decorators(member.node) else None
            return frozenset({Func(member.owner.module, member.node, bound, member.owner)})
        return self._default(member.node)

    def _default(self, node: ast.stmt) -> Values:
        given = getattr(node, "value", None)
        if isinstance(given, ast.Constant):
            return self._literal(given)
        return ANY if given is not None or not isinstance(node, ast.AnnAssign) else NOTHING

    def _field(self, obj: Obj, name: str, state: State, frame: Frame) -> Values:
        member = self.program.find(obj.ref, name)
        if member is not None and isinstance(member.node, _FUNCTIONS):
            if not _PROPERTIES.isdisjoint(self.decorators(member.node)):
                getter = Func(member.owner.module, member.node, obj, member.owner)
                return self.invoke(getter, Args(), state, frame)
            return self.bound(member.owner, member.node, obj)
        if name == "model" and self.loads_model(obj.ref):
            return frozenset({Model("draft" if obj.spec else "target")})
        if name == "__class__":
            return frozenset({Cls(obj.ref)})
        if (obj, name) not in self.fields and name not in self.program.assigned(obj.ref):
            self.reads((obj, name))
            return ANY if member is None else self._default(member.node) or ANY
        default = self._default(member.node) if member is not None else NOTHING
        return join(default, self.take(obj, name))

    def bound(self, owner: ClassRef, node: ast.stmt, bound: Value) -> Values:
        """A function of a class, with the object that it is asked of."""
        if not isinstance(node, _FUNCTIONS):
            return ANY
        key = (node, bound, owner.node)
        found = self._methods.get(key)
        if found is None:
            found = self._methods[key] = self._method(owner, node, bound)
        return found

    _methods: dict[tuple[ast.AST, Value, ast.ClassDef], Values]

    def _method(
        self, owner: ClassRef, node: ast.FunctionDef | ast.AsyncFunctionDef, bound: Value
    ) -> Values:
        marks = self.decorators(node)
        if "staticmethod" in marks:
            return frozenset({Func(owner.module, node, None, owner)})
        if "classmethod" in marks:
            bound = Cls(bound.ref) if isinstance(bound, Obj) else bound
        return frozenset({Func(owner.module, node, bound, owner)})

    def decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
        """Names of a function's decorators, without their modules and arguments."""
        found = self._marks.get(node)
        if found is None:
            found = self._marks[node] = decorators(node)
        return found

    _marks: dict[ast.AST, set[str]]

    def loads_model(self, ref: ClassRef) -> bool:
        """Whether objects of a class load a model into ``self.model``: model runners."""
        return (
            "model" in self.program.assigned(ref)
            and self.program.find(ref, "load_model") is not None
        )

    def _value_boolop(self, node: ast.BoolOp, state: State, frame: Frame) -> Values:
        stops = isinstance(node.op, ast.Or)
        found: list[Value] = []
        here = state.fork()
        for operand in node.values[:-1]:
            values, ways = self.both(operand, here, frame)
            found += [
                value
                for value in marked(values, here.spec)
                if any(way.outcome is stops for way in self.truthy(frozenset({value})))
            ]
            passing = [way for way in ways if way.outcome is not stops]
            if not passing:
                return join(found)
            facts = {way.facts for way in passing}
            known = passing[0].facts if len(facts) == 1 else frozenset[Fact]()
            here.learn(known, all(way.spec for way in passing))
        last = self.value(node.values[-1], here, frame)
        return join(found, marked(last, here.spec and not state.spec))

    def both(self, node: ast.expr, state: State, frame: Frame) -> tuple[Values, list[Way]]:
        """What an expression may stand for, and the ways that are open behind it."""
        if isinstance(node, ast.Compare):
            ways = self.ways(node, state, frame)
            return _as_constants(ways), ways
        values = self.value(node, state, frame)
        if isinstance(node, (ast.BoolOp, ast.UnaryOp)) or asks(node):
            return values, self.ways(node, state, frame)
        return values, self.still_open(self.truthy(values), state)

    def _value_unaryop(self, node: ast.UnaryOp, state: State, frame: Frame) -> Values:
        if isinstance(node.op, ast.Not):
            return _as_constants(self.ways(node, state, frame))
        self.value(node.operand, state, frame)
        return ANY

    def _value_compare(self, node: ast.Compare, state: State, frame: Frame) -> Values:
        return _as_constants(self.ways(node, state, frame))

    def _value_ifexp(self, node: ast.IfExp, state: State, frame: Frame) -> Values:
        found: list[Values] = []
        for way in self.ways(node.test, state, frame):
            here = state.fork()
            here.learn(way.facts, way.spec)
            branch = node.body if way.outcome else node.orelse
            found.append(marked(self.value(branch, here, frame), way.spec))
        return join(*found)

    def _value_namedexpr(self, node: ast.NamedExpr, state: State, frame: Frame) -> Values:
        values = self.value(node.value, state, frame)
        state.names[node.target.id] = values
        return values

    def _value_lambda(self, node: ast.Lambda, state: State, frame: Frame) -> Values:
        return frozenset({self.closure(node, state, frame)})

    def closure(
        self,
        node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef,
        state: State,
        frame: Frame,
    ) -> Func:
        """A function with the names around it; they are collected over all its makings."""
        key = (id(node), frame.bound)
        number = self._closure_numbers.setdefault(key, len(self.closures))
        if number == len(self.closures):
            self.closures.append({})
        names = self.closures[number]
        for name, values in state.names.items():
            merged = join(names.get(name, NOTHING), values)
            if merged != names.get(name):
                names[name] = merged
                self.changed(("closure", number))
        return Func(frame.module, node, None, frame.owner, number)

    _closure_numbers: dict[tuple[int, Value | None], int]


def _as_constants(ways: Iterable[Way]) -> Values:
    """A condition as a value."""
    return frozenset(Const(way.outcome, way.spec) for way in ways)


def _class_of(value: Value) -> ClassRef | None:
    return value.ref if isinstance(value, (Obj, Cls)) else None


def _depends(value: Value) -> bool:
    """A global that is made anew each time it is looked up, in the name of who looks it up."""
    if isinstance(value, Func):
        return value.closure >= 0
    return isinstance(value, (Many, Obj, Row, Table))
