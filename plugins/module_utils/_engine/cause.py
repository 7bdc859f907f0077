# SPDX-License-Identifier: Apache-2.0
"""Why an engine died: from its journal and its unit's state to one line and a remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    SIGNATURES,
    Signature,
    best_match,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<where>.+))?$')
# Not "/sglang/" alone: the whole release may be installed below a folder of that name.
_ENGINE_CODE = re.compile(r"/sglang/(?:srt/|\w+\.py$)")
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::\s?(?P<text>.*))?$")
_ARGPARSE = re.compile(r"^[\w.-]+: error: (?P<text>.+)$")
_INTERPRETER = re.compile(
    r"^(?:\S*python[\d.]*: (?P<python>(?:No module named|can't open file|Error while finding).*)"
    r"|(?P<fatal>Fatal Python error: .*))$"
)
# Said by systemd's own child before it becomes the service's process.
_SETUP = re.compile(r"^\S+\.service: (?P<text>Failed at step \w+ spawning .+)$")
# What a process says when another one died first: never the cause while there is another.
_CONSEQUENCE = re.compile(
    r"\b(?:EOFError|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|KeyboardInterrupt"
    r"|SystemExit|CancelledError)\b|Connection closed by peer|[Ss]cheduler (?:is dead|died)"
    r"|Rank \d+ scheduler|Received sigquit|Broken pipe|Connection reset by peer"
)
_FATAL_MARK = re.compile(r"hit an exception|Initialization failed|Exception in ModelRunner")
_COMPLAINT = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Error|error:|[Ff]ailed|exitcode=-?\d+|[Kk]illed)\b"
)
# After this the process may live on for minutes without ever serving (0.5.9: the launcher waits for
# a warm-up that cannot reach it).
_HOPELESS = re.compile(r"error while attempting to bind on address")
_MAX_CONTINUATION = 6
_MAX_EVIDENCE = 3
_LAST_SECONDS = 30.0  # a complaint of hours ago did not end the process
_MAX_SUMMARY = 400

_RESULTS = {
    "oom-kill": "the kernel's out-of-memory killer ended a process of the unit",
    "timeout": "systemd's start or stop timeout ran out",
    "watchdog": "systemd's watchdog timeout ran out",
    "start-limit-hit": "it was started too often in a short time and systemd gave up",
    "resources": "systemd could not set up the unit's resources",
    "core-dump": "the process crashed and dumped core",
    "protocol": "the service did not follow its start protocol",
}
_EXIT_STATUSES = {
    200: "CHDIR: the working directory does not exist or cannot be entered",
    203: "EXEC: the program to run does not exist or cannot be executed",
    217: "USER: the service user does not exist",
    226: "NAMESPACE: a path named by a sandbox directive does not exist",
    243: "CREDENTIALS: a credential named by the unit could not be read",
}


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
    def _frame(self) -> tuple[str, int]:
        own = [frame for frame in self.frames if _ENGINE_CODE.search(frame[0])]
        return (own or list(self.frames))[-1]


@dataclass(frozen=True)
class Chain:
    """A traceback with its causes, oldest exception first."""

    raised: tuple[Raised, ...]
    pid: int
    index: int
    fatal: bool
    rank: str = ""

    @property
    def consequence(self) -> bool:
        """Whether it only tells of another process's end."""
        return _CONSEQUENCE.search(self.raised[-1].summary) is not None


@dataclass(frozen=True)
class Cause:
    """Why the engine died.

    `summary` is one line; `location` is `file.py:line` or empty; `root` is the first exception of
    the chain where it differs from the last; `rank` names the rank that failed first, where the
    engine names it; `evidence` are a few lines of the journal; `remedy` is empty when no signature
    matches.
    """

    summary: str
    location: str = ""
    root: str = ""
    rank: str = ""
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    signature: str = ""

    def __str__(self) -> str:
        """The cause in one line."""
        where = ", ".join(part for part in (self.location, self.rank) if part)
        text = f"{self.summary} ({where})" if where else self.summary
        return f"{text}; first raised: {self.root}" if self.root else text


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
    return sorted(chains, key=lambda chain: chain.index)


class _Reader:
    """Reads the tracebacks of one process, line by line."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._raised: list[Raised] = []
        self._frames: list[tuple[str, int]] | None = None  # None: not inside a traceback
        self._index = 0
        self._fatal = False
        self._rank = ""
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
        return Chain(raised, self._pid, self._index, self._fatal, self._rank)


def hopeless(line: Line) -> bool:
    """Whether a line says that this start cannot succeed, though the process still runs."""
    return not line.manager and _HOPELESS.search(line.text) is not None


def choose_chain(chains: Sequence[Chain]) -> Chain | None:
    """The chain that explains the death: the first rank that failed, not who noticed.

    A traceback that the engine itself calls fatal ("Scheduler hit an exception") counts before
    one that it only logged; of those that no logger introduced the last one ended the process.
    """
    causes = [chain for chain in chains if not chain.consequence]
    for chain in causes:
        if chain.fatal:
            return chain
    if causes:
        return causes[-1]
    return chains[0] if chains else None


def find_cause(
    lines: Sequence[Line],
    unit: UnitState | None = None,
    remedies: Iterable[Signature] = (),
) -> Cause:
    """Say why the engine died.

    Args:
        lines: the journal of the invocation that died, oldest first.
        unit: the unit's state after the death, where known.
        remedies: signatures that take precedence over the built-in ones.

    Returns:
        The cause; its summary says so when the journal holds no reason.
    """
    manager = [line.text for line in lines if line.manager]
    cause = (
        _manager_kill(unit)
        or _hopeless_line(lines)
        or _stopped(lines)
        or _traceback(lines)
        or _plain([line for line in lines if not line.manager])
        or _unit_end(unit, manager)
    )
    if not cause.evidence:
        cause = replace(cause, evidence=tuple(manager[-_MAX_EVIDENCE:]))
    # The cause first: a line elsewhere in the journal may be harmless noise.
    match = best_match(str(cause), [*remedies, *SIGNATURES])
    if match:
        cause = replace(cause, remedy=match[1], signature=match[0].id)
    return cause


def _manager_kill(unit: UnitState | None) -> Cause | None:
    if unit is not None and unit.result == "oom-kill":
        return Cause(_RESULTS["oom-kill"])
    return None


def _hopeless_line(lines: Sequence[Line]) -> Cause | None:
    """What made the start fail long before the process ended for another reason."""
    for line in filter(hopeless, lines):
        return Cause(_short(line.message), rank=line.rank, evidence=(line.text,))
    return None


def _stopped(lines: Sequence[Line]) -> Cause | None:
    """A stop that was asked for; what a process says while it is being stopped is no cause."""
    for index, line in enumerate(lines):
        if line.manager and line.text.startswith("Stopping "):
            if any(chain.fatal for chain in exception_chains(lines[:index])):
                return None
            return Cause("it was stopped by a request to systemd, not by a fault of its own")
    return None


def _traceback(lines: Sequence[Line]) -> Cause | None:
    chain = choose_chain(exception_chains(lines))
    if chain is None:
        return None
    last, first = chain.raised[-1], chain.raised[0]
    root = f"{first.summary} ({first.location})" if len(chain.raised) > 1 else ""
    return Cause(
        summary=_short(last.summary),
        location=last.location,
        root=_short(root),
        rank=chain.rank,
        evidence=last.evidence,
    )


def _plain(own: Sequence[Line]) -> Cause | None:
    """A death that no traceback tells: the argument parser's, the interpreter's, a child's."""
    for line in own:
        if found := _SETUP.match(line.text):
            return Cause(_short(found["text"]), evidence=(line.text,))
        if found := _ARGPARSE.match(line.text):
            return Cause(_short(f"argument refused: {found['text']}"), evidence=(line.text,))
        if found := _INTERPRETER.match(line.text):
            return Cause(_short(found["python"] or found["fatal"]), evidence=(line.text,))
    end = own[-1].time if own else 0.0
    causes = [
        line
        for line in own
        if line.stamped
        and line.time >= end - _LAST_SECONDS
        and _COMPLAINT.search(line.message)
        and not _CONSEQUENCE.search(line.text)
        and not line.message.startswith("[http_server]")  # a client's mistake
    ]
    if not causes:
        return None
    return Cause(_short(causes[-1].message), rank=causes[-1].rank, evidence=(causes[-1].text,))


def _unit_end(unit: UnitState | None, manager: Sequence[str]) -> Cause:
    if unit is None:
        return Cause("the engine's journal holds no reason")
    if unit.never_started:
        return Cause(f"{unit.name} does not run: it was stopped, or never started")
    if unit.load_state not in ("", "loaded"):
        return Cause(f"{unit.name} is {unit.load_state}: systemd has no such unit to run")
    reason = _RESULTS.get(unit.result, f"result {unit.result}")
    status = _EXIT_STATUSES.get(unit.exit_status, "") if unit.result == "exit-code" else ""
    detail = f"exit status {unit.exit_status}{'/' + status if status else ''}"
    quiet = "" if manager else "; its journal could not be read or is empty"
    return Cause(f"{unit.name} ended ({reason}, {detail}) without a word on why{quiet}")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SUMMARY else text[: _MAX_SUMMARY - 1] + "…"
