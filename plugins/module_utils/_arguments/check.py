# SPDX-License-Identifier: Apache-2.0
"""A launch against one release: its parser's view, its history, and the rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments import (
    ArgumentsError,
    Reads,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.findings import Finding
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import ReleaseParser
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.releases import release_key
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import (
    Launch,
    Rule,
    judge,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.words import (
    Given,
    Problem,
    parse_words,
)

_ENVIRONMENT = "srt/environ.py"
_UTILITIES = "srt/utils/"
# Variables that only SGLang reads; others belong to libraries.
_OWN_VARIABLE = re.compile(r"SGL(ANG)?_[A-Z0-9_]+")


@dataclass(frozen=True)
class Lifetime:
    """When an argument came and went, among the releases that were read.

    Attributes:
        first: First release that has it; empty for those that the oldest one has.
        last: Last release that has it; empty for those that the newest one has.
        successor: What the last release named instead.
    """

    first: str = ""
    last: str = ""
    successor: str = ""


@dataclass(frozen=True)
class History:
    """Arguments that not every release has (`roles/engine/files/argument_history.json`)."""

    arguments: Mapping[str, Lifetime] = field(default_factory=dict)

    def of(self, flag: str) -> Lifetime:
        """The lifetime of `--name`."""
        return self.arguments.get(flag.removeprefix("--"), Lifetime())


def parse_history(raw: object, where: str = "argument_history.json") -> History:
    """Check the history and make it usable.

    Args:
        raw: The parsed JSON.
        where: The file's name, for messages.

    Returns:
        The history.

    Raises:
        ArgumentsError: It is not of the form that `make argument-history` writes.
    """
    entries = raw.get("arguments") if isinstance(raw, Mapping) else None
    if not isinstance(entries, Mapping):
        raise ArgumentsError(f"{where}: has no mapping 'arguments'; run `make argument-history`")
    found: dict[str, Lifetime] = {}
    for name, entry in entries.items():
        keys: dict[str, Any] = dict(entry) if isinstance(entry, Mapping) else {"": entry}
        try:
            found[str(name)] = Lifetime(**{key: str(value) for key, value in keys.items()})
        except TypeError as error:
            raise ArgumentsError(f"{where}: {name}: {error}") from error
    return History(found)


def check_words(
    parser: ReleaseParser,
    words: Sequence[str],
    release: str,
    history: History | None = None,
    complete: bool = True,
    *,
    owned: Mapping[str, str] | None = None,
) -> tuple[list[Finding], dict[str, tuple[str, ...]]]:
    """Judge an argument list by a release's parser alone.

    Args:
        parser: The parser.
        words: The arguments.
        release: SGLang's version; empty where it is not known.
        history: When arguments came and went.
        complete: Whether this is a whole command.
        owned: See `second_spellings`.

    Returns:
        The findings in the order of the words, and the options under all their spellings.
    """
    given, problems = parse_words(parser, words, complete)
    options = {
        flag.lstrip("-"): one.values for one in given for flag in (*one.argument.flags, one.flag)
    }
    known = history or History()
    findings = [_finding(problem, release, known) for problem in problems]
    return findings + second_spellings(parser, given, owned or {}), options


def second_spellings(
    parser: ReleaseParser, given: Iterable[Given], owned: Mapping[str, str]
) -> list[Finding]:
    """Find arguments that are given twice, or past the variable that owns them.

    argparse keeps the last of two spellings without a word, so one of the two values is lost.

    Args:
        parser: The parser.
        given: What is given.
        owned: Names without dashes to the variables that set them. Any other spelling of these is
            a finding even when given alone: nothing but the release would know of the value.

    Returns:
        One finding for each spelling but the one to keep, in the order of the words.
    """
    owners = {
        id(parser.by_flag[f"--{name}"]): name for name in owned if f"--{name}" in parser.by_flag
    }
    spelled: dict[int, dict[str, Given]] = {}
    for one in given:
        spelled.setdefault(id(one.argument), {})[one.flag] = one
    found = []
    for key, ways in spelled.items():
        argument = next(iter(ways.values())).argument
        keep = argument.name if argument.name in ways else next(iter(ways))
        reason = f"the same argument as {keep}: given twice, and the last one alone counts"
        remedy = f"write {keep} alone"
        if key in owners:
            keep, variable = f"--{owners[key]}", owned[owners[key]]
            twice = ": given twice, and the last one alone counts" if keep in ways else ""
            reason = f"the same argument as {keep}, which {variable} sets{twice}"
            remedy = f"set {variable}"
        found += [
            Finding(flag, "second_spelling", reason, argument.where, remedy)
            for flag in ways
            if flag != keep
        ]
    return found


def _finding(problem: Problem, release: str, history: History) -> Finding:
    life = history.of(problem.flag)
    kind, reason, remedy = problem.kind, problem.reason, problem.remedy
    if kind in ("unknown", "ambiguous") and release and life.last and _after(release, life.last):
        gone = f"it was removed after {life.last}"
        if kind == "ambiguous":
            reason = f"{gone}, and is now {reason.partition(', and ')[2]}"
        else:
            reason = gone
            kind = "renamed" if life.successor else "removed"
        remedy = f"use {life.successor}" if life.successor else remedy
        if kind == "removed":
            remedy = "remove it; no other argument took its place"
    elif kind == "unknown" and release and life.first and _after(life.first, release):
        reason = f"the first release that has it is {life.first}"
        remedy = f"remove it, or choose a stack with SGLang {life.first} or newer"
    return Finding(problem.flag, kind, reason, problem.where, remedy)


def _after(left: str, right: str) -> bool:
    try:
        return release_key(left) > release_key(right)
    except ValueError:
        return False


def check_launch(
    parser: ReleaseParser,
    rules: Iterable[Rule],
    words: Sequence[str],
    launch: Launch,
    *,
    history: History | None = None,
    complete: bool = True,
) -> list[Finding]:
    """Judge a launch by a release's parser and by the rules.

    Args:
        parser: The parser.
        rules: The rules.
        words: The arguments.
        launch: Everything else about the launch; its `options` are taken from the words.
        history: When arguments came and went.
        complete: Whether this is a whole command.

    Returns:
        All findings, errors first.
    """
    findings, options = check_words(parser, words, launch.release, history, complete)
    seen = Launch(launch.release, options, launch.environment, launch.sm120, launch.patches)
    ruled = judge(rules, seen)
    findings = without_misleading_remedies(findings, ruled)
    return sorted([*findings, *ruled], key=lambda finding: finding.severity != "error")


def without_misleading_remedies(
    findings: Iterable[Finding], ruled: Iterable[Finding]
) -> list[Finding]:
    """Take the remedy away where a rule speaks against the argument as a whole.

    What a deprecated argument's release names instead would end the start just the same.

    Args:
        findings: Findings of the parser.
        ruled: Findings of the rules.

    Returns:
        The parser's findings.
    """
    fatal = {finding.argument for finding in ruled if finding.severity == "error"}
    return [
        replace(finding, remedy="") if finding.argument in fatal else finding
        for finding in findings
    ]


def unread_variables(tree: Reads, environment: Iterable[str]) -> list[Finding]:
    """Find SGLang variables that nothing in the release reads: mistyped, or of another release.

    Args:
        tree: The release.
        environment: Names of variables.

    Returns:
        One finding a variable; an error is never made of it, since a plugin may read it.
    """
    wanted = {name for name in environment if _OWN_VARIABLE.fullmatch(name)}
    if wanted:
        declared = tree.read(_ENVIRONMENT) or b""
        wanted = {name for name in wanted if not _names(declared, name)}
    # Most of what is not declared is read by the helpers in srt/utils: look there first.
    for path in sorted(tree.names(), key=lambda name: _UTILITIES not in name) if wanted else ():
        if path.endswith(".py"):
            data = tree.read(path) or b""
            wanted = {name for name in wanted if not _names(data, name)}
            if not wanted:
                break
    return [
        Finding(
            name,
            "advice",
            "nothing in this release reads it: a typing error, or a variable of another release",
            remedy="remove it from engine_environment, or correct its name",
        )
        for name in sorted(wanted)
    ]


def _names(data: bytes, name: str) -> bool:
    return re.search(rb"\b" + name.encode() + rb"\b", data) is not None
