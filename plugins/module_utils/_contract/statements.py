# SPDX-License-Identifier: Apache-2.0
"""Statements: what they bind, where they lead, and what an error at their end says."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._contract.calls import Calls
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import (
    Frame,
    State,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import Fact, Touch
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    NOTHING,
    Cls,
    Model,
    Module,
    Named,
    Obj,
    Part,
    Row,
    Unknown,
    Value,
    Values,
    elements,
    join,
    many,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

_CATCHERS = {"AttributeError", "Exception", "BaseException"}


class Statements(Calls):
    """Walks through statements."""

    def run(self, body: Sequence[ast.stmt], state: State, frame: Frame) -> None:
        """Walk through statements."""
        for statement in body:
            if state.ended:
                return
            self._runs[type(statement)](statement, state, frame)

    def statement(self, node: ast.stmt, state: State, frame: Frame) -> None:
        """Walk through a statement."""
        self._runs[type(node)](node, state, frame)

    _runs: dict[type[ast.stmt], Callable[[Any, State, Frame], None]]

    def _nothing(self, node: ast.stmt, state: State, frame: Frame) -> None:
        """What has no meaning for the audit."""

    def _run_expr(self, node: ast.Expr, state: State, frame: Frame) -> None:
        self.value(node.value, state, frame)

    def _run_assign(self, node: ast.Assign, state: State, frame: Frame) -> None:
        values = self.value(node.value, state, frame)
        for target in node.targets:
            self.bind(target, values, state, frame)

    def _run_annassign(self, node: ast.AnnAssign, state: State, frame: Frame) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value, state, frame), state, frame)

    def _run_augassign(self, node: ast.AugAssign, state: State, frame: Frame) -> None:
        values = self.value(node.value, state, frame)
        if isinstance(node.target, ast.Name):
            values = join(state.names.get(node.target.id, NOTHING), values)
        self.bind(node.target, values, state, frame)

    def _run_return(self, node: ast.Return, state: State, frame: Frame) -> None:
        if node.value is not None:
            frame.returns |= self.value(node.value, state, frame)
        state.ended = True

    def _run_if(self, node: ast.If, state: State, frame: Frame) -> None:
        """Go both ways behind a condition, as far as they are open."""
        ways = self.ways(node.test, state, frame)
        bodies = {True: node.body, False: node.orelse}
        undecided = len({way.outcome for way in ways}) > 1
        after: State | None = None
        open_ended: dict[bool, bool] = {}
        for way in ways:
            here = state.fork()
            if undecided and not way.facts:
                here.under(self._shown(node.test, way.outcome))
            here.learn(way.facts, way.spec)
            self.run(bodies[way.outcome], here, frame)
            open_ended[way.outcome] = open_ended.get(way.outcome, False) or not here.ended
            fresh = here.fresh
            if after is not None:
                after.merge(here)
            elif not here.ended:
                after = here
        # Without speculation the engine would have gone by the ways that are not marked, or, where
        # all are, by the one that is not open now. What follows is common ground if it arrives.
        plain = {way.outcome for way in ways if not way.spec}
        without = plain or {True, False} - ({ways[0].outcome} if ways and not undecided else set())
        arrives = any(open_ended.get(outcome, not _ends(bodies[outcome])) for outcome in without)
        state.spec = state.spec or not arrives
        state.ended = after is None
        if after is not None:
            state.names, state.facts = after.names, after.facts
            state.fresh, state.when = after.fresh, after.when
        if len(ways) == 1:
            state.fresh = fresh

    def _shown(self, test: ast.expr, outcome: bool) -> str:
        """A condition in one short line."""
        text = self._texts.get(test)
        if text is None:
            text = ast.unparse(test)
            text = self._texts[test] = text if len(text) <= 100 else f"{text[:97]}..."
        return text if outcome else f"not ({text})"

    _texts: dict[ast.expr, str]

    def _run_raise(self, node: ast.Raise, state: State, frame: Frame) -> None:
        """An error because the model lacks something makes it required."""
        if node.exc is not None:
            self.value(node.exc, state, frame)
        self._refused(node, state, state.fresh, frame)
        state.ended = True

    def _refused(self, node: ast.AST, state: State, fresh: frozenset[Fact], frame: Frame) -> None:
        for name, present in sorted(fresh):
            if not present:
                others = state.facts - {(name, False)}
                self.touch(frame, state, node, name, "hasattr", required=True, facts=others)

    def _run_assert(self, node: ast.Assert, state: State, frame: Frame) -> None:
        ways = self.ways(node.test, state, frame)
        for way in ways:
            if not way.outcome and way.facts:
                here = state.fork()
                here.learn(way.facts, way.spec)
                self._refused(node, here, way.facts, frame)
        passing = [way for way in ways if way.outcome]
        if len(passing) == 1:
            state.facts |= passing[0].facts
        elif ways and not passing:
            state.ended = True

    def _run_for(self, node: ast.For | ast.AsyncFor, state: State, frame: Frame) -> None:
        items = elements(self.value(node.iter, state, frame))
        here = state.fork()
        self.bind(node.target, items or ANY, here, frame)
        self._loop(here, node.body, node.orelse, state, frame)

    _run_asyncfor = _run_for

    def _run_while(self, node: ast.While, state: State, frame: Frame) -> None:
        ways = self.ways(node.test, state, frame)
        if not any(way.outcome for way in ways):
            return
        self._loop(state.fork(), node.body, node.orelse, state, frame)

    def _loop(
        self,
        here: State,
        body: Sequence[ast.stmt],
        otherwise: Sequence[ast.stmt],
        state: State,
        frame: Frame,
    ) -> None:
        self.run(body, here, frame)
        here.ended = False
        state.merge(here)
        self.run(otherwise, state, frame)

    def _run_try(self, node: ast.Try, state: State, frame: Frame) -> None:
        before = state.fork()
        here = state.fork()
        here.rescued = state.rescued or any(_rescues(handler) for handler in node.handlers)
        before_touches = set(self.current.touches)
        self.run(node.body, here, frame)
        here.rescued = state.rescued
        failing = [
            touch
            for touch in self.current.touches - before_touches
            if touch.how in {"read", "call", "getattr"} and (touch.member, True) not in touch.facts
        ]
        if not here.ended:
            self.run(node.orelse, here, frame)
        after = here
        for handler in node.handlers:
            caught = before.fork()
            caught.names = {**before.names}
            for name, values in here.names.items():
                caught.names[name] = join(before.names.get(name, NOTHING), values)
            caught.under(f"except {_kinds(handler)}")
            if _catches(handler):
                caught.facts |= _for_want_of(failing)
            if handler.name:
                caught.names[handler.name] = ANY
            self.run(handler.body, caught, frame)
            after = after.fork()
            after.merge(caught)
        self.run(node.finalbody, after if not after.ended else before, frame)
        state.names, state.facts, state.fresh = after.names, after.facts, after.fresh
        state.when, state.ended, state.spec = after.when, after.ended, after.spec

    _run_trystar = _run_try

    def _run_with(self, node: ast.With | ast.AsyncWith, state: State, frame: Frame) -> None:
        rescued = state.rescued
        for item in node.items:
            values = self.value(item.context_expr, state, frame)
            if item.optional_vars is not None:
                kept = frozenset(v for v in values if isinstance(v, (Obj, Model, Part)))
                self.bind(item.optional_vars, kept or ANY, state, frame)
            state.rescued = state.rescued or _suppresses(item.context_expr)
        self.run(node.body, state, frame)
        state.rescued = rescued

    _run_asyncwith = _run_with

    def _run_match(self, node: ast.Match, state: State, frame: Frame) -> None:
        self.value(node.subject, state, frame)
        after = state.fork()
        for case in node.cases:
            here = state.fork()
            here.under(f"match {ast.unparse(node.subject)[:60]}")
            self.run(case.body, here, frame)
            after.merge(here)
        state.names, state.when = after.names, after.when

    def _run_functiondef(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, state: State, frame: Frame
    ) -> None:
        state.names[node.name] = frozenset({self.closure(node, state, frame)})

    _run_asyncfunctiondef = _run_functiondef

    def _run_classdef(self, node: ast.ClassDef, state: State, frame: Frame) -> None:
        source = self.program.source(frame.module)
        known = source is not None and not node.decorator_list
        state.names[node.name] = (
            frozenset({Cls(ClassRef(frame.module, source, node))}) if source and known else ANY
        )

    def _run_break(self, node: ast.stmt, state: State, frame: Frame) -> None:
        del node, frame
        state.ended = True

    _run_continue = _run_break

    def _run_import(self, node: ast.Import | ast.ImportFrom, state: State, frame: Frame) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".", maxsplit=1)[0]
            step = self.program.imported(frame.module, node, name)
            if step is None:
                state.names[name] = ANY
                frame.outside.add(name)
            elif not step[1]:
                state.names[name] = frozenset({Module(step[0])})
            elif self.is_foreign(step[0]):
                state.names[name] = frozenset({Named(*step)})
            else:
                state.names[name] = self.global_name(*step)

    _run_importfrom = _run_import

    def _run_delete(self, node: ast.Delete, state: State, frame: Frame) -> None:
        del frame
        for target in node.targets:
            if isinstance(target, ast.Name):
                state.names.pop(target.id, None)

    def bind(self, target: ast.expr, values: Values, state: State, frame: Frame) -> None:
        """Assign values to a target."""
        if isinstance(target, ast.Name):
            state.names[target.id] = values
        elif isinstance(target, ast.Starred):
            self.bind(target.value, many(values), state, frame)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, item in enumerate(target.elts):
                parts = [_part(value, index, len(target.elts)) for value in values]
                self.bind(item, join(*parts), state, frame)
        elif isinstance(target, ast.Attribute):
            for base in self.value(target.value, state, frame):
                if isinstance(base, Obj):
                    self.put(base, target.attr, values, state.spec)
                elif isinstance(base, Model) and base.role == "target":
                    self.touch(frame, state, target, target.attr, "write", required=False)
        elif isinstance(target, ast.Subscript):
            self._bind_item(target, values, state, frame)

    def _bind_item(self, target: ast.Subscript, values: Values, state: State, frame: Frame) -> None:
        self.value(target.slice, state, frame)
        kept = many(values)
        if isinstance(target.value, ast.Name):
            name = target.value.id
            state.names[name] = join(state.names.get(name, NOTHING), kept)
        elif isinstance(target.value, ast.Attribute):
            for base in self.value(target.value.value, state, frame):
                if isinstance(base, Obj):
                    self.put(base, target.value.attr, kept, state.spec)


def _part(value: Value, index: int, length: int) -> Values:
    """The part of a value that lands in one of several targets."""
    if isinstance(value, Row) and len(value.items) == length:
        return value.items[index]
    if isinstance(value, Part):
        return frozenset({Part(value.name, inner=True)})
    return frozenset({value}) if isinstance(value, Unknown) else elements(frozenset({value}))


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether nothing comes behind these statements, as far as their last one tells."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _kinds(handler: ast.ExceptHandler) -> str:
    return ast.unparse(handler.type) if handler.type is not None else "anything"


def _catches(handler: ast.ExceptHandler) -> bool:
    """It catches AttributeError."""
    kinds = handler.type
    items = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    names = {ast.unparse(item).rsplit(".", 1)[-1] if item else "Exception" for item in items}
    return bool(names & _CATCHERS)


def _rescues(handler: ast.ExceptHandler) -> bool:
    """It catches AttributeError and does not raise again."""
    raises = any(isinstance(inner, ast.Raise) for body in handler.body for inner in ast.walk(body))
    return _catches(handler) and not raises


def _for_want_of(touches: Sequence[Touch]) -> frozenset[Fact]:
    """What is known of the model where one of these touches has failed."""
    members = {touch.member for touch in touches}
    if len(members) != 1:
        return frozenset()
    common = frozenset.intersection(*(touch.facts for touch in touches))
    return common | {(member, False) for member in members}


def _suppresses(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("suppress"):
        return False
    return any(ast.unparse(item).rsplit(".", 1)[-1] in _CATCHERS for item in node.args)
