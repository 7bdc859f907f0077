# SPDX-License-Identifier: Apache-2.0
"""Check driver and GPUs."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import (
    FOUND,
    OK,
    UNKNOWN,
    Finding,
    found,
    group,
)
from ansible_collections.sm120.sglang.plugins.module_utils._stack import version_key

# The card is gone, or its firmware is (open-gpu-kernel-modules#1104, #1151, #1353; NVIDIA's Xid
# documentation): 62 internal halt, 74 NVLink, 79 off the bus, 95 uncontained memory error,
# 119/120 firmware (GSP) does not answer, 140 unrecovered memory error, 143 firmware boot,
# 154 the driver asks for a reset or reboot.
FATAL_XIDS = frozenset({62, 74, 79, 95, 119, 120, 140, 143, 154})
_NOBODY_MIB = 2048  # contexts of monitoring tools stay below
_QUIET = {"", "none", "n/a"}

_PROBLEMS = {
    "missing": (
        "nvidia-smi is not installed",
        "install driver branch 580 or newer with its open kernel modules",
    ),
    "mismatch": (
        "nvidia-smi: Driver/library version mismatch",
        "reboot the node: the library is newer than the running kernel module",
    ),
    "no_driver": (
        "nvidia-smi cannot reach the driver: the kernel module is not loaded",
        "modprobe nvidia; where it fails, see `dkms status` and `journalctl -k`",
    ),
    "no_library": (
        "nvidia-smi finds no libnvidia-ml.so",
        "reinstall the driver's libraries in the version of its kernel module",
    ),
    "no_devices": (
        "nvidia-smi: No devices were found",
        "install the open kernel modules; look for RmInitAdapter in `journalctl -k`",
    ),
    "lost": (
        "nvidia-smi: a GPU is lost",
        "reboot; where it stays away, switch the node's power off",
    ),
    "denied": ("nvidia-smi may not open the devices", "run as root, or with become"),
    "timeout": (
        "nvidia-smi does not answer",
        "a card or its firmware hangs: reboot; where that hangs too, switch the power off",
    ),
    "unknown": ("nvidia-smi fails", "see what it said"),
}


def check_driver(host: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge the driver.

    Args:
        host: The reading.
        wanted: `minimum_driver` (version or None).

    Yields:
        Findings on driver, module and library.
    """
    smi, module = host["smi"], host["module"]
    if smi["problem"] == "mismatch":
        # Named by its own check; the driver itself is there.
        yield Finding("driver", FOUND, _problem(smi)[0], _problem(smi)[1])
    elif smi["problem"]:
        read, remedy = _problem(smi)
        yield Finding("driver", FOUND, read, remedy)
    else:
        yield Finding("driver", OK, f"driver {smi['driver']}, CUDA {smi['cuda']}")
    yield _mismatch(smi, module)
    running = smi["driver"] or module["version"]
    minimum = wanted["minimum_driver"]
    if running and minimum:
        old = version_key(running) < version_key(minimum)
        text = f"driver {running}, the stack needs {minimum}"
        yield Finding("driver_version", FOUND if old else OK, text)
    if module["version"]:
        flavour = "open" if module["open"] else "proprietary"
        yield Finding(
            "driver_module",
            OK if module["open"] else FOUND,
            f"{flavour} kernel module {module['version']}",
        )
    yield found("nouveau", ["module nouveau is loaded"] if module["nouveau"] else [], "not loaded")


def _problem(smi: Mapping[str, Any]) -> tuple[str, str]:
    text, remedy = _PROBLEMS[smi["problem"]]
    return (f"{text} ({smi['said']})" if smi["said"] else text), remedy


def _mismatch(smi: Mapping[str, Any], module: Mapping[str, Any]) -> Finding:
    running, libraries = module["version"], module["libraries"]
    if smi["problem"] == "mismatch" or (running and libraries and running not in libraries):
        there = ", ".join(libraries) or "another version"
        return Finding("driver_mismatch", FOUND, f"kernel module {running or '?'}, library {there}")
    if not running:
        return Finding("driver_mismatch", OK, "no kernel module is loaded")
    return Finding("driver_mismatch", OK, f"kernel module and library are {running}")


def check_gpus(host: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge the cards.

    Args:
        host: The reading.
        wanted: `gpus`, `gpu_names` (shell patterns), `gpu_capabilities`, `unit`.

    Yields:
        Findings; without a working nvidia-smi only what the bus and the log say.
    """
    gpus = host["smi"]["gpus"]
    yield _count(host, wanted["gpus"])
    yield from _xids(host)
    if not gpus:
        return
    yield _names(gpus, wanted["gpu_names"])
    yield _capabilities(host["smi"], wanted["gpu_capabilities"])
    yield found(
        "persistence",
        group(
            (_gpu(gpu), "persistence mode is off") for gpu in gpus if gpu["persistence"] is False
        ),
        "on",
    )
    yield found("mig", group((_gpu(gpu), "MIG is on") for gpu in gpus if gpu["mig"]), "off")
    yield _processes(gpus, wanted["unit"])
    yield found(
        "gpu_recovery", group(_recovery(gpus)), "no card asks for a reset or computes for nobody"
    )
    yield found(
        "gpu_slowdown",
        group((_gpu(gpu), ", ".join(gpu["slowdown"])) for gpu in gpus if gpu["slowdown"]),
        "none",
    )
    yield from _memory(gpus)


def _gpu(gpu: Mapping[str, Any]) -> str:
    return f"GPU {gpu['index']}"


def _count(host: Mapping[str, Any], wanted: int) -> Finding:
    bus, seen = len(host["pci"]["gpus"]), len(host["smi"]["gpus"])
    if host["smi"]["problem"]:
        # How many the driver has is not known; how many are plugged in is.
        wrong = [f"{bus} on the bus, {wanted} wanted"] if bus != wanted else []
        return found("gpu_count", wrong, f"{bus} on the bus")
    text = f"{seen} in nvidia-smi, {bus} on the bus, {wanted} wanted"
    return Finding("gpu_count", OK if seen == wanted else FOUND, text)


def _names(gpus: list[dict[str, Any]], patterns: list[str]) -> Finding:
    odd = [
        (_gpu(gpu), f"is {gpu['name']}")
        for gpu in gpus
        if patterns and not any(fnmatch.fnmatch(gpu["name"], pattern) for pattern in patterns)
    ]
    names = sorted({gpu["name"] for gpu in gpus})
    if not odd and len(names) > 1:
        return Finding("gpu_names", FOUND, f"several kinds: {', '.join(names)}")
    return found("gpu_names", group(odd), ", ".join(names))


def _capabilities(smi: Mapping[str, Any], wanted: list[str]) -> Finding:
    have = sorted({gpu["capability"] for gpu in smi["gpus"]} - {""})
    if not have:
        return Finding("gpu_capability", UNKNOWN, f"nvidia-smi does not say: {smi['capabilities']}")
    odd = [
        (_gpu(gpu), f"capability {gpu['capability'] or 'unknown'}")
        for gpu in smi["gpus"]
        if wanted and gpu["capability"] not in wanted
    ]
    wrong = [*group(odd), f"{', '.join(wanted)} wanted"] if odd else []
    return found("gpu_capability", wrong, ", ".join(have))


def _processes(gpus: list[dict[str, Any]], unit: str) -> Finding:
    wrong = []
    for gpu in gpus:
        others = [
            process
            for process in gpu["processes"]
            if process.get("unit") != unit and process["type"] != "G"
        ]
        wrong += [(_gpu(gpu), _holder(process)) for process in others]
        if not gpu["processes"] and (gpu["used_mib"] or 0) > _NOBODY_MIB:
            wrong.append((_gpu(gpu), f"{gpu['used_mib']} MiB held by no process that can be seen"))
    return found("gpu_processes", group(wrong), "none but the engine's own")


def _holder(process: Mapping[str, Any]) -> str:
    who = f"pid {process['pid']} ({process['name']}, {process.get('unit') or 'no unit'})"
    return f"{who} holds {process['mib'] or '?'} MiB"


def _recovery(gpus: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for gpu in gpus:
        if gpu["recovery"].lower() not in _QUIET:
            yield _gpu(gpu), f"recovery action: {gpu['recovery']}"
        elif (gpu["utilization"] or 0) >= 95 and not gpu["processes"]:
            yield _gpu(gpu), f"{gpu['utilization']} % busy without a process"


def _memory(gpus: list[dict[str, Any]]) -> Iterator[Finding]:
    for check, key, text in (
        ("row_remap_failure", "failure", "rows could not be remapped"),
        ("row_remap_pending", "pending", "rows wait for a reset to be remapped"),
    ):
        yield found(check, group((_gpu(gpu), text) for gpu in gpus if gpu["rows"][key]), "none")
    yield found(
        "ecc_errors",
        group(
            (_gpu(gpu), f"{gpu['uncorrected']} uncorrected") for gpu in gpus if gpu["uncorrected"]
        ),
        "no uncorrected errors since the driver was loaded",
    )


def _xids(host: Mapping[str, Any]) -> Iterator[Finding]:
    log = host["kernel"]["log"]
    if log["state"] != "ok":
        yield Finding("xid_fatal", UNKNOWN, f"the kernel's log cannot be read: {log['state']}")
        return
    for check, fatal in (("xid_fatal", True), ("xid", False)):
        errors = [error for error in log["xids"] if _is_fatal(error) is fatal]
        lines = [f"Xid {e['code']} at {e['address']}: {e['text']}".rstrip(": ") for e in errors]
        yield found(check, lines[-6:], "none in this boot's log")


def _is_fatal(error: Mapping[str, Any]) -> bool:
    # Xid 154 also says that nothing is to be done any more.
    return error["code"] in FATAL_XIDS and not error["text"].endswith("to 0x0 (None)")
