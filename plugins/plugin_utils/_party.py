# SPDX-License-Identifier: Apache-2.0
"""What the waits for the nodes of one engine tell each other, on the controller.

Each node's wait is a process of its own. One that sees its node's engine dead says so in a file of
this run's own folder; the others look there, and need not wait for an engine that cannot come up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Party:
    """The nodes of one engine that are waited for at the same time.

    Attributes:
        folder: Of this run and task alone; made by who speaks first.
        me: This node.
        others: The other ones.
    """

    folder: Path
    me: str
    others: Sequence[str] = ()

    def failed(self, message: str) -> None:
        """Tell the others that this node's engine is dead, and why."""
        if not self.others:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{self.me}"
        temporary.write_text(message, encoding="utf-8")
        temporary.replace(self.folder / self.me)

    def lost(self) -> tuple[str, str]:
        """Another node that failed, and what it said; two empty texts while there is none."""
        spoke = [name for name in self.others if (self.folder / name).is_file()]
        if not spoke:
            return "", ""
        return spoke[0], (self.folder / spoke[0]).read_text(encoding="utf-8")
