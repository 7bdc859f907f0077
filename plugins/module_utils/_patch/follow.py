# SPDX-License-Identifier: Apache-2.0
"""What a name is bound to behind a block of statements, on every way through it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

How = TypeVar("How")


@dataclass(frozen=True)
class Bound(Generic[How]):
    """Bound on every way: by this statement, in this manner."""

    statement: ast.stmt
    how: How


@dataclass(frozen=True)
class Perhaps:
    """Bound on some ways only, or in several manners: by this statement for one."""

    statement: ast.stmt


@dataclass(frozen=True)
class Ended(Generic[How]):
    """No way leads behind the block; what held where it ended."""

    last: Bound[How] | Perhaps | None


# None: not bound.
State = Bound[How] | Perhaps | None
Way = State[How] | Ended[How]
Bind = Callable[[ast.stmt], How | None]

_LEAVES = (ast.Raise, ast.Return, ast.Break, ast.Continue)


def follow(body: Sequence[ast.stmt], state: State[How], bind: Bind[How]) -> State[How]:
    """Follow a block.

    Args:
        body: the statements.
        state: what holds before them.
        bind: how a single statement binds the name, blocks inside it aside; None where it does
            not.

    Returns:
        What holds behind them.
    """
    return _state(_follow(body, state, bind))


def truth(test: ast.expr) -> bool | None:
    """The value of a condition while the release runs, where the source alone tells."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        value = truth(test.operand)
        return None if value is None else not value
    name = getattr(test, "id", getattr(test, "attr", ""))
    return False if name == "TYPE_CHECKING" else None


def _state(way: Way[How]) -> State[How]:
    return way.last if isinstance(way, Ended) else way


def _follow(body: Sequence[ast.stmt], way: Way[How], bind: Bind[How]) -> Way[How]:
    for statement in body:
        if isinstance(way, Ended):
            break
        how = bind(statement)
        if how is not None:
            way = Bound(statement, how)
        way = Ended(way) if isinstance(statement, _LEAVES) else _through(statement, way, bind)
    return way


def _through(statement: ast.stmt, state: State[How], bind: Bind[How]) -> Way[How]:
    """Follow the blocks inside a statement."""
    if isinstance(statement, ast.If):
        return _if(statement, state, bind)
    if isinstance(statement, (ast.While, ast.For, ast.AsyncFor)):
        return _loop(statement, state, bind)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return _follow(statement.body, state, bind)
    if isinstance(statement, ast.Match):
        way: Way[How] = state
        for case in statement.cases:
            way = _join(way, _follow(case.body, state, bind))
        return way
    if isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
        return _try(statement, state, bind)
    return state


def _if(statement: ast.If, state: State[How], bind: Bind[How]) -> Way[How]:
    value = truth(statement.test)
    if value is not None:
        return _follow(statement.body if value else statement.orelse, state, bind)
    then, otherwise = (_follow(b, state, bind) for b in (statement.body, statement.orelse))
    return _join(then, otherwise)


def _loop(
    statement: ast.While | ast.For | ast.AsyncFor, state: State[How], bind: Bind[How]
) -> Way[How]:
    runs: bool | None = None
    if isinstance(statement, ast.While):
        runs = truth(statement.test)
    elif isinstance(statement.iter, (ast.Tuple, ast.List, ast.Set)):
        runs = bool(statement.iter.elts)
    inner = state if runs is False else _state(_follow(statement.body, state, bind))
    return _follow(statement.orelse, inner if runs else _join(state, inner), bind)


def _try(statement: ast.stmt, state: State[How], bind: Bind[How]) -> Way[How]:
    body: list[ast.stmt] = getattr(statement, "body", [])
    done = _follow(body, state, bind)
    way = _follow(getattr(statement, "orelse", []), done, bind)
    if not all(map(_harmless, body)):
        between = _state(_join(state, _state(done)))
        for handler in getattr(statement, "handlers", []):
            way = _join(way, _follow(handler.body, between, bind))
    final: list[ast.stmt] = getattr(statement, "finalbody", [])
    behind = _follow(final, _state(way), bind)
    return Ended(_state(behind)) if isinstance(way, Ended) else behind


def _harmless(statement: ast.stmt) -> bool:
    """Whether a statement raises nothing."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = statement.args
        return not (statement.decorator_list or arguments.defaults or arguments.kw_defaults)
    value = getattr(statement, "value", None)
    plain = isinstance(value, (ast.Constant, ast.Lambda))
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign)) and plain
    )


def _join(one: Way[How], other: Way[How]) -> Way[How]:
    """What holds where two ways meet."""
    if isinstance(one, Ended) or isinstance(other, Ended):
        if isinstance(one, Ended) and isinstance(other, Ended):
            return Ended(_state(_join(one.last, other.last)))
        return other if isinstance(one, Ended) else one
    if one == other:
        return one
    for state in (one, other):
        if isinstance(state, Perhaps):
            return state
    if isinstance(one, Bound) and isinstance(other, Bound):
        return one if one.how == other.how else Perhaps(one.statement)
    there = one or other
    return Perhaps(there.statement) if there else None
