# SPDX-License-Identifier: Apache-2.0
"""Processes that cannot be mistaken: who they are, whether they live, how they end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process that cannot be taken for another one.

    A process id is given out again after its process ended, and after a reboot they all are;
    the start time within one boot tells the two apart.
    """

    pid: int
    start_ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Whether that very process still runs (a zombie does not)."""
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to that very process.

        Args:
            number: the signal.

        Returns:
            False when the process is already gone; whoever has its id now is left alone.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # Checked after the descriptor was opened: from here on the id cannot change hands.
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for the end of that very process.

        Args:
            seconds: how long at most.

        Returns:
            True when it has ended.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if self.is_alive():
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(max(0.0, seconds) * 1000)
            return not self.is_alive()
        finally:
            os.close(descriptor)


def boot_id() -> str:
    """The kernel's identifier of the current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def parse_start_ticks(stat: str) -> int | None:
    """Field 22 of `/proc/PID/stat`: start time in clock ticks after boot, see proc(5).

    Args:
        stat: the file's text. The command name in it may hold spaces and brackets.

    Returns:
        The start time, or None for a process that is already dead (state Z or X).
    """
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def start_ticks(pid: int) -> int | None:
    """Start time of a process, or None when there is no such living process."""
    try:
        return parse_start_ticks(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> Process | None:
    """The process that has an id now, or None when nobody has."""
    ticks = start_ticks(pid)
    return None if ticks is None else Process(pid, ticks, boot_id())


def inhabitants(root: Path) -> list[Process]:
    """Processes whose root directory is a given directory: everything inside one node.

    It needs no memory of what was started, so it also finds what a killed supervisor left.
    Root is needed to see the processes of others.

    Args:
        root: root directory of a node; it need not exist.

    Returns:
        The processes, lowest id first (so a node's init before the rest).

    Raises:
        ValueError: asked about this machine's own root directory.
    """
    try:
        wanted = root.stat()
    except (FileNotFoundError, NotADirectoryError):
        return []
    if os.path.samestat(wanted, Path("/").stat()):
        raise ValueError(f"{root} is this machine's own root directory")
    found = []
    for entry in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
        process = identify(entry)
        with contextlib.suppress(OSError):
            if process and os.path.samestat(os.stat(f"/proc/{entry}/root"), wanted):  # noqa: PTH116
                found.append(process)
    return found


def kill_inhabitants(root: Path, seconds: float) -> list[Process]:
    """Cut the power: SIGKILL for every process inside one node.

    Args:
        root: root directory of the node.
        seconds: how long to wait for their end.

    Returns:
        What still lives after that; empty when all is well.
    """
    deadline = time.monotonic() + seconds
    while left := inhabitants(root):
        for process in left:
            process.send(signal.SIGKILL)
        for process in left:
            process.wait(deadline - time.monotonic())
        if time.monotonic() > deadline:
            return inhabitants(root)
    return []
