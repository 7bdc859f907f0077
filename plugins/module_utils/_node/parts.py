# SPDX-License-Identifier: Apache-2.0
"""The engine's processes by the names that it gives them, and which of them are gone.

SGLang 0.5.9 does not notice when its scheduler or detokenizer is killed while it serves: the HTTP
server goes on, /model_info answers, and every request waits for ever (found on the lab).
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.sm120.sglang.plugins.module_utils._node.processes import own_places
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import process_unit

PREFIX = "sglang::"
_NEEDED = ("scheduler", "detokenizer")


def gone(titles: Iterable[str]) -> list[str]:
    """Which parts an engine lacks that has opened its port.

    Args:
        titles: Process titles, such as `sglang::scheduler_TP0`.

    Returns:
        Of scheduler and detokenizer those without a process; none where no process has such a
        title: then this release does not name them.
    """
    names = [title.removeprefix(PREFIX) for title in titles if title.startswith(PREFIX)]
    if not names:
        return []
    return [part for part in _NEEDED if not any(name.startswith(part) for name in names)]


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
