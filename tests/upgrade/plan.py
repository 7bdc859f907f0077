# SPDX-License-Identifier: Apache-2.0
"""What a play foretold and what it did, read from its output as a person reads it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

_TASK = re.compile(r"^TASK \[(?P<name>.*?)\] \**$", re.MULTILINE)
_CHANGED = re.compile(r"^changed: ", re.MULTILINE)
_BUILT = re.compile(r"engine_release: release (\S+): (?:not on|\d+ file)")
_PRUNED = re.compile(r"prune: release (\S+): ")
_ABOUT = re.compile(r"the engine RESTARTS, about (\d+) s")
PLAN_TASK = "Show the plan"


@dataclass(frozen=True)
class Plan:
    """The plan that a deployment or a rollback prints.

    Attributes:
        lines: Its lines, unfolded.
    """

    lines: tuple[str, ...]

    @property
    def built(self) -> list[str]:
        """Releases that are to be built."""
        return self._all(_BUILT)

    @property
    def pruned(self) -> list[str]:
        """Releases that are to go after the gate."""
        return self._all(_PRUNED)

    @property
    def restarts(self) -> bool:
        """Whether a serving engine is to restart."""
        return any(line.startswith("the engine RESTARTS") for line in self.lines)

    @property
    def downtime(self) -> float | None:
        """Seconds for which the engine is expected to be away; None when nobody knows."""
        found = self._all(_ABOUT)
        return float(found[0]) if found else None

    def _all(self, pattern: re.Pattern[str]) -> list[str]:
        return [match[1] for line in self.lines if (match := pattern.search(line))]


def tasks(output: str) -> list[tuple[str, str]]:
    """The tasks of a play's output, as name and what was printed below it, in order."""
    marks = list(_TASK.finditer(output))
    ends = [mark.start() for mark in marks[1:]] + [len(output)]
    return [
        (mark["name"].rpartition(" : ")[2], output[mark.end() : end].partition("\nPLAY ")[0])
        for mark, end in zip(marks, ends, strict=True)
    ]


def plan(output: str) -> Plan:
    """Read the plan in a play's output.

    Raises:
        ValueError: There is none.
    """
    for name, printed in tasks(output):
        if name == PLAN_TASK:
            shown = yaml.safe_load(printed.partition("=>")[2])
            return Plan(tuple(str(line) for line in shown["msg"]))
    raise ValueError(f"no plan in:\n{output}")


def changed(output: str) -> list[str]:
    """The tasks that changed something on a node, or would."""
    return [name for name, printed in tasks(output) if _CHANGED.search(printed)]
