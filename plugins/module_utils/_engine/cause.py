# SPDX-License-Identifier: Apache-2.0
"""Why an engine died: from its journal and its unit's state to one line and a remedy."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.module_utils._engine.chains import (
    CONSEQUENCE,
    choose_chain,
    exception_chains,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.children import killed_child
from ansible_collections.sm120.sglang.plugins.module_utils._engine.invocation import tells_stop
from ansible_collections.sm120.sglang.plugins.module_utils._engine.known import SIGNATURES
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    Match,
    Signature,
    best_match,
    matches,
    rank,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

_ARGPARSE = re.compile(r"^[\w.-]+: error: (?P<text>.+)$")
_INTERPRETER = re.compile(
    r"^(?:\S*python[\d.]*: (?P<python>(?:No module named|can't open file|Error while finding).*)"
    r"|(?P<fatal>Fatal Python error: .*))$"
)
# Said by systemd's own child before it becomes the service's process.
_SETUP = re.compile(r"^\S+\.service: (?P<text>Failed at step \w+ spawning .+)$")
_COMPLAINT = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Error|error:|[Ff]ailed|exitcode=-?\d+|[Kk]illed)\b"
)
# After this the process may live on for minutes without ever serving (0.5.9: the launcher waits for
# a warm-up that cannot reach it).
_HOPELESS = re.compile(r"error while attempting to bind on address")
_OUT_OF_MEMORY = re.compile(r"[Oo]ut of memory: Killed process|oom-kill:|oom_reaper: reaped")
_OUTSIDE = "was killed from outside (signal 9)"
_MAX_EVIDENCE = 3
ASKED_FOR = "it was stopped by a request to systemd, not by a fault of its own"
_LAST_SECONDS = 30.0  # a complaint of hours ago did not end the process
_MAX_SUMMARY = 400
_NEAR_DEATH = 400  # lines of the journal in which a known fault may be told beside the cause

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
class Cause:
    """Why the engine died.

    `summary` is one line; `location` is `file.py:line` or empty; `root` is the first exception of
    the chain where it differs from the last; `rank` names the rank that failed first, where the
    engine names it; `evidence` are a few lines of the journal; `remedy` is empty when no signature
    matches; `known` and `source` are that signature's own words; `chain` is the whole chain of
    exceptions, oldest first, each followed by its innermost frames.
    """

    summary: str
    location: str = ""
    root: str = ""
    rank: str = ""
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    signature: str = ""
    known: str = ""
    source: str = ""
    chain: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The cause in one line."""
        where = ", ".join(part for part in (self.location, self.rank) if part)
        text = f"{self.summary} ({where})" if where else self.summary
        return f"{text}; first raised: {self.root}" if self.root else text

    @property
    def with_remedy(self) -> str:
        """The cause, and where one is known what to do, in one line."""
        return f"{self}. Remedy: {self.remedy}" if self.remedy else str(self)


def hopeless(line: Line) -> bool:
    """Whether a line says that this start cannot succeed, though the process still runs."""
    return not line.manager and _HOPELESS.search(line.text) is not None


def find_cause(
    lines: Sequence[Line],
    unit: UnitState | None = None,
    remedies: Iterable[Signature] = (),
    *,
    kernel: Sequence[Line] = (),
    release: str = "",
    lost: Sequence[str] = (),
) -> Cause:
    """Say why the engine died.

    Args:
        lines: the journal of the invocation that died, oldest first.
        unit: the unit's state after the death, where known.
        remedies: signatures that take precedence over the built-in ones.
        kernel: the kernel's log of the same time (`invocation.of_death`).
        release: the SGLang release, where known; a fault of other releases is told last.
        lost: parts that ended while the rest of the engine goes on (`_node.parts.ended`).

    Returns:
        The cause; its summary says so when the journal holds no reason.
    """
    manager = [line.text for line in lines if line.manager]
    own = [line for line in lines if not line.manager]
    cause = (
        _manager_kill(unit)
        or _hopeless_line(lines)
        or _stopped(lines)
        or _traceback(lines, certain=True)
        or _said(own)
        or _killed_child(own, kernel)
        or _traceback(lines)
        or _lost(lost, kernel)
        or _complaint(own)
        or _unit_end(unit, manager, kernel)
    )
    if not cause.evidence:
        cause = replace(cause, evidence=tuple(manager[-_MAX_EVIDENCE:]))
    given = best_match(str(cause), remedies)
    if given:
        return replace(cause, remedy=given[1], signature=given[0].id)
    best = rank(_candidates(cause, lines, kernel), release)
    return _explained(cause, best[0], release) if best else cause


def find_suspect(
    lines: Sequence[Line], kernel: Sequence[Line] = (), release: str = ""
) -> Cause | None:
    """What an engine that runs and does not serve may suffer from.

    Args:
        lines: its journal, or the end of it, oldest first.
        kernel: the kernel's log since its start.
        release: the SGLang release, where known.

    Returns:
        The known fault that explains most, its line as the summary; None where neither log tells
        one.
    """
    best = rank(_told(lines, kernel), release)
    return _explained(Cause(_short(best[0].text)), best[0], release) if best else None


def _candidates(cause: Cause, lines: Sequence[Line], kernel: Sequence[Line]) -> list[Match]:
    """Every known fault that the cause, the kernel's log and the journal near the death tell."""
    found = matches([str(cause)], SIGNATURES)
    if cause.summary == ASKED_FOR:
        return found
    return found + _told(lines, kernel)


def _told(lines: Sequence[Line], kernel: Sequence[Line]) -> list[Match]:
    """Every known fault that the kernel's log and the end of the journal tell."""
    found = matches((line.text for line in reversed(kernel)), SIGNATURES, 1)
    own = [line.text for line in lines if not line.manager]
    return found + matches(reversed(own[-_NEAR_DEATH:]), SIGNATURES, 2)


def _explained(cause: Cause, match: Match, release: str) -> Cause:
    signature = match.signature
    known = signature.cause
    if not signature.fits(release):
        known += f" (known of releases {signature.releases}; this is {release})"
    evidence = cause.evidence if match.place == 0 else (*cause.evidence, _short(match.text))
    return replace(
        cause,
        remedy=match.remedy,
        signature=signature.id,
        known=known,
        source=signature.source,
        evidence=evidence,
    )


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
        if line.manager and tells_stop(line.text):
            if any(chain.fatal for chain in exception_chains(lines[:index])):
                return None
            return Cause(ASKED_FOR)
    return None


def _traceback(lines: Sequence[Line], *, certain: bool = False) -> Cause | None:
    """The exception that ended it; `certain`: only what a process died of by itself."""
    chain = choose_chain(exception_chains(lines))
    if chain is None or (certain and not chain.deadly):
        return None
    last, first = chain.raised[-1], chain.raised[0]
    root = f"{first.summary} ({first.location})" if len(chain.raised) > 1 else ""
    return Cause(
        summary=_short(last.summary),
        location=last.location,
        root=_short(root),
        rank=chain.rank,
        evidence=last.evidence,
        chain=chain.shown,
    )


def _said(own: Sequence[Line]) -> Cause | None:
    """A death that no traceback tells: the argument parser's, or the interpreter's."""
    for line in own:
        if found := _SETUP.match(line.text):
            return Cause(_short(found["text"]), evidence=(line.text,))
        if found := _ARGPARSE.match(line.text):
            return Cause(_short(f"argument refused: {found['text']}"), evidence=(line.text,))
        if found := _INTERPRETER.match(line.text):
            return Cause(_short(found["python"] or found["fatal"]), evidence=(line.text,))
    return None


def _killed_child(own: Sequence[Line], kernel: Sequence[Line]) -> Cause | None:
    """A process of the engine that a signal ended, as its parent tells it."""
    child = killed_child(own)
    if child is None:
        return None
    name = f"the engine's {child.name}"
    if child.signal == signal.SIGKILL:
        return Cause(f"{name} {_OUTSIDE}: {_killer(kernel)}", evidence=(child.told,))
    known = signal.Signals(child.signal).name
    return Cause(f"{name} was ended by {known} without a word on why", evidence=(child.told,))


def _lost(parts: Sequence[str], kernel: Sequence[Line]) -> Cause | None:
    """A part that is gone and that the rest of the engine waits for; it can only be killed so."""
    if not parts:
        return None
    return Cause(
        f"the engine's {' and '.join(parts)} {_OUTSIDE}, and the rest of it has not noticed: "
        f"{_killer(kernel)}"
    )


def _complaint(own: Sequence[Line]) -> Cause | None:
    """The last thing that a process complained of before the end."""
    end = own[-1].time if own else 0.0
    causes = [
        line
        for line in own
        if line.stamped
        and line.time >= end - _LAST_SECONDS
        and _COMPLAINT.search(line.message)
        and not CONSEQUENCE.search(line.text)
        and not line.message.startswith("[http_server]")  # a client's mistake
    ]
    if not causes:
        return None
    return Cause(_short(causes[-1].message), rank=causes[-1].rank, evidence=(causes[-1].text,))


def _unit_end(unit: UnitState | None, manager: Sequence[str], kernel: Sequence[Line]) -> Cause:
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
    if unit.result == "signal" and unit.exit_status == signal.SIGKILL:
        return Cause(f"{unit.name} {_OUTSIDE}: {_killer(kernel)}{quiet}")
    return Cause(f"{unit.name} ended ({reason}, {detail}) without a word on why{quiet}")


def _killer(kernel: Sequence[Line]) -> str:
    """What the kernel's log says of a SIGKILL; no process sends it to itself or can log it."""
    if not kernel:
        return "the kernel's log shows no out-of-memory kill (it is empty, or could not be read)"
    if any(_OUT_OF_MEMORY.search(line.text) for line in kernel):
        return "the kernel's log shows an out-of-memory kill"
    return "the kernel's log shows no out-of-memory kill, so somebody or some program did it"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SUMMARY else text[: _MAX_SUMMARY - 1] + "…"
