# SPDX-License-Identifier: Apache-2.0
"""What the engine's launcher tells of a process of its own that a signal ended."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line

# SGLang 0.5.9 entrypoints/engine.py:897, in two lines.
_DEAD = re.compile(r"Rank (?P<rank>\d+) scheduler is dead\.")
_CODE = re.compile(r"^Exit code: (?P<code>-?\d+)$")
# SGLang 0.5.10 to 0.5.23: entrypoints/engine.py, _scheduler_died_error; utils/watchdog.py,
# SubprocessWatchdog, which names its processes scheduler_0, detokenizer and so on.
_DIED = re.compile(
    r"Rank (?P<rank>\d+) scheduler died during initialization \(exit code: (?P<code>-?\d+)\)"
)
_WATCHED = re.compile(
    r"Subprocess (?P<name>\S+) \(pid=\d+\) crashed with exit code (?P<code>-?\d+)"
)
# What the engine sends to its own processes while it ends: never why it ends.
_OWN = {signal.SIGQUIT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True)
class Child:
    """A process that a signal ended: its name, the signal's number, and who told it how."""

    name: str
    signal: int
    told: str


def killed_child(lines: Sequence[Line]) -> Child | None:
    """The first process of the engine that it calls dead by a signal that it did not send itself.

    Args:
        lines: The engine's own lines of the journal, oldest first.
    """
    rank: dict[int, str] = {}
    for line in lines:
        text = line.message
        if found := _DEAD.search(text):
            rank[line.pid] = found["rank"]
        elif line.pid in rank and (found := _CODE.search(text)):
            if child := _child(f"scheduler of rank {rank.pop(line.pid)}", found["code"], line):
                return child
        elif found := _DIED.search(text):
            if child := _child(f"scheduler of rank {found['rank']}", found["code"], line):
                return child
        elif (found := _WATCHED.search(text)) and (
            child := _child(found["name"], found["code"], line)
        ):
            return child
    return None


def _child(name: str, code: str, line: Line) -> Child | None:
    number = -int(code)
    if number not in set(signal.Signals) - _OWN:
        return None
    return Child(name, number, line.text)
