# SPDX-License-Identifier: Apache-2.0
"""The arguments of one release, as its own parser would have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Choice = str | int | float | bool

# How many values an argument takes, as in argparse; None is exactly one, 0 a bare flag.
Arity = int | str | None
UNREADABLE = "unreadable"  # the source does not tell how many values it takes


@dataclass(frozen=True)
class Argument:
    """One argument.

    Attributes:
        flags: Every spelling, the first one first: `("--model-path", "--model")`.
        where: File and line of its declaration, inside the package.
        nargs: None for one value, 0 for none, a number, `?`, `*`, `+`, or `UNREADABLE`.
        kind: Type of a value: `str`, `int`, `float`, `json`, or `other` (not checked).
        choices: Allowed values; None where any will do.
        open_choices: The source has more choices than could be read, so others may be right.
        required: The parser stops without it.
        deprecated: Accepted with a warning, or said to be deprecated in its help.
        successor: What the release names instead, such as `--attn-dp-size <dp-size>`.
        refusal: The parser's own words where it knows the argument only to refuse it.
        ends: The program prints something and ends, as with `--help`.
        conditional: Declared under a condition: some installations may not have it.
    """

    flags: tuple[str, ...]
    where: str
    nargs: Arity = None
    kind: str = "str"
    choices: tuple[Choice, ...] | None = None
    open_choices: bool = False
    required: bool = False
    deprecated: bool = False
    successor: str = ""
    refusal: str = ""
    ends: bool = False
    conditional: bool = False

    @property
    def name(self) -> str:
        """The first spelling."""
        return self.flags[0]


@dataclass(frozen=True)
class ReleaseParser:
    """All arguments of a release.

    Attributes:
        arguments: Arguments in the order of their declaration.
        gaps: What could not be read, each with file and line. While there are gaps, an argument
            that was not found may still exist.
        abbreviations: The parser takes unambiguous prefixes for full names.
    """

    arguments: tuple[Argument, ...]
    gaps: tuple[str, ...] = ()
    abbreviations: bool = True

    @cached_property
    def by_flag(self) -> Mapping[str, Argument]:
        """Every spelling to its argument; of two with one spelling, the later."""
        return {flag: argument for argument in self.arguments for flag in argument.flags}
