# SPDX-License-Identifier: Apache-2.0
"""What an expression of the release may stand for, as far as the audit follows it.

Values are sets of alternatives. ``spec`` on a constant or an unknown says that the alternative
exists only because speculative decoding is on; that tells what speculation asks of a model from
what the engine asks of every model.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything."""

    spec: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: None, a truth value, a number or a text."""

    value: object
    spec: bool = False


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A member of the release's table of speculative algorithms; ``chosen`` is the audited one."""

    name: str
    chosen: bool = False


@dataclass(eq=False, slots=True)
class Obj:
    """Objects of a class that are made at one place; there is one of these for each such place.

    Attributes:
        ref: the class.
        site: the call that makes it, ``file:line:column``.
        maker: the object whose method makes it, None for none.
        spec: it is made only because speculative decoding is on.
    """

    ref: ClassRef
    site: str
    maker: Obj | None
    spec: bool

    @property
    def depth(self) -> int:
        """How many makers stand behind it."""
        return 0 if self.maker is None else self.maker.depth + 1


@dataclass(frozen=True, slots=True)
class Model:
    """The model object that a model runner loads."""

    role: Literal["target", "draft"]


@dataclass(frozen=True, slots=True)
class Part:
    """What the target model has under a name; ``optional``: or None, where it has no such name.

    ``inner`` is something reached through it, so it exists only where the name does.
    """

    name: str
    optional: bool = False
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Cls:
    """A class of the release, itself."""

    ref: ClassRef


@dataclass(frozen=True, slots=True)
class Func:
    """A function, with the object it is bound to and the names around it.

    Attributes:
        module: dotted name of its module.
        node: its definition.
        bound: value of its first parameter, None where it is not bound.
        owner: class that defines it, for ``super()``.
        closure: number of the surrounding names, -1 for none.
        spec: it is there only because speculative decoding is on.
    """

    module: str
    node: FunctionNode
    bound: Value | None = None
    owner: ClassRef | None = None
    closure: int = -1
    spec: bool = False


@dataclass(frozen=True, slots=True)
class Parent:
    """``super()`` in a method of ``owner``."""

    bound: Value
    owner: ClassRef


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the release."""

    name: str


@dataclass(frozen=True, slots=True)
class Named:
    """A name of a module that the walk has not had to look into."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Table:
    """A dict with constant keys."""

    items: tuple[tuple[object, Values], ...]

    def get(self, key: object) -> Values | None:
        """What stands under a key; None where nothing does."""
        return next((values for name, values in self.items if name == key), None)


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple of known length."""

    items: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A collection of unknown length."""

    items: Values


Value = (
    Unknown | Const | Algorithm | Obj | Model | Part | Cls | Func | Parent | Module
    | Named | Table | Row | Many
)  # fmt: skip
Values = frozenset[Value]


class Args(NamedTuple):
    """Arguments of a call.

    Attributes:
        given: by place.
        keywords: by name.
        more: there may be others that are not known.
    """

    given: tuple[Values, ...] = ()
    keywords: tuple[tuple[str, Values], ...] = ()
    more: bool = False

    @property
    def pending(self) -> bool:
        """One of them is not known to be anything yet: the call cannot have come about."""
        return not all(self.given) or not all(values for _, values in self.keywords)

    def every(self) -> list[Value]:
        """All values that they may be, "anything" aside."""
        found = [value for part in self.given if part is not ANY for value in part]
        if self.keywords:
            found += [value for _, part in self.keywords if part is not ANY for value in part]
        return found


ANY: Values = frozenset({Unknown()})
NOTHING: Values = frozenset()
NONE: Values = frozenset({Const(None)})
ANYTHING = Args(more=True)
_LIMIT = 48
_DEEPEST = 3


def join(*parts: Iterable[Value]) -> Values:
    """All alternatives; too many become "anything", but what the audit is after stays."""
    if len(parts) == 1 and isinstance(parts[0], frozenset):
        result: Values = parts[0]
    else:
        result = NOTHING.union(*parts)
        if result == ANY:
            return ANY
    if len(result) > _LIMIT:
        kept = {value for value in result if isinstance(value, (Model, Obj, Part))}
        return frozenset({*list(kept)[:_LIMIT], Unknown()})
    return result


def depth_of(value: Value) -> int:
    """How deep a collection is nested; 0 for what is none."""
    if isinstance(value, Table):
        parts: Iterable[Values] = (part for _, part in value.items)
    elif isinstance(value, Row):
        parts = value.items
    elif isinstance(value, Many):
        parts = (value.items,)
    else:
        return 0
    return 1 + max((depth_of(inner) for part in parts for inner in part), default=0)


def many(values: Values) -> Values:
    """A collection of the values; what is nested too deeply becomes "anything"."""
    return frozenset({Many(_shallow(values))})


def row(items: Iterable[Values]) -> Values:
    """A tuple of the values."""
    return frozenset({Row(tuple(_shallow(item) for item in items))})


def table(items: Iterable[tuple[object, Values]]) -> Values:
    """A dict of the values; a key that comes again replaces the one before."""
    kept = {key: _shallow(item) for key, item in items}
    return frozenset({Table(tuple(kept.items()))})


def _shallow(values: Values) -> Values:
    return frozenset(v if depth_of(v) < _DEEPEST else Unknown() for v in values)


def marked(values: Values, spec: bool) -> Values:
    """Values as they are when they come into being under speculation."""
    if not spec:
        return values
    return frozenset(
        replace(value, spec=True) if isinstance(value, (Const, Unknown)) else value
        for value in values
    )


def elements(values: Values) -> Values:
    """What iterating over the values gives."""
    found: list[Value] = []
    for value in values:
        if isinstance(value, Row):
            found += [item for part in value.items for item in part]
        elif isinstance(value, Many):
            found += value.items
        elif isinstance(value, Table):
            found += [Const(key) for key, _ in value.items]
        else:
            found.append(Unknown())
    return join(found)


def reaches_model(values: Iterable[Value]) -> bool:
    """A model itself, or what it may or may not have under a name, is among the values."""
    for value in values:
        if isinstance(value, Model) or (isinstance(value, Part) and value.optional):
            return True
    return False


def elements_of(value: Table | Row | Many) -> Values:
    """What a collection holds."""
    if isinstance(value, Table):
        return join(*(part for _, part in value.items))
    return value.items if isinstance(value, Many) else join(*value.items)
