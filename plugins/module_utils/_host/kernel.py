# SPDX-License-Identifier: Apache-2.0
"""Parse what the kernel says about itself: arguments, modules, IOMMU, log."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import (
    Tools,
    read_int,
    read_text,
)

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+), ?(.*)")
_MODULE = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_XIDS_KEPT = 50
_LINES = 50_000  # some 6 MB; a link with errors fills logs without end


def parse_arguments(text: str) -> dict[str, str]:
    """Parse /proc/cmdline.

    Args:
        text: Its content; what follows ` -- ` belongs to init.

    Returns:
        Argument to value, empty for one without; of a repeated argument the last, as the kernel
        takes it.
    """
    try:
        words = shlex.split(text)
    except ValueError:  # an odd quote
        words = text.split()
    if "--" in words:
        words = words[: words.index("--")]
    pairs = (word.partition("=") for word in words)
    return {key: value for key, _, value in pairs}


def parse_choice(text: str) -> str:
    """The chosen one of `[default] performance powersave`; empty when none is marked."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else ""


def parse_xids(text: str) -> list[dict[str, Any]]:
    """Find Xid errors in a kernel log.

    Args:
        text: Lines of `journalctl -k` or `dmesg`, in any time format.

    Returns:
        The last 50, oldest first: `address`, `code`, `text`. The same error of the same GPU is
        listed once, at its first place with its last text.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for match in _XID.finditer(text):
        key = (match[1].lower(), int(match[2]))
        # The last text: a recovery action (154) is taken back by the same code.
        found[key] = {"address": key[0], "code": key[1], "text": match[3][:160]}
    return list(found.values())[-_XIDS_KEPT:]


def parse_driver(text: str) -> dict[str, Any]:
    """Parse /proc/driver/nvidia/version.

    Args:
        text: Its content.

    Returns:
        `version` (empty when no module is loaded) and `open`, whether it is the open flavour.
    """
    found = _MODULE.search(text)
    return {"version": found[1] if found else "", "open": "Open Kernel Module" in text}


def library_versions(root: Path) -> list[str]:
    """Versions of the driver's libcuda.so on the usual paths, as its file names give them."""
    found = set()
    for folder in ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/nvidia/lib64"):
        for path in (root / folder).glob("libcuda.so.[0-9]*.*"):
            found.add(path.name.removeprefix("libcuda.so."))
    return sorted(found)


def read_module(root: Path) -> dict[str, Any]:
    """Read the driver's kernel side.

    Args:
        root: Root of the file system.

    Returns:
        `version`, `open`, `libraries` (versions of libcuda on disk), `nouveau` (bool), `hmm`
        (True, False, or None when the module has no such option or is not loaded).
    """
    hmm = read_text(root / "sys/module/nvidia_uvm/parameters/uvm_disable_hmm")
    found = parse_driver(read_text(root / "proc/driver/nvidia/version"))
    if not found["version"]:
        found["version"] = read_text(root / "sys/module/nvidia/version")
    return {
        **found,
        "libraries": library_versions(root),
        "nouveau": (root / "sys/module/nouveau").is_dir(),
        "hmm": None if not hmm else hmm not in ("Y", "1"),
    }


def read_log(tools: Tools) -> dict[str, Any]:
    """Read Xid errors of this boot.

    Args:
        tools: The system's tools.

    Returns:
        `state` (`ok`, or why it could not be read) and `xids`.
    """
    words = ("--dmesg", "--boot", "--no-pager", "--quiet", f"--lines={_LINES}")
    log = tools.run("journalctl", *words, seconds=30)
    if log.state != "ok" or not log.text.strip():
        ring = tools.run("dmesg")
        log = ring if ring.state == "ok" else log
    if log.state != "ok":
        return {"state": log.said or log.state, "xids": []}
    return {"state": "ok", "xids": parse_xids(log.text)}


def read_kernel(root: Path, tools: Tools) -> dict[str, Any]:
    """Read the kernel's settings.

    Args:
        root: Root of the file system.
        tools: The system's tools.

    Returns:
        `arguments`, `aspm` (policy), `numa_nodes`, `numa_balancing`, `nr_open`, `iommus` (active
        units), `cpu` (model name), `log`, `hugepages` (`transparent`, `reserved`).
    """
    cpu = re.search(r"^model name\s*:\s*(.*)$", read_text(root / "proc/cpuinfo"), re.MULTILINE)
    units = root / "sys/class/iommu"
    vm = root / "sys/kernel/mm/transparent_hugepage/enabled"
    return {
        "arguments": parse_arguments(read_text(root / "proc/cmdline")),
        "aspm": parse_choice(read_text(root / "sys/module/pcie_aspm/parameters/policy")),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))),
        "numa_balancing": read_int(root / "proc/sys/kernel/numa_balancing"),
        "nr_open": read_int(root / "proc/sys/fs/nr_open"),
        "iommus": sorted(path.name for path in units.iterdir()) if units.is_dir() else [],
        "cpu": cpu[1] if cpu else "",
        "log": read_log(tools),
        "hugepages": {
            "transparent": parse_choice(read_text(vm)),
            "reserved": read_int(root / "proc/sys/vm/nr_hugepages"),
        },
    }
