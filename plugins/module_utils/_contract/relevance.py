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

# Each starts with the rarest thing that it has to begin with, a literal where there is one: a
# search looks for that first, and it is searching that takes the time. So calls are looked for in
# the text turned round, where the bracket comes first.
_START = re.compile(rb"\n( {0,4})(?:async )?(def|class) +(\w+)")
_ATTRIBUTE = re.compile(rb"\.([A-Za-z_]\w*)\b(?! = )")
_CALL_BACKWARDS = re.compile(rb"\((\w*[A-Za-z_])\b")
# A class may be picked from a table before it is called; in an annotation it is only a type.
_CLASS = re.compile(
    rb"([A-Z](?<![\[.\w\"'].)(?:(?<=[\"']: .)|(?<![:>\[.] .))\w*[a-z]\w*)\b(?![.\]])"
)
_LAMBDA_CLASS = re.compile(rb"lambda[^:\n]*: ([A-Z]\w*[a-z]\w*)\b(?![.\]])")
_STORE = re.compile(rb"\.(\w+)(?: = |:[^=\n()]+ = )")
_MODEL = re.compile(rb"model(?:(?<=\.model)\b|(?<=['\"]model)['\"])")
# Accessors and small helpers are walked through wherever they are used.
_SMALL = 15
_CONSTRUCTORS = {b"__init__", b"__post_init__"}


@dataclass(eq=False, slots=True)
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
        self._by_name: dict[tuple[str, str], list[Segment]] = {}
        self._storing: dict[tuple[str, bytes], list[Segment]] = {}
        self._aliases: set[bytes] = set()
        self._relevant: set[Segment] = set()
        self._rest: list[Segment] = []
        # Of the relevant functions: what they use, their names, and the classes they belong to.
        self._used: set[bytes] = set()
        self._names: set[bytes] = set()
        self._makers: set[bytes] = set()

    def add(self, paths: Iterable[str]) -> bool:
        """Take files in; whether one of them is new."""
        new = [path for path in paths if path.endswith(".py") and path not in self._segments]
        for path in new:
            self._segments[path] = list(self._split(path, self._read(path) or b""))
            self._rest += self._segments[path]
            for segment in self._segments[path]:
                key = (path, segment.name.decode())
                self._by_name.setdefault(key, []).append(segment)
                for field in segment.stores:
                    self._storing.setdefault((path, field), []).append(segment)
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
            not self._walked(segment)
            for path in paths
            for segment in self._storing.get((path, text), ())
        )

    def _walked(self, segment: Segment) -> bool:
        return segment in self._relevant or segment.name in _CONSTRUCTORS or segment.lines <= _SMALL

    def _split(self, path: str, data: bytes) -> Iterable[Segment]:
        data = b"\n" + data
        marks = list(_START.finditer(data))
        owner = b""
        for index, mark in enumerate(marks):
            indent, kind, name = mark.groups()
            if kind == b"class":
                owner = name
                continue
            if not indent:
                owner = b""
            end = marks[index + 1].start() + 1 if index + 1 < len(marks) else len(data)
            text = data[mark.end() : end]
            classes = _CLASS.findall(text)
            if b"lambda" in text:
                classes += _LAMBDA_CLASS.findall(text)
            yield Segment(
                path=path,
                name=name,
                owner=owner,
                uses=frozenset(_ATTRIBUTE.findall(text)).union(
                    name[::-1] for name in _CALL_BACKWARDS.findall(text[::-1])
                ),
                calls=frozenset(classes),
                stores=frozenset(_STORE.findall(text)),
                asks=_MODEL.search(text) is not None,
                decides=self._predicate.search(text) is not None,
                lines=text.count(b"\n"),
            )

    def _close(self) -> None:
        """All that leads to what asks for the model, and all that decides on the way."""
        new = {s for s in self._rest if s.asks or not self._aliases.isdisjoint(s.uses)}
        while True:
            for segment in new:
                self._used |= segment.uses
                self._names.add(segment.name)
                self._makers.add(segment.owner)
            self._names -= _CONSTRUCTORS
            self._relevant |= new
            self._rest = [segment for segment in self._rest if segment not in new]
            new = {segment for segment in self._rest if self._leads(segment)}
            if not new:
                return

    def _leads(self, segment: Segment) -> bool:
        """Whether a function uses a relevant one, or decides what one of them asks."""
        return (
            not self._names.isdisjoint(segment.uses)
            or not self._makers.isdisjoint(segment.calls)
            or (
                segment.decides
                and (segment.name in self._used or not self._used.isdisjoint(segment.stores))
            )
        )
