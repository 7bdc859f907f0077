# SPDX-License-Identifier: Apache-2.0
"""Processes that an engine left behind, and who holds GPU memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._node.service import process_unit

_SMI_SECONDS = 20.0
_POLL_SECONDS = 0.05
_QUERY_APPS = "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory"
_QUERY_GPUS = "--query-gpu=index,uuid,memory.total,memory.used,memory.free"
_FORMAT = "--format=csv,noheader,nounits"
GPU_QUERY = ("nvidia-smi", _QUERY_GPUS, _FORMAT)
"""The command whose output `parse_gpus` reads."""


@dataclass(frozen=True)
class Process:
    """A process: `unit` is the unit of its cgroup, `ours` whether it runs code of our releases."""

    pid: int
    parent: int
    uid: int
    unit: str
    command: str
    ours: bool


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a GPU; `mib` is 0 where the driver does not say."""

    gpu: str
    pid: int
    command: str
    mib: int


@dataclass(frozen=True)
class Gpu:
    """A GPU's memory in MiB."""

    index: int
    uuid: str
    total: int
    used: int
    free: int


def orphans(processes: Iterable[Process], unit: str, uid: int) -> list[Process]:
    """What a stopped unit left behind.

    Args:
        processes: All processes of the node.
        unit: Our unit, which is stopped.
        uid: The engine's user.

    Returns:
        Processes in the unit's own cgroup; and processes of the engine's user that run code of
        our releases, belong to no other service, and whose starter is gone (they and their
        children). Somebody's own experiment below a living shell is none of these.
    """
    listed = list(processes)
    by_pid = {entry.pid: entry for entry in listed}

    def deserted(entry: Process) -> bool:
        seen: set[int] = set()
        while entry.ours and entry.uid == uid and entry.pid not in seen:
            seen.add(entry.pid)
            if entry.parent <= 1:
                return not entry.unit.endswith(".service")
            if entry.parent not in by_pid:
                return True
            entry = by_pid[entry.parent]
        return False

    return [entry for entry in listed if entry.unit == unit or deserted(entry)]


def own_places() -> Iterator[Path]:
    """Folders in /proc of this system's processes, not of a container's."""
    here = Path("/proc/self/ns/pid").readlink()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            if (place / "ns/pid").readlink() == here:
                yield place
        except OSError:
            continue  # it ended meanwhile


def read_processes(user: int, releases: Path) -> list[Process]:
    """Read this system's processes; only those of `user` are asked which files they map.

    A container's processes are another system's, whatever their unit is called there.

    Args:
        user: The engine's user.
        releases: The folder of all releases.

    Returns:
        The processes; one that ends meanwhile is left out.
    """
    found = []
    for place in own_places():
        try:
            uid = place.stat().st_uid
            status = (place / "stat").read_text(encoding="utf-8", errors="replace")
            cgroup = (place / "cgroup").read_text(encoding="utf-8", errors="replace")
            # "pid (command) state ppid": the command may hold spaces and brackets.
            command, _, rest = status.partition("(")[2].rpartition(")")
            words = rest.split()
            if words[0] in ("Z", "X"):
                continue
            ours = uid == user and _runs_from(place, releases)
        except (OSError, IndexError):
            continue
        found.append(
            Process(int(place.name), int(words[1]), uid, process_unit(cgroup), command, ours)
        )
    return found


def _runs_from(process: Path, releases: Path) -> bool:
    """Whether it maps a file of a release: its interpreter lies outside, its libraries inside."""
    wanted = f" {releases}/"
    if str(releases).encode() + b"/" in (process / "cmdline").read_bytes().split(b"\0")[0]:
        return True
    with (process / "maps").open(encoding="utf-8", errors="replace") as lines:
        return any(wanted in line for line in lines)


def end(pids: Sequence[int], seconds: float) -> list[int]:
    """End processes: SIGTERM, then SIGKILL after half of the time.

    Returns:
        Those that are still there when the time is over.
    """
    left = list(pids)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            _signal(pid, number)
        deadline = time.monotonic() + seconds / 2
        while left and time.monotonic() < deadline:
            left = [pid for pid in left if _alive(pid)]
            time.sleep(0.02)
    return left


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] not in ("Z", "X")


def parse_holders(text: str) -> list[Holder]:
    """Parse `nvidia-smi` with `_QUERY_APPS`: uuid, pid, name, MiB (or `[N/A]`)."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 4 and cells[1].isdigit():
            name = ",".join(cells[2:-1])
            found.append(Holder(cells[0], int(cells[1]), name, _mib(cells[-1])))
    return found


def parse_gpus(text: str) -> list[Gpu]:
    """Parse `nvidia-smi` with `_QUERY_GPUS`: index, uuid, total, used and free MiB."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 5 and cells[0].isdigit():
            found.append(Gpu(int(cells[0]), cells[1], *(_mib(cell) for cell in cells[2:])))
    return found


def _mib(text: str) -> int:
    return int(text) if text.isdigit() else 0


def read_gpus() -> tuple[list[Gpu], list[Holder]]:
    """Memory of all GPUs and who holds it; nothing where there is no `nvidia-smi`."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [], []
    try:
        gpus, apps = (
            subprocess.run(
                [tool, query, _FORMAT],
                capture_output=True,
                text=True,
                timeout=_SMI_SECONDS,
                check=False,
            )
            for query in (_QUERY_GPUS, _QUERY_APPS)
        )
    except (OSError, subprocess.TimeoutExpired):
        return [], []
    return parse_gpus(gpus.stdout), parse_holders(apps.stdout)


def memory_held(
    gpus: Sequence[Gpu], holders: Sequence[Holder], old: set[int], limit: dict[str, int]
) -> list[str]:
    """What still keeps the old engine's memory from being free.

    Args:
        gpus: The GPUs now.
        holders: Who holds memory now.
        old: Processes of the old tree.
        limit: GPU to the MiB that may be in use once the old tree's memory is free.

    Returns:
        One sentence a GPU that is not free yet; empty when all are.
    """
    found = []
    for gpu in gpus:
        mine = [holder for holder in holders if holder.gpu == gpu.uuid and holder.pid in old]
        over = gpu.used - limit.get(gpu.uuid, gpu.used)
        if mine:
            pids = ", ".join(str(holder.pid) for holder in mine)
            found.append(f"GPU {gpu.index}: the old engine's process {pids} holds memory")
        elif over > 0:
            found.append(f"GPU {gpu.index}: {gpu.used} MiB in use, {over} more than expected")
    return found


def memory_lost(
    gpus: Sequence[Gpu], holders: Sequence[Holder], old: set[int], limit: dict[str, int]
) -> bool:
    """Whether a new engine had better not start: the arguments are those of `memory_held`.

    So it is where a process of the old tree holds memory, or a tenth of a card more than expected
    is in use. Less is a stranger's that came meanwhile, or a leak: the KV cache, which takes what
    is free, then gets smaller.
    """
    mine = any(holder.pid in old for holder in holders)
    return mine or any(gpu.used - limit.get(gpu.uuid, gpu.used) > gpu.total / 10 for gpu in gpus)


def memory_limits(
    gpus: Sequence[Gpu], holders: Sequence[Holder], old: set[int], slack: int = 512
) -> dict[str, int]:
    """How much of each GPU may be in use once the old tree is gone.

    Args:
        gpus: The GPUs while the old tree still runs.
        holders: Who holds memory then.
        old: Processes of the old tree.
        slack: MiB that do not matter (contexts of others come and go).

    Returns:
        GPU to MiB, for the GPUs on which the driver says what the old tree holds.
    """
    limits = {}
    for gpu in gpus:
        mine = sum(h.mib for h in holders if h.gpu == gpu.uuid and h.pid in old)
        if mine:
            limits[gpu.uuid] = max(0, gpu.used - mine) + slack
    return limits


def await_memory(old: set[int], limits: dict[str, int], seconds: float) -> tuple[str, bool]:
    """Wait for the old engine's GPU memory; nothing is ended for it.

    Args:
        old: Processes of the old tree.
        limits: What `memory_limits` gave before they ended.
        seconds: At most so long.

    Returns:
        What is still held and who holds it, empty when all is free; and whether it is lost
        (`memory_lost`).
    """
    deadline = time.monotonic() + seconds
    while held := memory_held(*(now := read_gpus()), old, limits):
        if time.monotonic() >= deadline:
            break
        time.sleep(_POLL_SECONDS)
    else:
        return "", False
    gpus, holders = now
    number = {gpu.uuid: gpu.index for gpu in gpus}
    others = [
        f"GPU {number.get(holder.gpu, '?')}: pid {holder.pid} ({holder.command}), {holder.mib} MiB"
        for holder in holders
    ]
    said = (
        f"GPU memory is still in use {seconds:.0f} s after the engine stopped: {'; '.join(held)}. "
        f"Holders: {'; '.join(others) or 'none that the driver names'}"
    )
    return said, memory_lost(gpus, holders, old, limits)
