# SPDX-License-Identifier: Apache-2.0
"""A control group per node, on machines without systemd as their init.

There systemd-nspawn runs with --keep-unit and puts the node into `payload` below the group that
it was started in. Two nodes started from one group would share that `payload`, and each
systemd would take the other's processes for its own.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from lab.state import LabError


def booted_with_systemd() -> bool:
    """Whether this machine's init is systemd, as sd_booted(3) decides it."""
    return Path("/run/systemd/system").is_dir()


def hierarchies(mountinfo: str, own: str) -> list[Path]:
    """Directories of a process's own group in the hierarchies that systemd manages.

    Those are the unified one and the version 1 hierarchy named `systemd`.

    Args:
        mountinfo: text of `/proc/PID/mountinfo`.
        own: text of `/proc/PID/cgroup`.

    Returns:
        One directory per hierarchy that is mounted; empty when there is none.
    """
    groups = {}
    for line in own.splitlines():
        number, names, group = line.split(":", 2)
        if names == "name=systemd" or number == "0":
            groups[names] = group
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(maxsplit=2)
        names = "" if kind == "cgroup2" else "name=systemd"
        version_1 = kind == "cgroup" and "name=systemd" in options.split(",")
        if names in groups and (kind == "cgroup2" or version_1):
            _, _, _, root, point, *_ = before.split()
            inside = groups[names].removeprefix("" if root == "/" else root)
            found.append(Path(point) / inside.lstrip("/"))
    return found


def own_groups() -> list[Path]:
    """The group directories of this process."""
    return hierarchies(
        Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"),
        Path("/proc/self/cgroup").read_text(encoding="utf-8"),
    )


def enter(group: str, parents: list[Path]) -> None:
    """Move this process into a group of its own.

    Args:
        group: name of the group, made when missing.
        parents: directories to make it in.
    """
    for parent in parents:
        directory = parent / group
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def remove(group: str, seconds: float) -> None:
    """Remove a node's group wherever it was made, once its processes are gone.

    Args:
        group: name of the group.
        seconds: how long to wait for the kernel to let go of it.

    Raises:
        LabError: it is still in use.
    """
    deadline = time.monotonic() + seconds
    while left := [top for top in _places(group) if not _remove_tree(top)]:
        if time.monotonic() > deadline:
            raise LabError(f"control group still in use: {', '.join(map(str, left))}")
        time.sleep(0.02)


def _places(group: str) -> list[Path]:
    """Where a group of that name exists; it was made by a process whose group may differ."""
    found = []
    for mount in (
        Path("/sys/fs/cgroup"),
        Path("/sys/fs/cgroup/unified"),
        Path("/sys/fs/cgroup/systemd"),
    ):
        if (mount / "cgroup.procs").exists():
            for directory, names, _ in os.walk(mount):
                if group in names:
                    found.append(Path(directory) / group)
                    names.remove(group)
    return found


def _remove_tree(top: Path) -> bool:
    """Remove a group and those below it; a group directory holds only kernel files."""
    for directory, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106
    return not top.exists()
