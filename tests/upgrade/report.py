# SPDX-License-Identifier: Apache-2.0
"""The figures of a path, step by step, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.upgrade.records import Account, Outcome, Switch


@dataclass(frozen=True)
class Step:
    """One step that was taken; times in seconds.

    Attributes:
        name: The step.
        before: The release that served.
        after: The release that serves.
        expected: The downtime that the plan foretold; None when it foretold none.
        start: The new engine's own start to ready.
        play: How long the play took.
        switch: When the engines changed places.
        account: What the clients met.
    """

    name: str
    before: str
    after: str
    expected: float | None
    start: float
    play: float
    switch: Switch
    account: Account


_SHOWN = [outcome for outcome in Outcome if outcome is not Outcome.ANSWERED]
_HEADER = (
    "step",
    "to",
    "play",
    "drain",
    "own start",
    "foretold",
    "downtime",
    "old",
    "drained",
    "new",
    *(outcome.value for outcome in _SHOWN),
    "slowest no",
)


def _cells(step: Step) -> list[str]:
    seen = step.account
    expected = "-" if step.expected is None else f"{step.expected:.0f} s"
    downtime = "-" if seen.downtime is None else f"{seen.downtime:.0f} s"
    return [
        step.name,
        step.after.rpartition("-")[0],
        f"{step.play:.0f} s",
        f"{step.switch.drain:.1f} s",
        f"{step.start:.0f} s",
        expected,
        downtime,
        str(seen.old),
        str(seen.drained),
        str(seen.new),
        *(str(seen.outcomes[outcome.value]) for outcome in _SHOWN),
        f"{seen.slowest_refusal:.2f} s",
    ]


class Report:
    """Collects steps; figures go to `steps.jsonl` in a folder, each one's plays to a file there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[Step] = []

    def keep(self, name: str, output: str) -> None:
        """Keep what the plays of the next step said."""
        path = self.folder / f"{len(self.steps) + 1}-{name.replace(':', '-')}.log"
        path.write_text(output, encoding="utf-8")

    def add(self, step: Step) -> None:
        """Take a step in, and write it down."""
        self.steps.append(step)
        with (self.folder / "steps.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(step)) + "\n")

    def table(self) -> str:
        """All steps as a Markdown table."""
        rows = [list(_HEADER), ["---"] * len(_HEADER), *map(_cells, self.steps)]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
