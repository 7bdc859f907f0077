# SPDX-License-Identifier: Apache-2.0
"""Which functions of a release are worth walking through, told from their text alone.

A walk through all of the engine would take minutes. What can touch the target model asks a runner
for its ``model``, is handed the model, or calls something that does; what decides whether it comes
to that asks for the algorithm. Names are compared without regard to where they come from, so more
is walked through than needed, and parsing is left to the files that matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_START = re.compile(rb"^( {0,4})(?:async )?(def|class) +(\w+)", re.MULTILINE)
_USE = re.compile(rb"\.[A-Za-z_]\w*(?! = )|[A-Za-z_]\w*\(")
# A class may be picked from a table before it is called; in an annotation it is only a type.
_CLASS = re.compile(
    rb"(?:[\"']: |lambda[^:\n]*: |(?<![:>\[.] )(?<![\[.\w\"']))([A-Z]\w*[a-z]\w*)\b(?![.\]])"
)
_STORE = re.compile(rb"\.(\w+)(?::[^=\n()]+)? = ")
_MODEL = re.compile(rb"\.model\b|['\"]model['\"]")
# Accessors and small helpers are walked through wherever they are used.
_SMALL = 15
_CONSTRUCTORS = {b"__init__", b"__post_init__"}


@dataclass(frozen=True, eq=False)
class Segment:
    """The text of one function: what it uses, calls and stores to."""

    path: str
    name: bytes
    owner: bytes
    uses: frozenset[bytes]
    calls: frozenset[bytes]
    stores: frozenset[bytes]
    asks: bool
    decides: bool
    lines: int


class Relevance:
    """Tells which functions may matter.

    Args:
        read: gives a file by its path.
        predicates: names by which the release asks for the algorithm.
    """

    def __init__(self, read: Callable[[str], bytes | None], predicates: Iterable[str]) -> None:
        self._read = read
        names = b"|".join(re.escape(name.encode()) for name in sorted(predicates))
        self._predicate = re.compile(rb"\.(?:%s)\(" % (names or rb"(?!)"))
        self._segments: dict[str, list[Segment]] = {}
        self._relevant: set[Segment] = set()
        self._by_name: dict[tuple[str, str], list[Segment]] = {}
        self._aliases: set[bytes] = set()

    def add(self, paths: Iterable[str]) -> bool:
        """Take files in; whether one of them is new."""
        new = [path for path in paths if path.endswith(".py") and path not in self._segments]
        for path in new:
            self._segments[path] = list(self._split(path, self._read(path) or b""))
            for segment in self._segments[path]:
                key = (path, segment.name.decode())
                self._by_name.setdefault(key, []).append(segment)
        if new:
            self._close()
        return bool(new)

    def alias(self, name: str) -> bool:
        """A field holds the model, so asking for it is asking for the model; whether it is new."""
        text = name.encode()
        if text in self._aliases or text == b"model":
            return False
        self._aliases.add(text)
        before = len(self._relevant)
        self._close()
        return len(self._relevant) > before

    def matters(self, path: str, name: str) -> bool:
        """Whether a function is worth walking through; unknown files always are."""
        if path not in self._segments:
            return True
        found = self._by_name.get((path, name), [])
        return not found or any(self._walked(segment) for segment in found)

    def stored_elsewhere(self, paths: Iterable[str], field: str) -> bool:
        """Whether a function that is not walked through stores to a field of that name."""
        text = field.encode()
        return any(
            text in segment.stores and not self._walked(segment)
            for path in paths
            for segment in self._segments.get(path, ())
        )

    def _walked(self, segment: Segment) -> bool:
        return segment in self._relevant or segment.name in _CONSTRUCTORS or segment.lines <= _SMALL

    def _split(self, path: str, data: bytes) -> Iterable[Segment]:
        marks = list(_START.finditer(data))
        owner = b""
        for index, mark in enumerate(marks):
            if mark.group(2) == b"class":
                owner = mark.group(3)
                continue
            if not mark.group(1):
                owner = b""
            end = marks[index + 1].start() if index + 1 < len(marks) else len(data)
            text = data[mark.end() : end]
            yield Segment(
                path=path,
                name=mark.group(3),
                owner=owner,
                uses=frozenset(use.strip(b".(") for use in set(_USE.findall(text))),
                calls=frozenset(_CLASS.findall(text)),
                stores=frozenset(_STORE.findall(text)),
                asks=_MODEL.search(text) is not None,
                decides=self._predicate.search(text) is not None,
                lines=text.count(b"\n"),
            )

    def _close(self) -> None:
        """All that leads to what asks for the model, and all that decides on the way."""
        every = [segment for segments in self._segments.values() for segment in segments]
        relevant = {s for s in every if s.asks or s.uses & self._aliases} | self._relevant
        new = relevant
        used: set[bytes] = set()
        names: set[bytes] = set()
        makers: set[bytes] = set()
        rest = [segment for segment in every if segment not in relevant]
        while new:
            for segment in new:
                used |= segment.uses
                names.add(segment.name)
                makers.add(segment.owner)
            names -= _CONSTRUCTORS
            new = {
                segment
                for segment in rest
                if not names.isdisjoint(segment.uses)
                or not makers.isdisjoint(segment.calls)
                or (segment.decides and (segment.name in used or segment.stores & used))
            }
            relevant |= new
            rest = [segment for segment in rest if segment not in new]
        self._relevant = relevant
