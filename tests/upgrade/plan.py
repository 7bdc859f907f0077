# SPDX-License-Identifier: Apache-2.0
"""What a play foretold and what it did, read from its output as a person reads it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

_TASK = re.compile(r"^TASK \[(?P<name>.*?)\] \**$", re.MULTILINE)
_CHANGED = re.compile(r"^changed: ", re.MULTILINE)
_BUILT = re.compile(r"engine_release: release (\S+): (?:not on|\d+ file)")
_PRUNED = re.compile(r"prune: release (\S+): ")
_ABOUT = re.compile(r"the engine RESTARTS, about (\d+) s")
_PATCH = re.compile(
    r"patch (?P<id>\w+): (?P<decided>\w+(?: \(edited\))?: .*?)(?:[.] Its limit: .*)?$"
)
PLAN_TASK = "Show the plan"
REMOVED_TASK = "Say what was removed"
PATCHES_TASK = "Show what was decided for each patch"


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

    @property
    def patches(self) -> dict[str, str]:
        """Each patch of a release that is to be built, and what is to be decided for it."""
        found = [match for line in self.lines if (match := _PATCH.match(line))]
        return {match["id"]: match["decided"] for match in found}

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
    shown = _shown(output, PLAN_TASK)
    if shown is None:
        raise ValueError(f"no plan in:\n{output}")
    return Plan(tuple(str(line) for line in shown))


def patches(output: str) -> dict[str, str]:
    """What a play decided for each patch; empty where it built no release."""
    return dict(_shown(output, PATCHES_TASK) or {})


def removed(output: str) -> list[str]:
    """The folders, wheels and records that a play removed with old releases, or would."""
    return list(_shown(output, REMOVED_TASK) or [])


def _shown(output: str, task: str) -> Any:
    for name, printed in tasks(output):
        if name == task and "=>" in printed:
            return yaml.safe_load(printed.partition("=>")[2])["msg"]
    return None


def changed(output: str) -> list[str]:
    """The tasks that changed something on a node, or would."""
    return [name for name, printed in tasks(output) if _CHANGED.search(printed)]
