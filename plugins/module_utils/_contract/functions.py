# SPDX-License-Identifier: Apache-2.0
"""Functions: which are worth walking through, and one walk for each way into them."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.sm120.sglang.plugins.module_utils._contract.expressions import (
    PLATFORM,
    Expressions,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import (
    Frame,
    Job,
    State,
    Step,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.relevance import Relevance
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    ANYTHING,
    NOTHING,
    Algorithm,
    Args,
    Cls,
    Const,
    Func,
    FunctionNode,
    Many,
    Model,
    Obj,
    Parent,
    Part,
    Row,
    Table,
    Unknown,
    Value,
    Values,
    elements_of,
    join,
    reaches_model,
    row,
    table,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError

# Calls inside calls: beyond this depth they are put off, which keeps Python's own stack short.
_DEEPEST = 8
_ANYTHING = Unknown()


class Functions(Expressions):
    """Walks through functions; statements come from the class built on this one."""

    depth: int
    holding: set[Obj]
    relevance: Relevance
    root: Obj | None
    root_methods: Sequence[str]
    _results: dict[object, Values]
    _jobs: dict[object, Job]
    _swept: set[tuple[ast.AST, Value | None]]
    _signatures: dict[ast.arguments, Signature]

    @abstractmethod
    def statement(self, node: ast.stmt, state: State, frame: Frame) -> None:
        """Walk through a statement."""

    def holds(self, value: Value, depth: int = 0) -> bool:
        """Whether the target model may be reached through a value."""
        if isinstance(value, Obj):
            return self._leads(value)
        if isinstance(value, Parent):
            return self.holds(value.bound)
        if isinstance(value, Func):
            return value.closure >= 0 or (value.bound is not None and self.holds(value.bound))
        if isinstance(value, (Table, Row, Many)):
            return depth < 3 and any(self.holds(v, depth + 1) for v in elements_of(value))
        return isinstance(value, Part) or (isinstance(value, Model) and value.role == "target")

    def _leads(self, obj: Obj) -> bool:
        if obj in self.holding:
            return True
        if not obj.spec and self.loads_model(obj.ref):
            self.hold(obj)
            return True
        self.reads(("holds", obj))
        return False

    def hold(self, obj: Obj) -> None:
        """The target model may be reached through an object."""
        if obj not in self.holding:
            self.holding.add(obj)
            self.changed(("holds", obj))

    def follows(self, module: str, values: Sequence[Value]) -> bool:
        """Whether a function or class is worth following with these values in its hands."""
        if not values:
            return False
        if reaches_model(values):
            return True
        if self.program.in_scope(module) or module in self.entries:
            return any(self.holds(v) or isinstance(v, Algorithm) for v in values)
        return self.program.asks_runner(module) and any(self.holds(v) for v in values)

    def escape(self, values: Sequence[Value], state: State, frame: Frame) -> None:
        """Functions that are handed to code which is not followed may be called by it."""
        for value in values:
            if isinstance(value, Func) and (value.closure >= 0 or value.bound is not None):
                self.invoke(value, ANYTHING, state, frame)

    def invoke(self, function: Func, args: Args, state: State, frame: Frame) -> Values:
        """What calling a function may give; its body is walked through once for each way in."""
        if args.pending:
            return NOTHING
        known = self._known(function, args)
        if known is not None:
            return known
        every = args.every()
        every += [function.bound] if function.bound is not None else []
        followed = function.closure >= 0 or self.follows(function.module, every)
        if not followed or not self._matters(function, every):
            self.escape(every, state, frame)
            return ANY
        return self._job(function, args, state)

    def _known(self, function: Func, args: Args) -> Values | None:
        """What a function gives without a look at it; None where a look is needed."""
        name = getattr(function.node, "name", "")
        if name in PLATFORM:
            return frozenset({Const(PLATFORM[name])})
        if isinstance(function.bound, Cls) and function.bound.ref.node is self.table.ref.node:
            return frozenset({Algorithm(self.algorithm, chosen=True)})
        if isinstance(function.bound, Algorithm) and self.table.registered:
            flags = [v.value for v in args.every() if isinstance(v, Const)]
            has = self.table.flag(function.bound.name, str(flags[0])) if len(flags) == 1 else None
            if has is not None:
                return frozenset({Const(has, spec=has)})
        if function.bound == self.root and name not in self.root_methods:
            return ANY
        return None

    def _job(self, function: Func, args: Args, state: State) -> Values:
        """The walk through a function for one way in."""
        if args is ANYTHING:
            self._swept.add((function.node, function.bound))
        names = self._parameters(function, args)
        here = state.spec, state.rescued, state.facts
        key = (id(function.node), function.bound, function.closure, tuple(names.values()), here)
        known = self._jobs.get(key)
        if known is not None:
            self.reads(key)
            self.current.calls[known] = None
            return self._results[key]
        self._results[key] = NOTHING
        inner = State(names, state.facts, state.fresh, state.spec, state.rescued)
        job = Job()
        job.run = lambda: self._walk(key, job, function, inner)
        self._jobs[key] = job
        self.current.calls[job] = None
        if self.depth >= _DEEPEST:
            self.enqueue(job)
        else:
            job.run()
        # Only now: who asks has not used the result before, and need not run again for it.
        self.reads(key)
        return self._results[key]

    def _walk(self, key: object, job: Job, function: Func, start: State) -> None:
        """Walk through a function's body and keep what it gives."""
        outer = self.current
        bound = function.bound
        if function.closure >= 0:
            self.current = Step(job, start, start)
            self.reads(("closure", function.closure))
            surrounding = self.closures[function.closure]
            start = start.fork()
            start.names = {**surrounding, **start.names}
            bound = bound if bound is not None else _around(surrounding)
        source = self.program.source(function.module)
        path = source.path if source else ""
        frame = Frame(
            function.module, path, _title(function), bound, function.owner, outside=job.outside
        )
        self.depth += 1
        end = self._steps(job, function.node, start, frame)
        self.depth -= 1
        self.current = outer
        old = self._results[key]
        returns = [step.returns for step in job.steps]
        if not isinstance(function.node, ast.Lambda) and not (end.ended and any(returns)):
            returns.append({Const(None)})
        self._results[key] = join(old, *returns)
        if self._results[key] != old:
            self.changed(key)

    def _steps(self, job: Job, node: FunctionNode, start: State, frame: Frame) -> State:
        """Walk through the statements of a body that may come to something else than before."""
        known, job.steps = job.steps, []
        state = start
        for index, part in enumerate(self._parts_of(job, node, start, frame)):
            if state.ended:
                break
            step = known[index] if index < len(known) else None
            if step is None or step.stale or step.before != state:
                step = Step(job, state, state.fork())
                self.current, frame.returns = step, step.returns
                if isinstance(part, ast.expr):
                    step.returns |= self.value(part, step.after, frame)
                else:
                    self.statement(part, step.after, frame)
            job.steps.append(step)
            state = step.after
        return state

    def _parts_of(
        self, job: Job, node: FunctionNode, start: State, frame: Frame
    ) -> Sequence[ast.stmt | ast.expr]:
        """What a body consists of; nothing, and a doubt, where it is not Python here."""
        if isinstance(node, ast.Lambda):
            return [node.body]
        try:
            return list(node.body)
        except SourceError as error:
            step = self.current = Step(job, start, start, returns=set(ANY))
            self.doubt(frame, node, error.cause)
            job.steps.append(step)
            return []

    def _matters(self, function: Func, values: Sequence[Value]) -> bool:
        """Whether the text of a function says that the model may come up in it."""
        if isinstance(function.node, ast.Lambda) or function.closure >= 0:
            return True
        if isinstance(function.bound, Algorithm) or reaches_model(values):
            return True
        source = self.program.source(function.module)
        if source is None or self.relevance.matters(source.path, function.node.name):
            return True
        self.reads("text")
        return False

    def _worth_telling(self, names: dict[str, Values]) -> dict[str, Values]:
        """Arguments with what ways into a function differ by; the rest is "anything"."""
        every = [value for values in names.values() if values is not ANY for value in values]
        if not every:
            return names
        asked = reaches_model(every)
        decides = any(isinstance(value, Algorithm) for value in every)

        def plain(value: Value) -> Value:
            if isinstance(value, Const):
                kept = isinstance(value.value, (bool, type(None))) or asked
                return value if kept else _ANYTHING
            if isinstance(value, Obj):
                return value if decides or self.holds(value) else _ANYTHING
            if isinstance(value, (Table, Row, Many, Func)):
                return value if self.holds(value) else _ANYTHING
            return value

        return {
            name: values if values is ANY else join(frozenset(map(plain, values)))
            for name, values in names.items()
        }

    def _parameters(self, function: Func, args: Args) -> dict[str, Values]:
        """The names that a function starts with, in the order of its signature."""
        spec = function.node.args
        signature = self._signatures.get(spec)
        if signature is None:
            signature = self._signatures[spec] = _signature(spec)
        positional = signature.positional
        names: dict[str, Values] = {}
        if function.bound is not None and positional:
            names[positional[0]] = frozenset({function.bound})
            positional = positional[1:]
        given = dict(zip(positional, args.given, strict=False))
        if spec.vararg:
            given[spec.vararg.arg] = row(args.given[len(positional) :])
        every = [*positional, *signature.keywords]
        given |= {name: values for name, values in args.keywords if name in every}
        given = self._worth_telling(given)
        for name in every:
            values = given.get(name)
            if values is None:
                default = signature.defaults.get(name)
                values = ANY if default is None or args.more else NOTHING
                if default is not None:
                    plain = self.value(default, State({}), Frame(function.module, "", ""))
                    values = join(values, plain)
            names[name] = _absorbed(values)
        if spec.vararg:
            names[spec.vararg.arg] = _absorbed(given[spec.vararg.arg])
        if spec.kwarg:
            rest = [item for item in args.keywords if item[0] not in every]
            names[spec.kwarg.arg] = table(rest)
        return names


def _absorbed(values: Values) -> Values:
    """The same without constants that are among "anything"."""
    if len(values) == 1 or _ANYTHING not in values:
        return values
    return frozenset(v for v in values if not isinstance(v, Const) or v.spec)


class Signature(NamedTuple):
    """Parameters of a function, and what they are where they are not given."""

    positional: list[str]
    keywords: list[str]
    defaults: dict[str, ast.expr]


def _signature(spec: ast.arguments) -> Signature:
    positional = [*spec.posonlyargs, *spec.args]
    defaults = {
        argument.arg: default
        for argument, default in zip(
            positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True
        )
    }
    for argument, given in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if given is not None:
            defaults[argument.arg] = given
    return Signature([a.arg for a in positional], [a.arg for a in spec.kwonlyargs], defaults)


def _title(function: Func) -> str:
    name = "lambda" if isinstance(function.node, ast.Lambda) else function.node.name
    return f"{function.owner.node.name}.{name}" if function.owner else name


def _around(names: dict[str, Values]) -> Value | None:
    """The object of the method around a nested function."""
    found = names.get("self", NOTHING)
    return next(iter(found)) if len(found) == 1 else None
