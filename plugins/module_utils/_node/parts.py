# SPDX-License-Identifier: Apache-2.0
"""The engine's processes by the names that it gives them, and which of them are gone.

SGLang 0.5.9 does not notice when its scheduler or detokenizer is killed while it serves: the HTTP
server goes on, /model_info answers, and every request waits for ever (found on the lab).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.sm120.sglang.plugins.module_utils._node.processes import own_places
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import process_unit

PREFIX = "sglang::"
_NEEDED = ("scheduler", "detokenizer")
_RANK = re.compile(r"_TP(\d+)")


def gone(titles: Iterable[str], rank: int = 0, ranks: int = 0) -> list[str]:
    """Which parts an engine lacks that has opened its port.

    Args:
        titles: Process titles, such as `sglang::scheduler_TP0`.
        rank: The node's, where several nodes are one engine: the first alone has a detokenizer
            (0.5.9 srt/entrypoints/engine.py:1040).
        ranks: Tensor-parallel ranks on this node (`rank_count`); 0 where that is not known.

    Returns:
        Of scheduler and detokenizer those without a process, else the schedulers of single ranks;
        none where no process has such a title: then this release does not name them. Where the
        number of ranks is not known, one that is missing between others is still seen.
    """
    names = [title.removeprefix(PREFIX) for title in titles if title.startswith(PREFIX)]
    if not names:
        return []
    needed = _NEEDED[:1] if rank else _NEEDED
    lost = [part for part in needed if not any(name.startswith(part) for name in names)]
    return lost or _missing_ranks(names, ranks)


def _missing_ranks(names: Iterable[str], ranks: int) -> list[str]:
    """`setproctitle` in `run_scheduler_process` names them _TP0, _TP1 (0.5.9 to 0.5.23)."""
    schedulers = [name for name in names if name.startswith(_NEEDED[0])]
    there = {int(found[1]) for name in schedulers if (found := _RANK.search(name))}
    if not there:
        return []
    numbered = max(there) < ranks  # else the release counts in another way
    wanted = range(ranks) if numbered else range(min(there), max(there) + 1)
    return [f"{_NEEDED[0]}_TP{rank}" for rank in wanted if rank not in there]


def rank_count(tensor_parallel: str, nodes: str = "1") -> int:
    """How many tensor-parallel ranks have a scheduler of their own name on this node.

    Args:
        tensor_parallel: The value of `--tp-size`, empty without one.
        nodes: That of `--nnodes`.

    Returns:
        The number; 0 for one rank, whose scheduler has no number, and where several nodes are one
        engine: which ranks a node then has is left to those that are there.
    """
    if nodes not in ("", "1") or not tensor_parallel.isdigit():
        return 0
    number = int(tensor_parallel)
    return number if number > 1 else 0


def node_rank(arguments: Mapping[str, str]) -> int:
    """The rank among its engine's nodes that a launch has (`--node-rank`), 0 where it has none.

    Args:
        arguments: Flag to its values, as `_changes.Settings` has them.
    """
    text = arguments.get("--node-rank", "")
    return int(text) if text.isdigit() else 0


def ended(seen: Iterable[str], now: Iterable[str]) -> list[str]:
    """Which parts of an engine were there during its start and are not any more.

    Of several schedulers one is enough: its rank has a name of its own, and the others wait for it.

    Args:
        seen: Process titles of this start so far.
        now: Those of its processes now.

    Returns:
        Names such as `detokenizer` or `scheduler_TP3`, sorted.
    """
    names = {title.removeprefix(PREFIX) for title in {*seen} - {*now}}
    return sorted(name for name in names if name.startswith(_NEEDED))


UP_SECONDS = 30.0
"""After the port opened; scheduler and detokenizer have their titles long before that."""


class Roll:
    """Calls the roll of an engine's parts during its start, look by look.

    The rest of the engine waits for ever for a part that ended without the launcher noticing. One
    that it notices takes a moment to end it all: hence the second look.

    Attributes:
        missed: What was missing at the last look.
    """

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._seen: set[str] = set()
        self.missed: list[str] = []

    def look(self, titles: Iterable[str], up_for: float) -> list[str]:
        """Which parts are gone for good.

        Args:
            titles: Process titles now.
            up_for: Seconds since the port opened, 0 while it is closed.

        Returns:
            Names as `ended` gives them, those that were missing at the last look too. What was
            never seen counts `UP_SECONDS` after the port opened.
        """
        now = list(titles)
        missing = ended(self._seen, now) or (gone(now, self._rank) if up_for >= UP_SECONDS else [])
        lost = [name for name in missing if name in self.missed]
        self._seen.update(now)
        self.missed = missing
        return lost


def of_listing(text: str, unit: str) -> list[str]:
    """Titles of a unit's processes from what `LIST` printed, on a node that runs no module."""
    rows = [words for line in text.splitlines() if len(words := line.split(maxsplit=2)) > 1]
    return sorted(row[1] for row in rows if row[0] == unit and row[1].startswith(PREFIX))


LIST = ("ps", "-e", "-o", "unit:128=,args=")
"""Prints unit and command line of every process; procps of every systemd host knows units."""


def read(unit: str) -> list[str]:
    """Titles of the engine's processes in a unit of this system, not of a container's."""
    found = []
    for place in own_places():
        try:
            title = (place / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            if not title.startswith(PREFIX):
                continue
            if process_unit((place / "cgroup").read_text(encoding="utf-8")) == unit:
                found.append(title.split()[0])
        except OSError:
            continue  # it ended meanwhile
    return sorted(found)
