# SPDX-License-Identifier: Apache-2.0
"""A node whose unit and journal a test sets."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Completed, Follow, Node
from ansible_collections.sm120.sglang.plugins.plugin_utils._tunnel import plain_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import requests


@dataclass
class ScriptedNode(Node):
    """A node whose unit, processes and journal a test sets; commands are noted."""

    state: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    feed: queue.Queue[str | None] = field(default_factory=queue.Queue)
    on_show: Callable[[int], None] = lambda _count: None
    _become: None = None

    def __post_init__(self) -> None:
        self.state = {
            "LoadState": "loaded",
            "ActiveState": "active",
            "SubState": "running",
            "Result": "success",
            "NRestarts": "0",
            "MainPID": "4242",
            "InvocationID": "aa11",
            "ExecMainStatus": "0",
            "InactiveExitTimestamp": "@1795971156",
            **self.state,
        }

    def die(self) -> None:
        """As the real engine dies."""
        self.state |= {"ActiveState": "failed", "SubState": "failed", "Result": "signal"}

    def journal(self, raws: list[str]) -> None:
        """Write lines to the journal and to whoever follows it."""
        self.lines += raws
        for raw in raws:
            self.feed.put(raw)

    def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
        self.commands.append(argv)
        if argv[0] == "systemctl":
            self.on_show(sum(command[0] == "systemctl" for command in self.commands))
            return Completed(0, "".join(f"{k}={v}\n" for k, v in self.state.items()), "")
        if argv[0] == "ps":
            return Completed(0, "".join(f"sglang.service {t}\n" for t in self.titles), "")
        return Completed(0, "\n".join(self.lines), "")

    def _follow(self, argv: list[str], given: str) -> Follow:
        self.commands.append(argv)
        return _Queue(self.feed)

    def http(self) -> requests.Session:
        return plain_session()

    def close(self) -> None:
        """Nothing is open."""


class _Queue(Follow):
    def __init__(self, feed: queue.Queue[str | None]) -> None:
        self._feed = feed

    def __iter__(self) -> Iterator[str]:
        while (raw := self._feed.get()) is not None:
            yield raw

    def close(self) -> None:
        self._feed.put(None)
