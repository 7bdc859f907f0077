# SPDX-License-Identifier: Apache-2.0
"""Tracebacks in the journal: each with its chain of exceptions, told apart by process."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<where>.+))?$')
# Not "/sglang/" alone: the whole release may be installed below a folder of that name.
_ENGINE_CODE = re.compile(r"/sglang/(?:srt/|\w+\.py$)")
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::\s?(?P<text>.*))?$")
# What a process says when another one died first: never the cause while there is another.
CONSEQUENCE = re.compile(
    r"\b(?:EOFError|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|KeyboardInterrupt"
    r"|SystemExit|CancelledError)\b|Connection closed by peer|[Ss]cheduler (?:is dead|died)"
    r"|Rank \d+ scheduler|Received sigquit|Broken pipe|Connection reset by peer"
)
_FATAL_MARK = re.compile(r"hit an exception|Initialization failed|Exception in ModelRunner")
_MAX_CONTINUATION = 6
_MAX_FRAMES = 4


@dataclass(frozen=True)
class Raised:
    """One exception of a chain, as a traceback shows it."""

    kind: str
    text: str
    frames: tuple[tuple[str, int], ...]

    @property
    def summary(self) -> str:
        """The exception's own line."""
        return f"{self.kind}: {self.text}" if self.text else self.kind

    @property
    def location(self) -> str:
        """`file.py:line` of the engine's innermost frame, else of the innermost frame.

        An attribute missing on a model is raised inside torch; where the engine asked for it is
        the line that helps.
        """
        if not self.frames:
            return ""
        name, line = self._frame
        return f"{name.rsplit('/', 1)[-1]}:{line}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """The same place with its whole path."""
        return (f"{self._frame[0]}:{self._frame[1]}",) if self.frames else ()

    @property
    def shown(self) -> tuple[str, ...]:
        """The exception's own line, then its innermost frames, innermost last."""
        frames = self.frames[-_MAX_FRAMES:]
        return (self.summary, *(f"  at {name}:{line}" for name, line in frames))

    @property
    def _frame(self) -> tuple[str, int]:
        own = [frame for frame in self.frames if _ENGINE_CODE.search(frame[0])]
        return (own or list(self.frames))[-1]


@dataclass(frozen=True)
class Chain:
    """A traceback with its causes, oldest exception first.

    `fatal`: the engine itself says that it ends of it; `logged`: the engine's logger wrote it;
    `survived`: its process wrote to the log afterwards, so it did not die of it.
    """

    raised: tuple[Raised, ...]
    pid: int
    index: int
    fatal: bool
    rank: str = ""
    logged: bool = False
    survived: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        """Each exception with its innermost frames, oldest first."""
        return tuple(text for raised in self.raised for text in raised.shown)

    @property
    def consequence(self) -> bool:
        """Whether it only tells of another process's end."""
        return CONSEQUENCE.search(self.raised[-1].summary) is not None

    @property
    def deadly(self) -> bool:
        """Whether its process surely died of it, and of nothing before."""
        if self.consequence:
            return False
        return self.fatal or not (self.logged or self.survived)


def exception_chains(lines: Sequence[Line]) -> list[Chain]:
    """Find every traceback, told apart by process, oldest first."""
    reader: dict[int, _Reader] = {}
    chains: list[Chain] = []
    for index, line in enumerate(lines):
        if line.manager:
            continue
        done = reader.setdefault(line.pid, _Reader(line.pid)).feed(line, index)
        if done:
            chains.append(done)
    chains.extend(last for one in reader.values() if (last := one.close()))
    spoke = {line.pid: index for index, line in enumerate(lines) if line.stamped}
    return sorted(
        (replace(chain, survived=spoke.get(chain.pid, -1) > chain.index) for chain in chains),
        key=lambda chain: chain.index,
    )


class _Reader:
    """Reads the tracebacks of one process, line by line."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._raised: list[Raised] = []
        self._frames: list[tuple[str, int]] | None = None  # None: not inside a traceback
        self._index = 0
        self._fatal = False
        self._rank = ""
        self._logged = False
        self._room = 0
        self._linked = False  # the last line said that the next traceback belongs to this chain
        self._open = False  # the exception's own line ended in a colon: its text follows

    def feed(self, line: Line, index: int) -> Chain | None:
        if _TRACEBACK in line.text:
            # A traceback without the logger's stamp goes on with the chain that it follows.
            done = None if line.text.strip() == _TRACEBACK and self._linked else self.close()
            if not self._raised:
                self._index, self._rank = index, line.rank
                self._fatal = _FATAL_MARK.search(line.text) is not None
                self._logged = line.text.strip() != _TRACEBACK
            self._frames, self._linked = [], False
            return done
        if line.text.strip() in _CHAINED:
            self._linked = bool(self._raised)
            return None
        if self._frames is None:
            return self._after(line)
        self._inside(line)
        return None

    def _inside(self, line: Line) -> None:
        """A line between `Traceback` and the exception's own line."""
        frames = self._frames if self._frames is not None else []
        if found := _FRAME.match(line.text):
            frames.append((found["file"], int(found["line"])))
        elif found := _RAISED.match(line.text):
            self._raised.append(Raised(found["kind"], (found["text"] or "").strip(), tuple(frames)))
            self._frames, self._room = None, _MAX_CONTINUATION
            self._open = line.text.endswith(":")
        elif line.stamped:
            self._frames = None  # broken off: the process went on to something else

    def _after(self, line: Line) -> Chain | None:
        """A line behind an exception: more of its message, or the end of the chain."""
        if not self._raised or self._linked:
            return None
        if line.stamped or self._room == 0:
            return self.close()
        if self._open:
            last = self._raised[-1]
            self._raised[-1] = replace(last, text=f"{last.text} {line.text.strip()}".strip())
            self._open = False
        self._room -= 1
        return None

    def close(self) -> Chain | None:
        """End the current chain and return it, if there is one."""
        raised, self._raised, self._linked = tuple(self._raised), [], False
        if not raised:
            return None
        return Chain(raised, self._pid, self._index, self._fatal, self._rank, self._logged)


def choose_chain(chains: Sequence[Chain]) -> Chain | None:
    """The chain that explains the death: the first rank that failed, not who noticed.

    A traceback that the engine itself calls fatal ("Scheduler hit an exception") counts before
    one that it only logged. Without one, processes die of what no logger introduced: of each the
    last, and of those the earliest, since the others died after it.
    """
    causes = [chain for chain in chains if not chain.consequence]
    for chain in causes:
        if chain.fatal:
            return chain
    last = {chain.pid: chain for chain in causes if not chain.logged and not chain.survived}
    if last:
        return min(last.values(), key=lambda chain: chain.index)
    if causes:
        return causes[-1]
    return chains[0] if chains else None
