# SPDX-License-Identifier: Apache-2.0
"""What one walk through a release remembers: the state on the way, fields of objects, touches."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.sm120.sglang.plugins.module_utils._contract.algorithm import (
    AlgorithmTable,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import Program
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import (
    Fact,
    How,
    Touch,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import (
    ANY,
    NOTHING,
    Obj,
    Value,
    Values,
    join,
    marked,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

# More conditions than these tell a person nothing.
_SHOWN_CONDITIONS = 3


@dataclass(slots=True)
class Frame:
    """The function that is being walked through.

    Attributes:
        module: dotted name of its module.
        path: its file.
        name: its name, ``Class.method``.
        bound: the object whose method it is.
        owner: the class that defines it.
        returns: what it hands back so far.
        outside: names that it imports from other packages.
    """

    module: str
    path: str
    name: str
    bound: Value | None = None
    owner: ClassRef | None = None
    returns: set[Value] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)


@dataclass(slots=True)
class State:
    """What holds at one point of a function.

    Attributes:
        names: local names.
        facts: what is known of the target model here.
        fresh: those of them that the last undecided condition on the way is about.
        spec: the point is reached only because speculative decoding is on.
        rescued: an AttributeError here is caught further out.
        when: undecided conditions on the way.
        ended: nothing comes behind this point.
    """

    names: dict[str, Values]
    facts: frozenset[Fact] = frozenset()
    fresh: frozenset[Fact] = frozenset()
    spec: bool = False
    rescued: bool = False
    when: tuple[str, ...] = ()
    ended: bool = False

    def fork(self) -> State:
        """A copy that goes its own way."""
        return State(
            dict(self.names), self.facts, self.fresh, self.spec, self.rescued, self.when, self.ended
        )

    def under(self, condition: str) -> None:
        """Note an undecided condition that is not about the target model."""
        self.fresh = frozenset()
        if condition not in self.when:
            self.when = (*self.when, condition)[-_SHOWN_CONDITIONS:]

    def learn(self, facts: frozenset[Fact], spec: bool) -> None:
        """Go on where a condition holds."""
        if facts:
            self.facts |= facts
            self.fresh |= facts
        self.spec = self.spec or spec

    def merge(self, other: State) -> None:
        """Go on after two ways have met."""
        if other.ended:
            return
        if self.ended:
            self.names, self.facts, self.fresh = other.names, other.facts, other.fresh
            self.spec, self.when, self.ended = other.spec, other.when, False
            return
        names = self.names
        for name, values in other.names.items():
            mine = names.get(name)
            if mine is not values:
                names[name] = values if mine is None or mine == values else join(mine, values)
        self.facts &= other.facts
        self.fresh = frozenset()
        self.spec = self.spec and other.spec
        self.when = tuple(item for item in self.when if item in other.when)


@dataclass(eq=False, slots=True)
class Job:
    """One way into a function; it is walked through again when what it has read changes.

    Attributes:
        run: walks through it.
        steps: the statements of its body, as far as it comes.
        outside: names that it imports from other packages.
    """

    run: Callable[[], None] = lambda: None
    steps: list[Step] = field(default_factory=list)
    outside: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Step:
    """One statement of a way into a function, and what walking through it came to.

    It need not be walked through again where the same holds before it and nothing that it has read
    has changed.

    Attributes:
        job: the way into the function.
        before: what holds before it; not to be changed.
        after: what holds behind it; not to be changed.
        touches: places in it that touch the target model.
        doubts: what could not be followed.
        calls: ways into other functions that it takes.
        returns: what it hands back.
        stale: something that it has read has changed since.
    """

    job: Job
    before: State
    after: State
    touches: set[Touch] = field(default_factory=set)
    doubts: dict[str, None] = field(default_factory=dict)
    calls: dict[Job, None] = field(default_factory=dict)
    returns: set[Value] = field(default_factory=set)
    stale: bool = False


class Recorder:
    """Fields, touches and doubts of a walk, and what depends on what.

    Args:
        program: the release.
        table: its algorithms.
        algorithm: the audited one.
    """

    def __init__(self, program: Program, table: AlgorithmTable, algorithm: str) -> None:
        self.program = program
        self.table = table
        self.algorithm = algorithm
        self.fields: dict[tuple[Obj, str], Values] = {}
        self.objects: dict[tuple[ast.ClassDef, str, Obj | None, bool], Obj] = {}
        nothing = State({})
        self.start = self.current = Step(Job(), nothing, nothing)
        self.grown = False
        self._awaited: dict[tuple[Obj, str], None] = {}
        self._readers: defaultdict[object, dict[Step, None]] = defaultdict(dict)
        self._dirty: dict[Job, None] = {}

    def reads(self, thing: object) -> None:
        """The current step depends on something."""
        self._readers[thing][self.current] = None

    def changed(self, thing: object) -> None:
        """Something has changed: the steps that depend on it must be walked through again."""
        self.grown = True
        for step in self._readers.pop(thing, ()):
            if not step.stale:
                step.stale = True
                self._dirty[step.job] = None

    def enqueue(self, job: Job) -> None:
        """Run a job later."""
        self._dirty[job] = None

    def work(self) -> None:
        """Run jobs until nothing changes any more."""
        while self._dirty:
            job = next(iter(self._dirty))
            del self._dirty[job]
            job.run()

    def reached(self) -> list[Job]:
        """The jobs that the way through the release ends up with; early ones may be left over."""
        found: dict[Job, None] = {}
        todo = list(self.start.calls)
        while todo:
            job = todo.pop()
            if job not in found:
                found[job] = None
                for step in job.steps:
                    todo += step.calls
        return list(found)

    def put(self, obj: Obj, name: str, values: Values, spec: bool) -> None:
        """Remember that an object's field may hold values."""
        old = self.fields.get((obj, name), NOTHING)
        new = marked(values, spec and not obj.spec)
        if not new <= old:
            self.fields[obj, name] = join(old, new)
            self.changed((obj, name))

    def take(self, obj: Obj, name: str) -> Values:
        """What a field may hold; nothing yet where its assignment has not been walked through."""
        key = (obj, name)
        self.reads(key)
        found = self.fields.get(key)
        if found is None:
            self._awaited[key] = None
            found = NOTHING
        return join(found, ANY) if self.is_open(obj, name) else found

    @abstractmethod
    def is_open(self, obj: Obj, name: str) -> bool:
        """Whether what is not walked through stores to a field: it may hold anything."""

    def settle(self) -> bool:
        """Give a field that nothing was seen to fill the value "anything"; False for none.

        The one that was asked for first comes first: what fills the others may wait behind it.
        """
        while self._awaited:
            key = next(iter(self._awaited))
            del self._awaited[key]
            if key in self.fields:
                continue
            self.fields[key] = ANY
            if not self.is_open(*key):
                self.changed(key)
                return True
        return False

    def touch(
        self,
        frame: Frame,
        state: State,
        node: ast.AST,
        member: str,
        how: How,
        *,
        required: bool,
        facts: frozenset[Fact] | None = None,
    ) -> None:
        """Remember a place that touches the target model."""
        self.current.touches.add(
            Touch(
                at=f"{frame.path}:{getattr(node, 'lineno', 1)}",
                function=frame.name,
                member=member,
                how=how,
                required=required and not state.rescued,
                facts=state.facts if facts is None else facts,
                spec=state.spec,
                when=state.when,
            )
        )

    def doubt(self, frame: Frame, node: ast.AST, text: str) -> None:
        """Remember something that could not be followed."""
        self.current.doubts[f"{frame.path}:{getattr(node, 'lineno', 1)} {text}"] = None
