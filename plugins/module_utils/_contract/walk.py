# SPDX-License-Identifier: Apache-2.0
"""One walk through a release, from the place where the engine makes its workers."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ansible_collections.sm120.sglang.plugins.module_utils._contract.algorithm import (
    AlgorithmTable,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    SCOPE,
    Program,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import (
    Frame,
    Job,
    State,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.relevance import Relevance
from ansible_collections.sm120.sglang.plugins.module_utils._contract.statements import Statements
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    ANYTHING,
    Func,
    Model,
    Obj,
    Value,
    Values,
)

_CATCHERS = {"AttributeError", "Exception", "BaseException"}


class Walk(Statements):
    """One walk through a release for one algorithm."""

    def __init__(self, program: Program, table: AlgorithmTable, algorithm: str) -> None:
        super().__init__(program, table, algorithm)
        self.closures: list[dict[str, Values]] = []
        self.depth = 0
        self.holding: set[Obj] = set()
        self.home = ""
        self.root: Obj | None = None
        self.root_methods: Sequence[str] = ()
        self.entries: set[str] = set()
        self._results: dict[object, Values] = {}
        self._jobs: dict[object, Job] = {}
        self._closure_numbers = {}
        self._kinds = {
            kind: getattr(self, f"_value_{kind.__name__.lower()}", self._parts)
            for kind in ast.expr.__subclasses__()
        }
        self._kinds[ast.Call] = self.call
        self._runs = {
            kind: getattr(self, f"_run_{kind.__name__.lower()}", self._nothing)
            for kind in ast.stmt.__subclasses__()
        }
        self._constants = {}
        self._inner = {}
        self._names = {}
        self._swept = set()
        self._methods = {}
        self._marks = {}
        self._signatures = {}
        self._texts: dict[ast.expr, str] = {}
        self._open: dict[tuple[ast.ClassDef, str], bool] = {}
        predicates = [name for name in program.members(table.ref) if not name.startswith("_")]
        self.relevance = Relevance(program.modules.data, predicates)

        self.relevance.add(path for prefix in SCOPE for path in program.reads.names(prefix))

    def solve(self, root: Obj, methods: Sequence[str]) -> None:
        """Walk until nothing new comes up.

        Args:
            root: the object that makes the workers.
            methods: its methods that do so.
        """
        self.root, self.root_methods = root, methods
        self.hold(root)
        while True:
            self.grown = False
            for method in methods:
                self.run_method(root, method)
            self.work()
            for obj in [obj for obj in self.objects.values() if self.holds(obj)]:
                for method in self.program.methods(obj.ref):
                    if not method.startswith("_"):
                        self.run_method(obj, method)
            self.work()
            if self.grown:
                continue
            known = len(self.objects), len(self.holding)
            while known == (len(self.objects), len(self.holding)):
                if not self.settle():
                    return
                self.work()

    def close(self) -> None:
        """Give up what leads back to the walk, so that its trees go as soon as it does."""
        for job in self._jobs.values():
            job.run = _done
        self._kinds.clear()
        self._runs.clear()

    def put(self, obj: Obj, name: str, values: Values, spec: bool) -> None:
        """Remember that an object's field may hold values, and that it leads to the model."""
        super().put(obj, name, values, spec)
        if values is ANY:
            return
        if obj not in self.holding and any(self.holds(value) for value in values):
            self.hold(obj)
        if any(_is_model(value) for value in values) and self.relevance.alias(name):
            self._open.clear()
            self.changed("text")

    def is_open(self, obj: Obj, name: str) -> bool:
        """Whether what is not walked through stores to a field: it may hold anything."""
        key = (obj.ref.node, name)
        found = self._open.get(key)
        if found is None:
            paths = [item.source.path for item in self.program.line(obj.ref)]
            found = self._open[key] = self.relevance.stored_elsewhere(paths, name)
        return found

    def run_method(self, obj: Obj, name: str) -> None:
        """Walk through a method of an object as the engine may call it, with any arguments."""
        member = self.program.find(obj.ref, name)
        if member is None or not isinstance(member.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        for value in self.bound(member.owner, member.node, obj):
            if not isinstance(value, Func) or value.bound is None:
                continue
            if (value.node, value.bound) not in self._swept:
                state = State({}, spec=obj.spec)
                self.invoke(value, ANYTHING, state, Frame(member.owner.module, "", ""))


def _done() -> None:
    """What a job does once the walk is closed."""


def _is_model(value: Value) -> bool:
    """The target model, or something that gives it when it is called."""
    if isinstance(value, Func) and value.closure >= 0:
        inside = ast.walk(value.node)
        return any(isinstance(node, ast.Attribute) and node.attr == "model" for node in inside)
    return isinstance(value, Model) and value.role == "target"
