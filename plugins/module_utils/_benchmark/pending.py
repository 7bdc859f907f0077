# SPDX-License-Identifier: Apache-2.0
"""A benchmark that is not finished, as the node remembers it; `guard` puts back what served."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STATE = Path("/var/lib/sglang/benchmark")
UNIT = "sglang-benchmark-guard.service"
UNITS = Path("/etc/systemd/system")
PENDING, RESTORED = "pending.json", "restored.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class GuardError(RuntimeError):
    """The guard cannot do what is asked; the message says what that means."""


@dataclass(frozen=True)
class Pending:
    """A benchmark that has changed, or is about to change, what serves.

    Attributes:
        original: Digest of the launch to put back; it is recorded.
        launches: Digests of the launches that the benchmark itself brought.
        root: The product's folder.
        unit: The engine's unit.
        user: The engine's user.
        config: The configuration folder.
        started: When it began, seconds since the epoch by the node's clock.
        boot: The machine's start in which the lease counts.
        until: End of the lease, seconds of the node's monotonic clock.
    """

    original: str
    launches: tuple[str, ...]
    root: str
    unit: str
    user: str
    config: str
    started: float
    boot: str = ""
    until: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nobody renews the lease any more."""
        return self.boot != boot() or time.monotonic() >= self.until


def boot() -> str:
    """What identifies this start of the machine."""
    return _BOOT.read_text(encoding="utf-8").strip()


def load(state: Path) -> Pending | None:
    """The benchmark that is guarded now, None without one.

    Raises:
        GuardError: It is not readable.
    """
    try:
        found = json.loads((state / PENDING).read_text(encoding="utf-8"))
        return Pending(**{**found, "launches": tuple(found["launches"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise GuardError(
            f"{state / PENDING} cannot be read ({error}); deploy, then remove it"
        ) from error


def read(state: Path, units: Path = UNITS) -> dict[str, Any]:
    """What a deployment has to know.

    Returns:
        `pending` (`Pending`, empty without a benchmark that is not finished), and `restored`
        (`at`, `launch`, `why`), what the guard did last by itself; and `unit`, whether the guard's
        unit is there.
    """
    pending = load(state)
    return {
        "pending": asdict(pending) if pending is not None else {},
        "restored": _read(state / RESTORED),
        "unit": (units / UNIT).exists(),
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
