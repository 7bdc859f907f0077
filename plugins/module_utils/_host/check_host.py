# SPDX-License-Identifier: Apache-2.0
"""Check what the engine needs of the host beside its cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import (
    FOUND,
    OK,
    UNKNOWN,
    Finding,
    found,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.limits import INFINITY

GIB = 1 << 30
_STACK = 64 << 20
_ULIMITS = {"memlock": "memlock=-1", "nofile": "nofile=1048576", "stack": "stack=67108864"}


def check_host(host: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge limits, memory, clock, file systems and loader.

    Args:
        host: The reading.
        wanted: `gpus`, `shm` (bytes), `nofile` (files).

    Yields:
        Findings.
    """
    if not host["privileged"]:
        yield Finding("privileges", UNKNOWN, "not root", "run as root, or with become")
    yield _shm(host["shm"], wanted["shm"])
    yield _memlock(host["limits"])
    yield _nofile(host["limits"], host["kernel"]["nr_open"], wanted["nofile"])
    yield _stack(host["limits"])
    swap = host["swap"]
    used = f"{swap['used'] / GIB:.1f} of {swap['total'] / GIB:.1f} GiB in use"
    yield Finding("swap", FOUND if swap["used"] > GIB else OK, used if swap["total"] else "none")
    clock = host["time"]
    if clock["synchronized"] is None:
        yield Finding("time_sync", UNKNOWN, f"timedatectl: {clock['state']}")
    else:
        text = "synchronised" if clock["synchronized"] else "not synchronised"
        yield Finding("time_sync", OK if clock["synchronized"] else FOUND, text)
    pages = host["kernel"]["hugepages"]
    yield Finding(
        "hugepages",
        OK,
        f"transparent: {pages['transparent'] or 'unknown'}, reserved: {pages['reserved'] or 0}",
    )
    yield _zfs(host)
    balancing = host["kernel"]["numa_balancing"] and host["kernel"]["numa_nodes"] > 1
    yield found("numa_balancing", ["kernel.numa_balancing is on"] if balancing else [], "off")
    yield from _loader(host["libraries"], wanted["gpus"])


def _shm(shm: Mapping[str, Any], wanted: int) -> Finding:
    if not shm["mounted"]:
        return Finding("shm", FOUND, "no file system of its own")
    if shm["size"] is None:
        return Finding("shm", OK, "the kernel's default, half of the memory")
    short = []
    if shm["size"] < wanted:
        short.append(f"{shm['size'] / GIB:.1f} GiB, {wanted / GIB:.1f} GiB wanted")
    elif shm["free"] is not None and shm["free"] < wanted:
        short.append(
            f"{shm['free'] / GIB:.1f} GiB of {shm['size'] / GIB:.1f} GiB free, "
            f"{wanted / GIB:.1f} GiB wanted"
        )
    remedy = ""
    if shm["size"] >= wanted:
        remedy = "remove what dead processes left in /dev/shm while no engine runs"
    return found("shm", short, f"{shm['size'] / GIB:.1f} GiB", remedy)


def _of(limits: Mapping[str, Any], name: str) -> tuple[str, int] | None:
    """The limit that counts: of the running engine, else of its unit; None before there is one."""
    for place, text in (("process", "the running engine"), ("unit", "the unit")):
        if name in limits[place]:
            return text, limits[place][name]
    return None


def _limit(check: str, limits: Mapping[str, Any], name: str, own: str) -> tuple[str, int] | Finding:
    """Where a limit was read and its value, or the finding of a check that has nothing to judge."""
    if limits["state"] != "ok":
        return Finding(check, UNKNOWN, f"systemctl: {limits['state']}")
    return _of(limits, name) or Finding(check, OK, f"no unit yet; the role's own has {own}")


def _withheld(limits: Mapping[str, Any], name: str) -> str:
    """The remedy where a unit asks for more than its process got; empty where it does not."""
    asked, got = limits["unit"].get(name), limits["process"].get(name)
    if asked is None or got in (None, INFINITY) or INFINITY != asked <= got:
        return ""
    return (
        "the unit asks for more than what started this system lets it have; raise it there, at a "
        f"container's manager (docker run --ulimit {_ULIMITS[name]}, systemd-nspawn "
        f"--rlimit=RLIMIT_{name.upper()}=..., LXC's lxc.prlimit); an engine older than its unit: "
        "restart it"
    )


def _memlock(limits: Mapping[str, Any]) -> Finding:
    have = _limit("memlock", limits, "memlock", "none")
    if isinstance(have, Finding):
        return have
    place, value = have
    if value == INFINITY:
        return Finding("memlock", OK, f"{place} has no limit")
    read = f"{place} may lock {value / GIB:.2f} GiB"
    return Finding("memlock", FOUND, read, _withheld(limits, "memlock"))


def _nofile(limits: Mapping[str, Any], most: int | None, wanted: int) -> Finding:
    if most is not None and most < wanted:
        return Finding("nofile", FOUND, f"fs.nr_open is {most}, {wanted} wanted")
    have = _limit("nofile", limits, "nofile", "enough")
    if isinstance(have, Finding):
        return have
    place, value = have
    short = value != INFINITY and value < wanted
    read = f"{place} may open {value} files"
    return Finding("nofile", FOUND if short else OK, read, _withheld(limits, "nofile"))


def _stack(limits: Mapping[str, Any]) -> Finding:
    have = _limit("stack_limit", limits, "stack", "64 MiB")
    if isinstance(have, Finding):
        return have
    place, value = have
    if value == INFINITY:
        return Finding("stack_limit", OK, f"{place} has no limit")
    read = f"{place} has {value / (1 << 20):.0f} MiB"
    state = FOUND if value < _STACK else OK
    return Finding("stack_limit", state, read, _withheld(limits, "stack"))


def _zfs(host: Mapping[str, Any]) -> Finding:
    on = [path for path, kind in host["file_systems"].items() if kind == "zfs"]
    if on and not host["arc_max"]:
        return Finding("zfs", FOUND, f"{', '.join(on)} on ZFS, zfs_arc_max is not set")
    if on:
        return Finding("zfs", FOUND, f"{', '.join(on)} on ZFS, ARC at most {host['arc_max']} bytes")
    kinds = sorted({kind for kind in host["file_systems"].values() if kind})
    return Finding("zfs", OK, f"the product's folders are on {', '.join(kinds) or 'unknown'}")


def _loader(libraries: Mapping[str, Any], gpus: int) -> Iterator[Finding]:
    if gpus:
        yield found("cuda_compat", libraries["compat"], "none on the loader's path")
        paths = [f"{value} ({place})" for place, value in libraries["paths"].items()]
        yield found("library_path", paths, "not set")
    yield found("preload", libraries["preload"], "nothing")
