# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the patch catalogue, as types."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

Key = int | float | str | bool | None | tuple["Key", ...]


@dataclass(frozen=True)
class DictEntryRule:
    """A module's or class's table must have a key.

    Attributes:
        table: name of the table; ``Class.NAME`` for a class attribute.
        key: the key.
        like: copy the value of this other key, as written there.
        value: the value as Python literal text; used where there is nothing to copy.
        lookups: files in which the table is read; they tell whether a missing key hurts.
    """

    table: str
    key: Key
    like: Key = None
    has_like: bool = False
    value: str | None = None
    lookups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """One method that forwards to an inner object.

    Attributes:
        name: its name.
        parameters: parameter list behind ``self`` as Python text, ``""`` for none.
        call: argument list of the forwarded call as Python text.
    """

    name: str
    parameters: str
    call: str


@dataclass(frozen=True)
class DelegationRule:
    """A class must answer methods by forwarding them to ``self.<target>``.

    Attributes:
        class_name: a class at the top level of the file.
        target: attribute that holds the inner object.
        methods: the methods; those that the class has already are left alone.
    """

    class_name: str
    target: str
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class HunkLine:
    """One line of a hunk: ``tag`` is ``" "``, ``"-"`` or ``"+"``; ``newline`` as in the diff."""

    tag: str
    text: str
    newline: bool = True


@dataclass(frozen=True)
class Hunk:
    """One hunk; ``old_start`` and ``new_start`` are line numbers from 1."""

    old_start: int
    new_start: int
    lines: tuple[HunkLine, ...]

    def side(self, tag: str) -> tuple[HunkLine, ...]:
        """The lines of the old (``"-"``) or the new (``"+"``) file."""
        return tuple(line for line in self.lines if line.tag in {" ", tag})


@dataclass(frozen=True)
class DiffRule:
    """Exact replacement of lines: no fuzz, no offset."""

    hunks: tuple[Hunk, ...]


Rule = DictEntryRule | DelegationRule | DiffRule


@dataclass(frozen=True)
class SymmMemProof:
    """Run the release's symmetric-memory communicator with a stubbed ``torch``.

    Attributes:
        communicator: file of the communicator class.
        tables: file of the size tables that it imports.
        capability: compute capability (major) that the stub reports.
        world_size: tensor-parallel size that the stub reports.
    """

    communicator: str
    tables: str
    capability: int
    world_size: int


@dataclass(frozen=True)
class Patch:
    """One catalogue entry.

    Attributes:
        id: name of the entry.
        title: what it is, in one line.
        file: the file it edits, relative to the ``sglang`` package.
        rule: what must hold there.
        proof: how its behaviour is shown; delegation rules bring their own proof.
        does: what it does for the user.
        does_not: what it does not do.
        obsolete: what happens in a release that copes without the edit.
        releases: notes by release range.
        remedy: what to do when it cannot be applied.
    """

    id: str
    title: str
    file: str
    rule: Rule
    proof: SymmMemProof | None = None
    does: str = ""
    does_not: str = ""
    obsolete: str = ""
    releases: tuple[tuple[str, str], ...] = field(default=())
    remedy: str = ""


def parse_method(signature: str) -> Method:
    """Read ``name(parameter, other=None)`` into a method that forwards its arguments.

    Raises:
        ValueError: not a plain signature; the message says what is wrong.
    """
    try:
        parsed = ast.parse(f"def {signature}: pass").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{signature!r} is not a signature such as 'name(a, b=None)'") from error
    definition = parsed[0]
    if len(parsed) != 1 or not isinstance(definition, ast.FunctionDef) or "\n" in signature:
        raise ValueError(f"{signature!r} is not one signature")
    arguments = definition.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a]
    if definition.returns or any(a.annotation for a in every):
        raise ValueError(f"{signature!r}: leave annotations out, they may need imports")
    if any(a.arg == "self" for a in every):
        raise ValueError(f"{signature!r}: leave 'self' out, it is added")
    defaults = [*arguments.defaults, *[d for d in arguments.kw_defaults if d]]
    try:
        ast.literal_eval(ast.Tuple(elts=defaults, ctx=ast.Load()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{signature!r}: a default must be a constant") from error
    call = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    call += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    call += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    call += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return Method(definition.name, ast.unparse(arguments), ", ".join(call))


def method_names(rule: DelegationRule) -> tuple[str, ...]:
    """The names of a rule's methods, in its order."""
    return tuple(method.name for method in rule.methods)
