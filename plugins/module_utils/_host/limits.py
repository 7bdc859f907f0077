# SPDX-License-Identifier: Apache-2.0
"""Read limits, shared memory, swap, time and file systems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import Tools, read_text
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import parse_show

INFINITY = -1
_UNIT_LIMITS = {
    "LimitMEMLOCK": "memlock",
    "LimitNOFILE": "nofile",
    "LimitSTACK": "stack",
}
_PROCESS_LIMITS = {
    "Max locked memory": "memlock",
    "Max open files": "nofile",
    "Max stack size": "stack",
}


def _limit(text: str) -> int | None:
    if text in ("infinity", "unlimited"):
        return INFINITY
    return int(text) if text.isdigit() else None


def parse_unit_limits(text: str) -> dict[str, int]:
    """Parse `systemctl show UNIT --property=LoadState,Limit...`.

    Args:
        text: Its output.

    Returns:
        `memlock`, `nofile`, `stack` as hard limits in bytes or files, -1 for infinity; nothing
        when no such unit is loaded, for which systemd prints its defaults.
    """
    shown = parse_show(text)
    if shown.get("LoadState") != "loaded":
        return {}
    pairs = ((name, _limit(shown.get(key, ""))) for key, name in _UNIT_LIMITS.items())
    return {name: value for name, value in pairs if value is not None}


def parse_process_limits(text: str) -> dict[str, int]:
    """Parse /proc/PID/limits.

    Args:
        text: Its content.

    Returns:
        The same keys as `parse_unit_limits`, hard limits.
    """
    found = {}
    for line in text.splitlines():
        for label, name in _PROCESS_LIMITS.items():
            words = line.removeprefix(label).split()
            if line.startswith(label) and len(words) >= 2:
                value = _limit(words[1])
                if value is not None:
                    found[name] = value
    return found


def parse_swaps(text: str) -> dict[str, int]:
    """Parse /proc/swaps.

    Args:
        text: Its content: name, type, size, used, priority; sizes in KiB.

    Returns:
        `total` and `used` in bytes.
    """
    rows = [line.split() for line in text.splitlines()[1:]]
    sizes = [(int(row[2]), int(row[3])) for row in rows if len(row) >= 5 and row[2].isdigit()]
    return {
        "total": sum(size for size, _ in sizes) * 1024,
        "used": sum(used for _, used in sizes) * 1024,
    }


def parse_mounts(text: str) -> list[dict[str, str]]:
    """Parse /proc/self/mounts.

    Args:
        text: Its content.

    Returns:
        `path`, `type` and `options` of each mount, in order.
    """
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4:
            # A blank in a path is written as an octal escape.
            path = words[1].replace("\\040", " ")
            found.append({"path": path, "type": words[2], "options": words[3]})
    return found


def file_system_of(path: str, mounts: list[dict[str, str]]) -> str:
    """Type of the file system that holds a path, the longest mount point that fits; "" unknown."""
    kind, length = "", 0
    for mount in mounts:
        point = mount["path"].rstrip("/") + "/"
        if f"{path}/".startswith(point) and len(point) >= length:
            kind, length = mount["type"], len(point)
    return kind


def _size_option(options: str) -> int | None:
    """The size= option of a tmpfs in bytes."""
    for option in options.split(","):
        key, _, value = option.partition("=")
        if key == "size" and value[:-1].isdigit():
            unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(value[-1].lower())
            return int(value[:-1]) * unit if unit else int(value) if value.isdigit() else None
    return None


def read_shm(root: Path, mounts: list[dict[str, str]]) -> dict[str, Any]:
    """Read /dev/shm.

    Args:
        root: Root of the file system; of another one than the running the mount options count.
        mounts: What `parse_mounts` gave.

    Returns:
        `size` and `free` in bytes, None where unknown, and `mounted`.
    """
    mount = next((m for m in reversed(mounts) if m["path"] == "/dev/shm"), None)  # noqa: S108
    if root != Path("/"):
        return {
            "mounted": mount is not None,
            "size": _size_option(mount["options"]) if mount else None,
            "free": None,
        }
    try:
        usage = os.statvfs("/dev/shm")  # noqa: S108 - its size is read
    except OSError:
        return {"mounted": False, "size": None, "free": None}
    return {
        "mounted": mount is not None,
        "size": usage.f_blocks * usage.f_frsize,
        "free": usage.f_bavail * usage.f_frsize,
    }


def read_limits(root: Path, tools: Tools, unit: str) -> dict[str, Any]:
    """Read the limits of the engine's unit and of its running process.

    Args:
        root: Root of the file system.
        tools: The system's tools.
        unit: The engine's unit.

    Returns:
        `state` (`ok` or why systemd did not answer), `unit` and `process`, each empty when there
        is none, and `environment` (what the unit sets, one text).
    """
    properties = ",".join(["LoadState", "MainPID", "Environment", *_UNIT_LIMITS])
    shown = tools.run("systemctl", "show", unit, f"--property={properties}")
    if shown.state != "ok":
        return {"state": shown.said or shown.state, "unit": {}, "process": {}, "environment": ""}
    values = parse_show(shown.text)
    pid = values.get("MainPID", "0")
    process = "" if pid in ("", "0") else read_text(root / "proc" / pid / "limits")
    return {
        "state": "ok",
        "unit": parse_unit_limits(shown.text),
        "process": parse_process_limits(process),
        "environment": values.get("Environment", ""),
    }


def read_time(tools: Tools) -> dict[str, Any]:
    """Whether the clock is synchronised.

    Args:
        tools: The system's tools.

    Returns:
        `state` (`ok`, or why unknown) and `synchronized`.
    """
    shown = tools.run("timedatectl", "show", "--property=NTPSynchronized")
    values = parse_show(shown.text)
    if shown.state != "ok" or "NTPSynchronized" not in values:
        return {"state": shown.said or shown.state, "synchronized": None}
    return {"state": "ok", "synchronized": values["NTPSynchronized"] == "yes"}
