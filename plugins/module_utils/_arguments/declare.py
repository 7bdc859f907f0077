# SPDX-License-Identifier: Apache-2.0
"""One declaration of an argument: what argparse would make of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import (
    UNREADABLE,
    Argument,
    Arity,
    Choice,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.scope import (
    Member,
    Opaque,
    Scope,
    Unresolved,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.values import Values
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    External,
)

Options = Mapping[str, ast.expr]

_FLAG_ACTIONS = ("store_true", "store_false", "store_const", "append_const", "count")
_ENDING_ACTIONS = ("help", "version")
_KINDS = {"str": "str", "int": "int", "float": "float", "json.loads": "json"}
_MAX_HOPS = 20
_NEGATABLE = "argparse.BooleanOptionalAction"
# A help that begins with the word speaks of its own argument; one that has it later on may speak
# of another ("replaces the deprecated --x").
_DEPRECATED = re.compile(r"[\s\[(]*deprecated\b|note: --\S+ is deprecated", re.IGNORECASE)
_SUCCESSOR = re.compile(r"\buse:?\s+(?:the\s+)?(--?[a-z][\w-]*(?:=[\w{},.-]+)?)", re.IGNORECASE)


@dataclass(frozen=True)
class Behaviour:
    """What an action does with an argument.

    Attributes:
        nargs: Values that it takes unless the declaration says otherwise.
        deprecated: Its code speaks of deprecation.
        refuses: It can end the parser with an error.
        negatable: Each `--x` has a `--no-x`.
        ends: The program ends.
    """

    nargs: Arity = None
    deprecated: bool = False
    refuses: bool = False
    negatable: bool = False
    ends: bool = False


def behaviour(values: Values, scope: Scope, action: ast.expr | None, hops: int = 0) -> Behaviour:
    """Read an action.

    Args:
        values: Values of the release.
        scope: Where the action is named.
        action: The expression: a word of argparse or a class; None for the plain one.
        hops: Classes followed so far.

    Returns:
        Its behaviour.

    Raises:
        Unresolved: The source does not tell.
    """
    if action is None:
        return Behaviour()
    if isinstance(action, ast.Constant):
        word = str(action.value)
        flag = word in _FLAG_ACTIONS or word in _ENDING_ACTIONS
        return Behaviour(nargs=0 if flag else None, ends=word in _ENDING_ACTIONS)
    meaning = values.modules.resolve(scope.module, action)
    if isinstance(meaning, External):
        if meaning.name == _NEGATABLE:
            return Behaviour(nargs=0, negatable=True)
        if meaning.name in ("argparse.Action", "argparse._StoreAction"):
            return Behaviour()
        raise Unresolved(f"{scope.at(action)}: action {meaning.name} is not known here")
    if not isinstance(meaning, ClassRef):
        raise Unresolved(f"{scope.at(action)}: {meaning.reason}")
    if hops > _MAX_HOPS:
        raise Unresolved(f"{meaning.at}: a class of too many bases")
    return _own_action(values, meaning, hops + 1)


def _own_action(values: Values, owner: ClassRef, hops: int) -> Behaviour:
    inside, bases = Scope(owner.module, owner.source), owner.node.bases
    base = behaviour(values, inside, bases[0], hops) if bases else Behaviour()
    nargs = base.nargs
    for method in owner.node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            nargs = _default(method, "nargs", nargs)
    text = ast.unparse(owner.node)
    return Behaviour(
        nargs=nargs,
        deprecated=base.deprecated or "deprecat" in text.lower(),
        refuses=base.refuses or "parser.error(" in text,
        negatable=base.negatable,
        ends=base.ends,
    )


def _default(function: ast.FunctionDef, name: str, otherwise: Arity) -> Arity:
    taken = function.args
    positional = [*taken.posonlyargs, *taken.args]
    names = [argument.arg for argument in reversed(positional)]
    defaults = dict(zip(names, reversed(taken.defaults), strict=False))
    for argument, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
        if default is not None:
            defaults[argument.arg] = default
    found = defaults.get(name)
    if isinstance(found, ast.Constant) and isinstance(found.value, (int, str, type(None))):
        return found.value
    return otherwise


def declare(
    values: Values,
    scope: Scope,
    flags: tuple[str, ...],
    where: str,
    options: Options,
    *,
    conditional: bool = False,
) -> Argument:
    """The argument that a declaration makes.

    Args:
        values: Values of the release.
        scope: Where the declaration stands.
        flags: Its spellings.
        where: File and line.
        options: Keywords of `add_argument`, as expressions.
        conditional: Whether a condition stands around it.

    Returns:
        The argument; what the source does not tell is left unchecked in it.
    """
    try:
        does = behaviour(values, scope, options.get("action"))
        nargs = _nargs(values, scope, options, does.nargs)
    except Unresolved:
        does, nargs = Behaviour(), UNREADABLE
    if does.negatable:
        flags += tuple(f"--no-{flag[2:]}" for flag in flags if flag.startswith("--"))
    choices, more = _choices(values, scope, options.get("choices"))
    told = _constant_words(options.get("help"))
    by_help = _DEPRECATED.match(told)
    successor = _words(values, scope, options.get("new_flag"))
    if not successor and by_help:
        named = _SUCCESSOR.search(told)
        successor = named[1].rstrip(".,") if named else ""
    refusal = _words(values, scope, options.get("error_message")) if does.refuses else ""
    return Argument(
        flags=flags,
        where=where,
        nargs=nargs,
        kind=_kind(options.get("type")),
        choices=choices,
        open_choices=more,
        required=_true(options.get("required")),
        deprecated=does.deprecated or bool(by_help),
        successor=successor,
        refusal=refusal,
        ends=does.ends,
        conditional=conditional,
    )


def _nargs(values: Values, scope: Scope, options: Options, otherwise: Arity) -> Arity:
    if "nargs" not in options:
        return otherwise
    found = values.value(scope, options["nargs"])
    if found is None or isinstance(found, (int, str)):
        return found
    raise Unresolved(f"{scope.at(options['nargs'])}: nargs is {found!r}")


def _kind(node: ast.expr | None) -> str:
    return "str" if node is None else _KINDS.get(ast.unparse(node), "other")


def _true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _choices(
    values: Values, scope: Scope, node: ast.expr | None
) -> tuple[tuple[Choice, ...] | None, bool]:
    """Choices, and whether there may be more."""
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None, False
    values.doubts.clear()
    try:
        items = values.iterate(scope, values.value(scope, node))
    except Unresolved:
        return None, True
    found = [item.value if isinstance(item, Member) else item for item in items]
    plain = [item for item in found if isinstance(item, (str, int, float, bool))]
    more = bool(values.doubts) or len(plain) < len(found)
    return tuple(dict.fromkeys(plain)), more or any(isinstance(item, Opaque) for item in items)


def _words(values: Values, scope: Scope, node: ast.expr | None) -> str:
    """A text, or what of it is constant."""
    if node is None:
        return ""
    try:
        found = values.value(scope, node)
        return found if isinstance(found, str) else ""
    except Unresolved:
        return _constant_words(node)


def _constant_words(node: ast.expr | None) -> str:
    parts = [] if node is None else [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return "".join(part for part in parts if isinstance(part, str))
