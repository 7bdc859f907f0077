# SPDX-License-Identifier: Apache-2.0
"""Reads a unit's state, its journal and the kernel's log on a node, and explains a death."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import (
    Cause,
    find_cause,
    find_suspect,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.invocation import (
    Span,
    before,
    kernel_selection,
    manager_selection,
    of_death,
    of_life,
    selection,
    within,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line, parse_lines
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import (
    PROPERTIES,
    UnitState,
    ended,
    parse_show,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import parts
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import Signature
    from ansible_collections.sm120.sglang.plugins.plugin_utils._node import Completed, Follow, Node

_COMMAND_TIMEOUT = 15.0
_JOURNAL_LINES = 5000
"""Enough for a start with many ranks; an engine that has served for weeks has far more."""
_SHORT_LINES = 400
_KERNEL_LINES = 400


class UnitReader:
    """Reads a unit's state and journal on a node.

    `release` is the SGLang release that runs there, empty where unknown.

    Attributes:
        unit: The unit's name.
    """

    def __init__(self, node: Node, unit: str, release: str = "") -> None:
        self._node = node
        self.unit = unit
        self._release = release

    def state(self) -> UnitState:
        """The unit now; raises NodeError when systemd does not answer."""
        command = ["systemctl", "show", "--timestamp=unix", "-p", ",".join(PROPERTIES), self.unit]
        done = self._node.run(command, timeout=_COMMAND_TIMEOUT)
        try:
            return parse_show(self.unit, done.out)
        except ValueError as error:
            raise NodeError(
                f"{error}; {done.err.strip() or f'exit status {done.status}'}"
            ) from None

    def journal(self, invocation: str, *, short: bool = False) -> list[Line]:
        """Everything that one invocation left in the journal, up to a limit; or its end alone."""
        # What the dead processes wrote may still be on its way into the journal.
        self._node.run(["journalctl", "--sync"], timeout=_COMMAND_TIMEOUT, root=True)
        lines = _SHORT_LINES if short else _JOURNAL_LINES
        return parse_lines(self._journalctl(selection(invocation, lines)).out.splitlines())

    def kernel(self, span: Span | None) -> list[Line]:
        """The kernel's log of a span; empty where it may not be read."""
        if span is None:
            return []
        done = self._journalctl(kernel_selection(span, _KERNEL_LINES))
        return within(parse_lines(done.out.splitlines()), span) if done.status == 0 else []

    def _journalctl(self, arguments: Sequence[str]) -> Completed:
        return self._node.run(["journalctl", *arguments], timeout=_COMMAND_TIMEOUT, root=True)

    def titles(self) -> list[str] | None:
        """Titles of the unit's processes now; None where they cannot be read."""
        done = self._node.run(list(parts.LIST), timeout=_COMMAND_TIMEOUT)
        return parts.of_listing(done.out, self.unit) if done.status == 0 else None

    def explain(
        self,
        invocation: str,
        state: UnitState,
        remedies: Sequence[Signature] = (),
        lost: Sequence[str] = (),
    ) -> tuple[Cause, list[Line]]:
        """Why one invocation died, and its journal; `state` is the unit's state afterwards.

        `lost` are parts that ended while the unit goes on.
        """
        lines = self.journal(invocation) if invocation else []
        same = state if state.invocation_id == invocation else None
        started = same.started if same else 0.0
        span = of_life(lines, started) if lost else of_death(lines, started)
        kernel = self.kernel(span) if invocation else []
        unit = same or ended(self.unit, lines)
        cause = find_cause(lines, unit, remedies, kernel=kernel, release=self._release, lost=lost)
        return cause, lines

    def explain_before(self, state: UnitState, remedies: Sequence[Signature] = ()) -> Cause | None:
        """Why the start before the present one died; None where the journal does not have it."""
        told = self._journalctl(manager_selection(self.unit)).out.splitlines()
        invocation = before(told, state.invocation_id)
        return self.explain(invocation, state, remedies)[0] if invocation else None

    def suspect(self, lines: Sequence[Line], state: UnitState) -> Cause | None:
        """The known fault that a running engine's journal and the kernel's log tell, if any."""
        return find_suspect(lines, self.kernel(of_life(lines, state.started)), self._release)

    def follow(self, invocation: str) -> Follow:
        """Follow the journal of one invocation."""
        return self._node.follow(
            ["journalctl", "-f", *selection(invocation, _JOURNAL_LINES)], root=True
        )
