# SPDX-License-Identifier: Apache-2.0
"""The engine's unit, its process and the node's listening ports."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine import invocation

LAUNCH_DIGEST = "SGLANG_DEPLOY_LAUNCH"

_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "UnitFileState",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "MainPID",
    "NRestarts",
    "InvocationID",
    "ActiveEnterTimestamp",
)
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def parse_show(text: str) -> dict[str, str]:
    """Parse `systemctl show`: `Key=value` lines."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value for key, separator, value in pairs if separator}


def parse_environ(content: bytes) -> dict[str, str]:
    """Parse /proc/PID/environ: NUL-separated `KEY=value`."""
    pairs = (entry.partition(b"=") for entry in content.split(b"\0"))
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, _, value in pairs
        if key
    }


def parse_listeners(text: str) -> list[dict[str, Any]]:
    """Parse /proc/net/tcp or tcp6.

    Args:
        text: Its content.

    Returns:
        For each listening socket `address`, `port` and `inode`.
    """
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        address, _, port = fields[1].partition(":")
        found.append({"address": _address(address), "port": int(port, 16), "inode": fields[9]})
    return found


def _address(text: str) -> str:
    # The kernel prints 32-bit words in the machine's byte order: little endian here.
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    return _plain(ipaddress.ip_address(b"".join(words)))


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def covers(listener: str, wanted: str) -> bool:
    """Whether a listener on one address keeps another process from binding the wanted one.

    Args:
        listener: An address as `parse_listeners` gives it.
        wanted: An address in any spelling; a host name is only compared.

    Returns:
        True for the same address, and where either is all addresses (one of IPv6 takes IPv4 too,
        unless the program asks otherwise).
    """
    with contextlib.suppress(ValueError):
        wanted = _plain(ipaddress.ip_address(wanted))
    everything = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    return listener == wanted or bool({listener, wanted} & everything)


def _owners(inodes: Iterable[str]) -> dict[str, int]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, int] = {}
    # Thousands of descriptors: plain strings are several times faster than paths.
    for process in os.listdir("/proc") if wanted else ():  # noqa: PTH208
        if not process.isdigit() or len(found) == len(wanted):
            continue
        for link in _descriptors(f"/proc/{process}/fd"):
            if link in wanted:
                found[wanted[link]] = int(process)
    return found


def _descriptors(folder: str) -> Iterator[str]:
    try:
        entries = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return  # the process ended
    for entry in entries:
        # A busy process closes descriptors while they are read; the others still count.
        with contextlib.suppress(OSError):
            yield os.readlink(f"{folder}/{entry}")  # noqa: PTH115


def process_unit(cgroup: str) -> str:
    """The unit in /proc/PID/cgroup's content, empty without one."""
    for line in cgroup.splitlines():
        # Number, controllers and path; a path may hold colons of its own.
        for part in reversed(line.split(":", 2)[-1].split("/")):
            if part.endswith((".service", ".scope")):
                return part
    return ""


def read_ports(ports: Iterable[int]) -> list[dict[str, Any]]:
    """Who listens on ports.

    Args:
        ports: The ports that matter.

    Returns:
        For each listener `address`, `port`, and `pid`, `command`, `unit` where they can be seen
        (a process of another container cannot).
    """
    wanted = set(ports)
    found: list[dict[str, Any]] = []
    for name in ("tcp", "tcp6"):
        place = Path("/proc/net") / name
        if place.exists():
            found += [e for e in parse_listeners(place.read_text("ascii")) if e["port"] in wanted]
    owners = _owners(entry["inode"] for entry in found)
    for entry in found:
        pid = owners.get(entry.pop("inode"))
        entry.update({"pid": pid, "command": "", "unit": ""})
        if pid is not None:
            entry["command"] = _read(f"/proc/{pid}/comm").strip()
            entry["unit"] = process_unit(_read(f"/proc/{pid}/cgroup"))
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _started_at(pid: int) -> float:
    """When a process started, seconds since the epoch by the present clock; 0.0 if it ended."""
    try:
        ticks = int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
        boot = next(line for line in _read("/proc/stat").splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (IndexError, ValueError, StopIteration):
        return 0.0


def read_unit(unit: str) -> dict[str, Any]:
    """The unit's state and what its process was started with.

    Args:
        unit: The unit's name.

    Returns:
        `name`; systemd's properties in snake case (numbers as numbers); `started_at`, when its
        process started (seconds since the epoch, 0.0 without one); and `launch`, the digest in the
        running process's own environment (empty when it does not run or was not started by us).
    """
    done = subprocess.run(
        ["systemctl", "show", unit, f"--property={','.join(_PROPERTIES)}"],
        capture_output=True,
        text=True,
        check=False,
    )
    shown = parse_show(done.stdout)
    pid = int(shown.get("MainPID") or 0)
    launch = ""
    if pid:
        try:
            launch = parse_environ(Path(f"/proc/{pid}/environ").read_bytes()).get(LAUNCH_DIGEST, "")
        except OSError:
            launch = ""
    return {
        "name": unit,
        "load_state": shown.get("LoadState", "not-found"),
        "active_state": shown.get("ActiveState", "inactive"),
        "sub_state": shown.get("SubState", "dead"),
        "result": shown.get("Result", ""),
        "unit_file_state": shown.get("UnitFileState", ""),
        "fragment_path": shown.get("FragmentPath", ""),
        "drop_ins": shown.get("DropInPaths", "").split(),
        "need_reload": shown.get("NeedDaemonReload") == "yes",
        "main_pid": pid,
        "restarts": int(shown.get("NRestarts") or 0),
        "invocation_id": shown.get("InvocationID", ""),
        "active_since": shown.get("ActiveEnterTimestamp", ""),
        "started_at": _started_at(pid) if pid else 0.0,
        "launch": launch,
    }


def stop_asked(unit: Mapping[str, Any]) -> bool:
    """Whether a unit is failed though systemd was asked to stop it, by the journal of that start.

    Args:
        unit: As `read_unit` returns it.
    """
    if unit["active_state"] != "failed" or not unit["invocation_id"]:
        return False
    words = invocation.stop_selection(unit["invocation_id"])
    done = subprocess.run(["journalctl", *words], capture_output=True, text=True, check=False)
    return any(map(invocation.tells_stop, done.stdout.splitlines()))


def running(unit: str) -> bool:
    """Whether systemd runs the unit, or is about to."""
    done = subprocess.run(
        ["systemctl", "show", unit, "--property=ActiveState", "--value"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() not in ("inactive", "failed", "")


def settled(unit: str) -> bool:
    """Whether systemd has carried out what was asked of the unit: it runs, or could not."""
    done = subprocess.run(
        ["systemctl", "show", unit, "--property=ActiveState,SubState,Job"],
        capture_output=True,
        text=True,
        check=False,
    )
    shown = parse_show(done.stdout)
    return shown.get("SubState") == "auto-restart" or (
        shown.get("ActiveState") in ("active", "inactive", "failed") and not shown.get("Job")
    )


def unread(unit: str) -> bool:
    """Whether the unit changed on disk since systemd read it."""
    done = subprocess.run(
        ["systemctl", "show", unit, "--property=NeedDaemonReload", "--value"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() == "yes"


def enabled(unit: str) -> bool:
    """Whether the unit starts at boot."""
    done = subprocess.run(
        ["systemctl", "is-enabled", unit], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() == "enabled"
