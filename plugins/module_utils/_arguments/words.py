# SPDX-License-Identifier: Apache-2.0
"""A command line against a release's parser: the rules of argparse, every problem at once.

argparse stops at the first problem. Here all are found, so that an operator corrects an inventory
once.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import (
    UNREADABLE,
    Argument,
    ReleaseParser,
)

_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")


@dataclass(frozen=True)
class Problem:
    """One word, or group of words, that the parser does not take as it stands.

    Attributes:
        flag: The argument as it was written, without its values.
        kind: `unknown`, `ambiguous`, `abbreviated`, `deprecated`, `refused`, `bad_choice`,
            `bad_value`, `missing_value`, `unexpected_value`, `missing` or `uncertain`.
        reason: What is wrong, in a sentence.
        where: File and line that say so; empty where nothing is declared.
        remedy: What to write instead.
    """

    flag: str
    kind: str
    reason: str
    where: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Given:
    """An argument of a command line with its values, after abbreviations."""

    flag: str
    argument: Argument
    values: tuple[str, ...]


@dataclass(frozen=True)
class _Group:
    """One flag as it was written, a value behind `=` if any, and the words up to the next flag."""

    flag: str
    inline: str | None
    rest: tuple[str, ...]


def parse_words(
    parser: ReleaseParser, words: Sequence[str], complete: bool = True
) -> tuple[list[Given], list[Problem]]:
    """Read a command line.

    Args:
        parser: The release's parser.
        words: The arguments behind `python -m sglang.launch_server`.
        complete: Whether this is the whole command, which must have what is required.

    Returns:
        What is given, and the problems in the order of the words.
    """
    given: list[Given] = []
    problems: list[Problem] = []
    for group in _groups(parser, words):
        if not group.flag:
            problems += [_stray(word) for word in group.rest]
            continue
        argument, found = _resolve(parser, group.flag)
        problems += found
        if argument is None:
            continue
        values, found = _values(argument, group)
        problems += found
        problems += _state(argument, group.flag)
        given.append(Given(group.flag, argument, values))
    if complete and "--config" not in {flag for one in given for flag in one.argument.flags}:
        # A configuration file may hold what the command line does not.
        have = {id(one.argument) for one in given}
        problems += [
            Problem(a.name, "missing", "the release does not start without it", a.where)
            for a in parser.arguments
            if a.required and id(a) not in have
        ]
    return given, problems


def _groups(parser: ReleaseParser, words: Sequence[str]) -> Iterator[_Group]:
    flag, inline, rest = "", None, list[str]()
    for word in words:
        if not _is_flag(parser, word):
            rest.append(word)
            continue
        if flag or rest:
            yield _Group(flag, inline, tuple(rest))
        flag, inline, rest = word, None, []
        if word not in parser.by_flag and "=" in word:
            flag, _, inline = word.partition("=")
    if flag or rest:
        yield _Group(flag, inline, tuple(rest))


def _is_flag(parser: ReleaseParser, word: str) -> bool:
    """Whether argparse takes a word for an argument and not for a value (bpo-9334's rules)."""
    if not word.startswith("-") or len(word) == 1:
        return False
    if word in parser.by_flag or word.partition("=")[0] in parser.by_flag:
        return True
    if parser.abbreviations and _matches(parser, word.partition("=")[0]):
        return True
    return not _NEGATIVE.fullmatch(word) and " " not in word


def _matches(parser: ReleaseParser, prefix: str) -> list[str]:
    if not prefix.startswith("--"):
        return []
    return sorted(flag for flag in parser.by_flag if flag.startswith(prefix))


def _stray(word: str) -> Problem:
    return Problem(word, "unexpected_value", f"'{word}' belongs to no argument", "", "remove it")


def _resolve(parser: ReleaseParser, flag: str) -> tuple[Argument | None, list[Problem]]:
    exact = parser.by_flag.get(flag)
    if exact is not None:
        return exact, []
    matches = _matches(parser, flag) if parser.abbreviations else []
    owners = {id(parser.by_flag[match]): parser.by_flag[match] for match in matches}
    if len(owners) > 1:
        listed = ", ".join(matches[:4]) + (", ..." if len(matches) > 4 else "")
        return None, [
            Problem(
                flag,
                "ambiguous",
                f"not an argument's name, and short for {len(matches)}: {listed}",
                parser.by_flag[matches[0]].where,
                f"write the one that is meant: {' or '.join(matches[:4])}",
            )
        ]
    if owners:
        found = next(iter(owners.values()))
        return found, [
            Problem(
                flag,
                "abbreviated",
                f"it is short for {matches[0]}: a release with a second argument that begins "
                "so refuses it",
                found.where,
                f"write {matches[0]}",
            )
        ]
    if parser.gaps:
        reason = f"it was not found, but this release could not be read whole: {parser.gaps[0]}"
        return None, [Problem(flag, "uncertain", reason)]
    close = difflib.get_close_matches(flag, parser.by_flag, n=1, cutoff=0.8)
    remedy = f"did you mean {close[0]}?" if close else "remove it"
    return None, [Problem(flag, "unknown", "this release has no such argument", "", remedy)]


def _state(argument: Argument, flag: str) -> list[Problem]:
    """What is to be said about an argument whatever its value."""
    if argument.refusal:
        return [Problem(flag, "refused", argument.refusal, argument.where)]
    if argument.ends:
        reason = "it prints something and ends the program"
        return [Problem(flag, "refused", reason, argument.where, "remove it")]
    if argument.deprecated:
        instead = f"use {argument.successor}" if argument.successor else "remove it"
        reason = "this release takes it with a warning, a later one will not"
        return [Problem(flag, "deprecated", reason, argument.where, instead)]
    return []


def _values(argument: Argument, group: _Group) -> tuple[tuple[str, ...], list[Problem]]:
    """The values that an argument takes of its group, and what is wrong with them."""
    inline = [] if group.inline is None else [group.inline]
    if argument.nargs == UNREADABLE:
        return (*inline, *group.rest), []
    least, most = _bounds(argument)
    problems = []
    if inline:
        taken, spare = inline, list(group.rest)
        if most == 0:
            reason = f"it takes no value, found '{group.inline}'"
            problems.append(_wrong(argument, group.flag, "unexpected_value", reason))
        elif least > 1:
            reason = f"it takes {least} values, found one behind '='"
            problems.append(_wrong(argument, group.flag, "missing_value", reason))
    else:
        limit = len(group.rest) if most is None else most
        taken, spare = list(group.rest[:limit]), list(group.rest[limit:])
        if len(taken) < least:
            wants = "a value" if least == 1 else f"{least} values"
            reason = f"it takes {wants}, found {len(taken) or 'none'}"
            problems.append(_wrong(argument, group.flag, "missing_value", reason))
    problems += [
        _wrong(argument, group.flag, "unexpected_value", f"it has no place for '{word}'")
        for word in spare
    ]
    for value in taken:
        problems += _check_value(argument, group.flag, value) if most != 0 else []
    return tuple(taken), problems


def _bounds(argument: Argument) -> tuple[int, int | None]:
    if isinstance(argument.nargs, int):
        return argument.nargs, argument.nargs
    bounds: Mapping[str | None, tuple[int, int | None]] = {
        None: (1, 1),
        "?": (0, 1),
        "*": (0, None),
        "+": (1, None),
    }
    return bounds.get(argument.nargs, (0, None))


def _wrong(argument: Argument, flag: str, kind: str, reason: str) -> Problem:
    remedy = "true or false in engine_arguments" if argument.nargs == 0 else ""
    return Problem(flag, kind, reason, argument.where, remedy)


def _check_value(argument: Argument, flag: str, value: str) -> list[Problem]:
    converted: object = value
    try:
        if argument.kind == "int":
            converted = int(value)
        elif argument.kind == "float":
            converted = float(value)
        elif argument.kind == "json":
            json.loads(value)
    except ValueError:
        words = {"int": "a whole number", "float": "a number", "json": "JSON"}
        reason = f"it takes {words[argument.kind]}, found '{value}'"
        return [Problem(flag, "bad_value", reason, argument.where)]
    if argument.choices is None or argument.kind not in ("str", "int", "float"):
        return []
    if converted in argument.choices:
        return []
    listed = ", ".join(str(choice) for choice in argument.choices)
    close = difflib.get_close_matches(value, [str(c) for c in argument.choices], n=1)
    remedy = f"did you mean {close[0]}?" if close else "choose one of them"
    if argument.open_choices:
        reason = f"'{value}' is not among the choices that the source tells: {listed}"
        return [Problem(flag, "uncertain", reason, argument.where, remedy)]
    reason = f"'{value}' is not one of {listed}"
    return [Problem(flag, "bad_choice", reason, argument.where, remedy)]
