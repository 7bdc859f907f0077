# SPDX-License-Identifier: Apache-2.0
"""What `systemctl show` says about the engine's unit, and what that means for its start."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line

PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "MainPID",
    "InvocationID",
    "ExecMainStatus",
    "InactiveExitTimestamp",
)
"""What is read, all of it in one call; `--timestamp=unix` (systemd 248) makes times numbers."""

# Said by systemd 248 to 257 of a service that ended.
_EXITED = re.compile(r": Main process exited, code=\w+, status=(?P<status>\d+)/")
_RESULT = re.compile(r": Failed with result '(?P<result>[\w-]+)'")


@dataclass(frozen=True)
class UnitState:
    """A unit at one moment; `started` is in seconds since the epoch, 0.0 when never."""

    name: str
    load_state: str = ""
    active: str = ""
    sub: str = ""
    result: str = ""
    restarts: int = 0
    main_pid: int = 0
    invocation_id: str = ""
    exit_status: int = 0
    started: float = 0.0

    @property
    def never_started(self) -> bool:
        """Loaded, but not started since the machine came up."""
        return self.load_state == "loaded" and self.active == "inactive" and not self.invocation_id

    @property
    def running(self) -> bool:
        """Whether a process of it runs, or is about to for the first time."""
        return self.active in ("active", "reloading", "activating") and not self.sub.startswith(
            "auto-restart"
        )


def parse_show(name: str, text: str) -> UnitState:
    """Read the output of `systemctl show --timestamp=unix -p ...` (lines `Key=value`).

    Raises:
        ValueError: the text holds no ActiveState, so it is not that output.
    """
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if not values.get("ActiveState"):
        raise ValueError(f"systemctl says nothing about {name}: {text.strip()[:200]!r}")
    return UnitState(
        name=name,
        load_state=values.get("LoadState", ""),
        active=values["ActiveState"],
        sub=values.get("SubState", ""),
        result=values.get("Result", ""),
        restarts=_number(values.get("NRestarts")),
        main_pid=_number(values.get("MainPID")),
        invocation_id=values.get("InvocationID", ""),
        exit_status=_number(values.get("ExecMainStatus")),
        started=_seconds(values.get("InactiveExitTimestamp", "")),
    )


def ended(name: str, lines: Iterable[Line]) -> UnitState | None:
    """How a start ended that is not the unit's last, by what systemd wrote of it.

    Args:
        name: The unit's.
        lines: The start's journal, oldest first.

    Returns:
        The unit as it was then; None where the journal does not have its end.
    """
    status = result = ""
    for line in lines:
        if line.manager and (found := _EXITED.search(line.text)):
            status = found["status"]
        elif line.manager and (found := _RESULT.search(line.text)):
            result = found["result"]
    if not result:
        return None
    return UnitState(name, "loaded", "failed", "failed", result, exit_status=_number(status))


def died(first: UnitState, now: UnitState) -> str | None:
    """Why the start that `first` saw is over, or None while it goes on.

    A unit that systemd restarts is dead too: what runs now is another start.
    """
    if not now.running:
        return f"the unit is {now.active} ({now.sub})"
    if now.restarts > first.restarts:
        return f"systemd restarted it (restart {now.restarts})"
    if first.invocation_id and now.invocation_id != first.invocation_id:
        return "somebody restarted it"
    return None


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0


def _seconds(value: str) -> float:
    try:
        return float(value.removeprefix("@"))
    except ValueError:
        return 0.0
