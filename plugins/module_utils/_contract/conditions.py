# SPDX-License-Identifier: Apache-2.0
"""Conditions: which ways are open behind them, and what each way says of the target model."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeGuard

from ansible_collections.sm120.sglang.plugins.module_utils._contract.algorithm import OFF
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import (
    Frame,
    Recorder,
    State,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import Fact
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    NONE,
    Algorithm,
    Cls,
    Const,
    Func,
    Many,
    Model,
    Named,
    Part,
    Row,
    Table,
    Unknown,
    Value,
    Values,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

_NO_FACTS: frozenset[Fact] = frozenset()
_MOST_WAYS = 8
_PROTOCOLS = {"Protocol", "typing.Protocol", "typing_extensions.Protocol"}


class Way(NamedTuple):
    """One way behind a condition: its outcome, and when it is open."""

    outcome: bool
    facts: frozenset[Fact] = _NO_FACTS
    spec: bool = False


# Nothing is known of a condition; never changed.
_BOTH = [Way(True), Way(False)]


def asks(node: ast.expr) -> TypeGuard[ast.Call]:
    """``hasattr``, ``isinstance`` and the like."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id in {"hasattr", "isinstance"}:
        return len(node.args) == 2
    return node.func.id in {"callable", "bool"} and bool(node.args)


def possible(facts: Iterable[Fact]) -> bool:
    """Facts that do not contradict each other."""
    known = dict(facts)
    return all(known[name] == present for name, present in facts)


def simpler(ways: list[Way]) -> list[Way]:
    """Each way once; too many are told apart by their outcome alone."""
    found: dict[tuple[bool, frozenset[Fact]], bool] = {}
    if len(ways) == 1 or (len(ways) == 2 and ways[0].outcome is not ways[1].outcome):
        return ways
    for way in ways:
        key = (way.outcome, way.facts)
        found[key] = found.get(key, True) and way.spec
    if len(found) > _MOST_WAYS:
        return simpler([Way(outcome, _NO_FACTS, spec) for (outcome, _), spec in found.items()])
    return [Way(outcome, facts, spec) for (outcome, facts), spec in found.items()]


class Conditions(Recorder):
    """Works conditions out; expressions come from the class built on this one."""

    @abstractmethod
    def value(self, node: ast.expr, state: State, frame: Frame) -> Values:
        """What an expression may stand for."""

    @abstractmethod
    def named(self, value: Named) -> Values:
        """What a name that was left alone stands for."""

    def ways(self, node: ast.expr, state: State, frame: Frame) -> list[Way]:
        """The ways that are open behind a condition."""
        return self.still_open(self._ways(node, state, frame), state)

    def still_open(self, ways: list[Way], state: State) -> list[Way]:
        """The ways that go with what is known of the model."""
        if ways is _BOTH:
            return _BOTH
        return [
            way for way in simpler(ways) if not way.facts or possible([*state.facts, *way.facts])
        ]

    def _ways(self, node: ast.expr, state: State, frame: Frame) -> list[Way]:
        if isinstance(node, ast.Compare):
            return self._compare(node, state, frame)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._ways(node.operand, state, frame)
            if inner is _BOTH:
                return _BOTH
            return [Way(not way.outcome, way.facts, way.spec) for way in inner]
        if isinstance(node, ast.BoolOp):
            return self._chain(node, state, frame)
        if asks(node):
            return self._question(node, state, frame)
        return self.truthy(self.value(node, state, frame))

    def _question(self, node: ast.Call, state: State, frame: Frame) -> list[Way]:
        name = getattr(node.func, "id", "")
        if name == "hasattr":
            return self._hasattr(node, state, frame)
        if name == "isinstance":
            return self._isinstance(node, state, frame)
        return self._ways(node.args[0], state, frame)

    def _chain(self, node: ast.BoolOp, state: State, frame: Frame) -> list[Way]:
        stops = isinstance(node.op, ast.Or)
        done: list[Way] = []
        going = [Way(not stops)]
        for operand in node.values:
            further: list[Way] = []
            for way in going:
                here = state
                if way.facts or way.spec:
                    here = state.fork()
                    here.learn(way.facts, way.spec)
                for found in self._ways(operand, here, frame):
                    facts = way.facts | found.facts
                    if facts and not possible([*state.facts, *facts]):
                        continue
                    step = Way(found.outcome, facts, way.spec or found.spec)
                    (done if found.outcome is stops else further).append(step)
                if here is not state:
                    state.names.update(here.names)
            going = simpler(further)
        return [*done, *going]

    def truthy(self, values: Values) -> list[Way]:
        """The ways behind a condition that is one of these values."""
        if values is ANY:
            return _BOTH
        found: list[Way] = []
        for value in values:
            if isinstance(value, Const):
                found.append(Way(bool(value.value), _NO_FACTS, value.spec))
            elif isinstance(value, Part) and value.optional:
                found += [Way(True, frozenset({(value.name, True)}))]
                found += [Way(False, frozenset({(value.name, False)}))]
            elif isinstance(value, Part) and value.inner:
                there = frozenset({(value.name, True)})
                found += [Way(True, there), Way(False, there)]
            elif isinstance(value, (Unknown, Named, Part, Many, Table, Row)):
                spec = isinstance(value, Unknown) and value.spec
                found += [Way(True, _NO_FACTS, spec), Way(False, _NO_FACTS, spec)]
            else:
                found.append(Way(True, _NO_FACTS, isinstance(value, Func) and value.spec))
        return found

    def _compare(self, node: ast.Compare, state: State, frame: Frame) -> list[Way]:
        operator, right = node.ops[0], node.comparators[0]
        if len(node.ops) > 1:
            for operand in (node.left, *node.comparators):
                self.value(operand, state, frame)
            return _BOTH
        left_values = self.value(node.left, state, frame)
        right_values = self.value(right, state, frame)
        same = isinstance(operator, (ast.Is, ast.Eq))
        if left_values is ANY and not _marked(right_values):
            return _BOTH
        if same or isinstance(operator, (ast.IsNot, ast.NotEq)):
            if right_values == NONE:
                found = [way for value in left_values for way in _is_none(value)]
            else:
                found = self._equal(left_values, right_values)
            return [Way(way.outcome is same, way.facts, way.spec) for way in found]
        if isinstance(operator, (ast.In, ast.NotIn)):
            found = self._contained(left_values, right_values)
            wanted = isinstance(operator, ast.In)
            return [Way(way.outcome is wanted, way.facts, way.spec) for way in found]
        return _BOTH

    def _equal(self, left: Values, right: Values) -> list[Way]:
        return [way for a in left for b in right for way in self._same(a, b)]

    def _same(self, left: Value, right: Value) -> list[Way]:
        if isinstance(left, Algorithm) and isinstance(right, Algorithm):
            chosen = left if left.chosen else right
            other = right if left.chosen else left
            outcome = left.name == right.name
            # With speculation off the comparison would have gone with OFF in place of the chosen.
            spec = chosen.chosen and not other.chosen and outcome != (other.name == OFF)
            return [Way(outcome, _NO_FACTS, spec)]
        if isinstance(left, Const) and isinstance(right, Const):
            return [Way(left.value == right.value, _NO_FACTS, left.spec or right.spec)]
        spec = any(isinstance(v, (Unknown, Const)) and v.spec for v in (left, right))
        return [Way(True, _NO_FACTS, spec), Way(False, _NO_FACTS, spec)]

    def _contained(self, left: Values, right: Values) -> list[Way]:
        if len(right) != 1:
            return [Way(True), Way(False)]
        (row,) = right
        if not isinstance(row, Row):
            return [Way(True), Way(False)]
        found: list[Way] = []
        for value in left:
            each = [self._equal(frozenset({value}), item) for item in row.items]
            if any(len(ways) != 1 for ways in each):
                found += [Way(True), Way(False)]
                continue
            hit = next((ways[0] for ways in each if ways[0].outcome), None)
            if hit is not None:
                found.append(hit)
            else:
                found.append(Way(False, _NO_FACTS, any(ways[0].spec for ways in each)))
        return found

    def _hasattr(self, node: ast.Call, state: State, frame: Frame) -> list[Way]:
        name = node.args[1]
        found: list[Way] = []
        for value in self.value(node.args[0], state, frame):
            if isinstance(value, Model) and value.role == "target":
                for text in self.texts(name, state, frame):
                    self.touch(frame, state, node, text, "hasattr", required=False)
                    found.append(Way(True, frozenset({(text, True)})))
                    found.append(Way(False, frozenset({(text, False)})))
                if found:
                    continue
                self.doubt(frame, node, "asks the target model for a name that is computed")
            found += [Way(True), Way(False)]
        return found

    def texts(self, node: ast.expr, state: State, frame: Frame) -> list[str]:
        """The constant texts that an expression may stand for; empty where it is not certain."""
        values = self.value(node, state, frame)
        found = [v.value for v in values if isinstance(v, Const) and isinstance(v.value, str)]
        return sorted(found) if len(found) == len(values) else []

    def _isinstance(self, node: ast.Call, state: State, frame: Frame) -> list[Way]:
        kinds = self.value(node.args[1], state, frame)
        found: list[Way] = []
        asked = self.value(node.args[0], state, frame)
        if any(isinstance(value, Model) for value in asked):
            kinds = frozenset(
                kind
                for named in kinds
                for kind in (self.named(named) if isinstance(named, Named) else [named])
            )
        for value in asked:
            protocol = [
                name for kind in kinds if isinstance(kind, Cls) for name in self.asked(kind.ref)
            ]
            if isinstance(value, Model) and value.role == "target" and protocol:
                for name in protocol:
                    self.touch(frame, state, node, name, "isinstance", required=False)
                    found.append(Way(False, frozenset({(name, False)})))
                found.append(Way(True, frozenset((name, True) for name in protocol)))
            elif isinstance(value, Part) and value.optional:
                # None is no instance of anything that engines ask for.
                there = frozenset({(value.name, True)})
                found += [Way(False), Way(True, there)]
            else:
                found += [Way(True), Way(False)]
        return found

    def asked(self, ref: ClassRef) -> Sequence[str]:
        """The members that a protocol asks for; none where the class is no protocol."""
        line = self.program.line(ref)
        if not any(ast.unparse(b) in _PROTOCOLS for item in line for b in item.node.bases):
            return []
        names = {name for item in line for name in self.program.members(item)}
        return sorted(name for name in names if not name.startswith("__"))


def _marked(values: Values) -> bool:
    """One of them is there only because of speculation; or none is there yet."""
    return not values or any(
        isinstance(v, Algorithm) or (isinstance(v, (Unknown, Const)) and v.spec) for v in values
    )


def _is_none(value: Value) -> list[Way]:
    if isinstance(value, Const):
        return [Way(value.value is None, _NO_FACTS, value.spec)]
    if isinstance(value, Part) and value.optional:
        return [
            Way(True, frozenset({(value.name, False)})),
            Way(False, frozenset({(value.name, True)})),
        ]
    if isinstance(value, Part) and value.inner:
        return [Way(False, frozenset({(value.name, True)}))]
    if isinstance(value, (Unknown, Named, Part)):
        spec = isinstance(value, Unknown) and value.spec
        return [Way(True, _NO_FACTS, spec), Way(False, _NO_FACTS, spec)]
    return [Way(False, _NO_FACTS, isinstance(value, Func) and value.spec)]
