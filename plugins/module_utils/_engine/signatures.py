# SPDX-License-Identifier: Apache-2.0
"""What a known fault looks like in a log, and which of several known faults explains a death.

The faults themselves are data, in the package `known`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CLASS, FAULT, ROOT = 1, 2, 3
"""How much a signature says: a class of faults, one known fault, or a root cause (a card that fell
off the bus, a process that the kernel killed) that explains whatever else is in the log."""

_RANGE = re.compile(r"(<=|>=|==|<|>)(\d[\w.]*)")


@dataclass(frozen=True)
class Signature:
    r"""A pattern over a line, what it tells, and what to do about it.

    `remedy` may use the pattern's groups as `\1` or `\g<name>`. `releases` is a comma separated
    range (">=0.5.14,<0.5.20") of SGLang releases that show it, empty for all. `source` is a public
    `repo#number`, or an SGLang release with file and line, or a recording of this project.
    """

    id: str
    pattern: str
    remedy: str
    cause: str = ""
    source: str = ""
    releases: str = ""
    says: int = FAULT

    def fits(self, release: str) -> bool:
        """Whether a release is in the range; an unknown release (empty) is."""
        if not release:
            return True
        have = _numbers(release)
        return all(_holds(have, sign, _numbers(bound)) for sign, bound in self.bounds)

    @property
    def bounds(self) -> list[tuple[str, str]]:
        """The range as (sign, release) pairs."""
        return [(found[1], found[2]) for found in _RANGE.finditer(self.releases)]


@dataclass(frozen=True)
class Match:
    """A signature found in a text.

    `place` is 0 for the cause itself, 1 for the kernel's log, 2 for the rest of the journal;
    `distance` counts lines back from the death within that place.
    """

    signature: Signature
    remedy: str
    text: str
    place: int = 0
    distance: int = 0
    length: int = 0


def matches(texts: Iterable[str], signatures: Sequence[Signature], place: int = 0) -> list[Match]:
    """Every signature that is found in texts, the one nearest to the death of each.

    Args:
        texts: lines, the one nearest to the death first.
        signatures: what to look for.
        place: see `Match`.
    """
    found: dict[str, Match] = {}
    for distance, text in enumerate(texts):
        for signature in signatures:
            if signature.id in found:
                continue
            hit = _compiled(signature.pattern).search(text)
            if hit:
                found[signature.id] = Match(
                    signature,
                    hit.expand(signature.remedy),
                    text,
                    place,
                    distance,
                    len(hit[0]),
                )
    return list(found.values())


def rank(found: Iterable[Match], release: str = "") -> list[Match]:
    """Order matches, the best explanation first.

    A signature of other releases comes last; then what says more comes first, then what is nearer
    to the death, then what matched more of the text.
    """
    return sorted(
        found,
        key=lambda one: (
            not one.signature.fits(release),
            -one.signature.says,
            one.place,
            one.distance,
            -one.length,
        ),
    )


def best_match(
    text: str, signatures: Iterable[Signature], release: str = ""
) -> tuple[Signature, str] | None:
    """The signature that explains one text best, with its remedy's groups filled in."""
    best = rank(matches([text], tuple(signatures)), release)
    return (best[0].signature, best[0].remedy) if best else None


def from_parameters(remedies: Iterable[Mapping[str, str]]) -> list[Signature]:
    """Turn a task's `remedies` into signatures.

    Raises:
        ValueError: an entry lacks `pattern` or `remedy`, or its pattern does not compile.
    """
    signatures = []
    for number, entry in enumerate(remedies, 1):
        try:
            pattern, remedy = entry["pattern"], entry["remedy"]
        except (KeyError, TypeError):
            raise ValueError(f"remedies[{number}] needs `pattern` and `remedy`: {entry}") from None
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"remedies[{number}].pattern {pattern!r}: {error}") from None
        # A remedy of the inventory is plain text: its backslashes mean themselves.
        signatures.append(Signature(f"remedy-{number}", pattern, remedy.replace("\\", r"\\")))
    return signatures


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _numbers(release: str) -> tuple[int, ...]:
    # 0.5.10 and 0.5.10.post1 differ: the post release is the longer tuple, hence the later one.
    return tuple(int(part) for part in re.findall(r"\d+", release))


def _holds(have: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    return {
        "<": have < bound,
        "<=": have <= bound,
        ">": have > bound,
        ">=": have >= bound,
        "==": have == bound,
    }[sign]
