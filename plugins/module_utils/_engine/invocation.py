# SPDX-License-Identifier: Apache-2.0
"""One start of the unit in the journal: how to read it, which was before it, and when it was.

systemd gives each start an invocation ID, which the journal has with what the start's processes
write and with what systemd says of them (systemd.exec(5), systemd.journal-fields(7)).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line

_BASE = ("-q", "--no-pager", "-o", "json", "-n")
_MANAGER_LINES = 100  # about six of them tell a start and its death
_BEFORE_DEATH = 900.0
_AFTER_DEATH = 5.0  # systemd starts a dead engine again after 15 s

Span = tuple[float, float]
"""Seconds since the epoch, from and to."""


def selection(invocation: str, lines: int) -> list[str]:
    """Arguments of `journalctl` for one start's own lines and systemd's.

    By invocation, not by time: a clock that jumps does not matter, nor do earlier starts.

    Args:
        invocation: The start's ID.
        lines: At most so many, the last ones.
    """
    own = f"_SYSTEMD_INVOCATION_ID={invocation}"
    return [*_BASE, str(lines), own, "+", "_PID=1", f"INVOCATION_ID={invocation}"]


def tells_stop(text: str) -> bool:
    """Whether what systemd said of a start is that it was asked to stop it."""
    return text.startswith("Stopping ")


def stop_selection(invocation: str) -> list[str]:
    """Arguments of `journalctl` for the plain text of what systemd said of one start."""
    chosen = ["_PID=1", f"INVOCATION_ID={invocation}"]
    return ["-q", "--no-pager", "-o", "cat", "-n", str(_MANAGER_LINES), *chosen]


def manager_selection(unit: str) -> list[str]:
    """Arguments of `journalctl` for what systemd said of a unit's last starts."""
    return [*_BASE, str(_MANAGER_LINES), "_PID=1", f"UNIT={unit}"]


def before(raws: Iterable[str], current: str) -> str:
    """The start before one, by what `manager_selection` printed; empty where it is not told."""
    found = ""
    for raw in raws:
        try:
            entry = json.loads(raw)
        except ValueError:
            continue
        one = entry.get("INVOCATION_ID") if isinstance(entry, dict) else None
        if one == current:
            break
        if isinstance(one, str) and one:
            found = one
    return found


def of_death(lines: Sequence[Line], started: float = 0.0) -> Span | None:
    """In which time the kernel's log has to do with a death.

    From its start, but no earlier than a quarter of an hour before its end: an engine that has
    served for a week did not die of what the kernel said on its first day. The collectives' own
    time limits, the longest way from a lost card to a death, are of 5 to 10 minutes.

    Args:
        lines: What the journal has of it, systemd's last word included.
        started: When it was started, 0 if unknown: of a long start the journal's end alone is read.

    Returns:
        None where neither is known: then nothing in the kernel's log can be told to be of it.
    """
    times = [line.time for line in lines if line.time]
    if times:
        begun = min(*times, started or math.inf)
        return max(begun, max(times) - _BEFORE_DEATH), max(times) + _AFTER_DEATH
    return (started, started + _BEFORE_DEATH) if started else None


def of_life(lines: Sequence[Line], started: float = 0.0) -> Span | None:
    """The same for an engine that runs and does not answer: all of its time, with no end.

    Nobody knows since when it hangs.
    """
    begun = started or min((line.time for line in lines if line.time), default=0.0)
    return (begun, math.inf) if begun else None


def kernel_selection(span: Span, lines: int) -> list[str]:
    """Arguments of `journalctl` for the kernel's log of the whole seconds around a span."""
    bounds = [f"--since=@{math.floor(span[0])}"]
    if math.isfinite(span[1]):
        bounds.append(f"--until=@{math.ceil(span[1])}")
    return ["-k", *_BASE, str(lines), *bounds]


def within(kernel: Iterable[Line], span: Span | None) -> list[Line]:
    """Those lines of the kernel's log that are of a span."""
    if span is None:
        return []
    return [line for line in kernel if span[0] <= line.time <= span[1]]
