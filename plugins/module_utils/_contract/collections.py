# SPDX-License-Identifier: Apache-2.0
"""Collections: written out, taken apart and run through."""

from __future__ import annotations

import ast
from abc import abstractmethod

from ansible_collections.sm120.sglang.plugins.module_utils._contract.conditions import Conditions
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import Frame, State
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    Const,
    Many,
    Part,
    Row,
    Table,
    Unknown,
    Values,
    elements,
    join,
    many,
    row,
    table,
)


class Collections(Conditions):
    """Works collections out; other expressions come from the class built on this one."""

    def _value_tuple(self, node: ast.Tuple, state: State, frame: Frame) -> Values:
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return self._value_list(node, state, frame)
        return row(self.value(item, state, frame) for item in node.elts)

    def _value_list(
        self, node: ast.List | ast.Tuple | ast.Set, state: State, frame: Frame
    ) -> Values:
        return many(join(*(self.value(i, state, frame) for i in node.elts)))

    _value_set = _value_list

    def _value_starred(self, node: ast.Starred, state: State, frame: Frame) -> Values:
        return elements(self.value(node.value, state, frame))

    def _value_dict(self, node: ast.Dict, state: State, frame: Frame) -> Values:
        items: list[tuple[object, Values]] = []
        for key, item in zip(node.keys, node.values, strict=True):
            values = self.value(item, state, frame)
            if key is None:
                items.extend(i for v in values if isinstance(v, Table) for i in v.items)
                continue
            names = self.value(key, state, frame)
            constant = next(iter(names)) if len(names) == 1 else None
            name = constant.value if isinstance(constant, Const) else ast.unparse(key)
            items.append((name, values))
        return table(items)

    def _value_subscript(self, node: ast.Subscript, state: State, frame: Frame) -> Values:
        base = self.value(node.value, state, frame)
        keys = self.value(node.slice, state, frame)
        key = next(iter(keys)) if len(keys) == 1 else None
        found: list[Values] = []
        for value in base:
            if isinstance(value, Table):
                exact = value.get(key.value) if isinstance(key, Const) else None
                found.append(exact or join(*(part for _, part in value.items)))
            elif isinstance(value, Row):
                index = key.value if isinstance(key, Const) else None
                if isinstance(index, int) and -len(value.items) <= index < len(value.items):
                    found.append(value.items[index])
                else:
                    found.append(elements(frozenset({value})))
            elif isinstance(value, Many):
                found.append(value.items)
            elif isinstance(value, Part):
                found.append(frozenset({Part(value.name, inner=True)}))
            else:
                found.append(frozenset({value}) if isinstance(value, Unknown) else ANY)
        return join(*found)

    def _value_listcomp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, state: State, frame: Frame
    ) -> Values:
        here = self._generators(node.generators, state, frame)
        return many(self.value(node.elt, here, frame))

    _value_setcomp = _value_generatorexp = _value_listcomp

    def _value_dictcomp(self, node: ast.DictComp, state: State, frame: Frame) -> Values:
        here = self._generators(node.generators, state, frame)
        self.value(node.key, here, frame)
        return many(self.value(node.value, here, frame))

    def _generators(self, generators: list[ast.comprehension], state: State, frame: Frame) -> State:
        here = state.fork()
        for generator in generators:
            items = elements(self.value(generator.iter, here, frame))
            self.bind(generator.target, items, here, frame)
            for condition in generator.ifs:
                for way in self.ways(condition, here, frame):
                    if way.outcome and not way.facts:
                        break
                else:
                    self.value(condition, here, frame)
        return here

    @abstractmethod
    def bind(self, target: ast.expr, values: Values, state: State, frame: Frame) -> None:
        """Assign values to a target."""
