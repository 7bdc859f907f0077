# SPDX-License-Identifier: Apache-2.0
"""Read everything about a host that its checks need. Runs on the node and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host import smi
from ansible_collections.sm120.sglang.plugins.module_utils._host.fabric import read_multicast
from ansible_collections.sm120.sglang.plugins.module_utils._host.kernel import (
    read_kernel,
    read_module,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.libraries import read_libraries
from ansible_collections.sm120.sglang.plugins.module_utils._host.limits import (
    file_system_of,
    parse_mounts,
    parse_swaps,
    read_limits,
    read_shm,
    read_time,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.pci import read_pci
from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import (
    GPU_SECONDS,
    Output,
    Tools,
    read_int,
    read_text,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import process_unit


def _answer(output: Output) -> str:
    return "ok" if output.state == "ok" else output.said or output.state


def read_smi(tools: Tools) -> dict[str, Any]:
    """Read the GPUs through nvidia-smi.

    Args:
        tools: The system's tools.

    Returns:
        `problem` (empty, or as `smi.problem_of`), `said` (what it printed when it failed),
        `driver`, `cuda`, `gpus` (see `smi.parse_query`), `capabilities` (`ok` or why unknown),
        `topology` and `p2p` (`state`, `cells`; `p2p` by `r` and `w`).
    """
    nothing: dict[str, Any] = {"driver": "", "cuda": "", "gpus": []}
    query = tools.run("nvidia-smi", "-q", "-x", seconds=GPU_SECONDS)
    if query.state != "ok" or "<gpu " not in query.text:
        return {**nothing, "problem": smi.problem_of(query), "said": query.said}
    try:
        found = smi.parse_query(query.text)
    except smi.SmiError as error:
        return {**nothing, "problem": "unknown", "said": str(error)}
    asked = {"capabilities": ["--query-gpu=uuid,compute_cap", "--format=csv,noheader"]}
    if len(found["gpus"]) > 1:
        asked |= {"m": ["topo", "-m"], "r": ["topo", "-p2p", "r"], "w": ["topo", "-p2p", "w"]}
    # At once: without persistence mode each call initialises every card first.
    with ThreadPoolExecutor(len(asked)) as pool:
        running = {
            name: pool.submit(tools.run, "nvidia-smi", *words, seconds=GPU_SECONDS)
            for name, words in asked.items()
        }
        outputs = {name: future.result() for name, future in running.items()}
    listed = outputs.pop("capabilities")
    found = smi.with_capabilities(found, smi.parse_capabilities(listed.text))
    answers = {
        name: {"state": _answer(output), "cells": smi.parse_matrix(output.text)}
        for name, output in outputs.items()
    }
    empty = {"state": "ok", "cells": {}}
    return {
        **found,
        "problem": "",
        "said": "",
        "capabilities": _answer(listed),
        "topology": answers.get("m", empty),
        "p2p": {name: answers.get(name, empty) for name in ("r", "w")},
    }


def _name_owners(root: Path, gpus: Iterable[dict[str, Any]]) -> None:
    """Add the unit that each process on a GPU belongs to."""
    for gpu in gpus:
        for process in gpu["processes"]:
            cgroup = read_text(root / f"proc/{process['pid']}/cgroup")
            process["unit"] = process_unit(cgroup)


def read_host(unit: str, paths: Iterable[str] = (), root: str = "/") -> dict[str, Any]:
    """Read the host.

    Args:
        unit: The engine's unit.
        paths: Folders whose file system type matters (weights).
        root: Root of the system to read; another one than "/" is a recorded system, whose own
            tools are run.

    Returns:
        `smi`, `multicast` (see `fabric.read_multicast`), `module`, `pci`, `kernel`, `limits`,
        `shm`, `swap`, `time`, `file_systems` (path to type), `arc_max` (bytes that ZFS may cache,
        None without ZFS), `libraries`, `privileged` (whether everything could be read). Never
        raises: what cannot be read is named where it is missing.
    """
    place = Path(root)
    tools = Tools(place)
    mounts = parse_mounts(read_text(place / "proc/self/mounts"))
    limits = read_limits(place, tools, unit)
    gpus = read_smi(tools)
    _name_owners(place, gpus["gpus"])
    # A recorded system has no driver of its own to ask.
    asked = bool(gpus["gpus"]) and place == Path("/")
    multicast = read_multicast() if asked else {"state": "no driver to ask", "devices": []}
    return {
        "smi": gpus,
        "multicast": multicast,
        "module": read_module(place),
        "pci": read_pci(place),
        "kernel": read_kernel(place, tools),
        "limits": limits,
        "shm": read_shm(place, mounts),
        "swap": parse_swaps(read_text(place / "proc/swaps")),
        "time": read_time(tools),
        "file_systems": {path: file_system_of(path, mounts) for path in sorted(set(paths))},
        "arc_max": read_int(place / "sys/module/zfs/parameters/zfs_arc_max"),
        "libraries": read_libraries(place, limits["environment"]),
        "privileged": os.geteuid() == 0,
    }
