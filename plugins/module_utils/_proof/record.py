# SPDX-License-Identifier: Apache-2.0
"""The record of proofs: what was proved for a release, on which boot with which driver.

A proof says something about a release on a node in one state. It stands until the node boots anew
or its driver changes; `proofs/<release>.json` in the product's folder holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _verified

KINDS = ("imports", "collective")
_DRIVER = re.compile(r"(?:Kernel Module|for \S+)\s+(\d+\.\d+(?:\.\d+)?)")


def stamp(proc: Path = Path("/proc")) -> dict[str, str]:
    """The node's state that a proof depends on.

    Args:
        proc: The folder /proc.

    Returns:
        `boot` (the kernel's boot id) and `driver` (version of the loaded NVIDIA kernel module,
        empty without one).
    """
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    try:
        match = _DRIVER.search((proc / "driver/nvidia/version").read_text(encoding="utf-8"))
    except OSError:
        match = None
    return {"boot": boot, "driver": match[1] if match else ""}


def path(root: Path, release: str) -> Path:
    """Where a release's record lies."""
    return root / "proofs" / f"{release}.json"


def read(root: Path, release: str, now: Mapping[str, str]) -> dict[str, Any]:
    """Read a release's record.

    Args:
        root: The product's folder.
        release: The release's id.
        now: See `stamp`.

    Returns:
        Kind to `valid` (whether it holds on this boot and driver) and the `result` that was
        written; a kind that was never proved is not there.
    """
    found = {}
    for kind, entry in _verified.load_record(path(root, release)).items():
        if kind in KINDS and isinstance(entry, Mapping):
            found[kind] = {
                "valid": entry.get("stamp") == dict(now),
                "result": entry.get("result"),
            }
    return found


def write(root: Path, release: str, kind: str, now: Mapping[str, str], result: object) -> None:
    """Write one proof beside the others, by one rename."""
    place = path(root, release)
    place.parent.mkdir(mode=0o755, exist_ok=True)
    known = {k: v for k, v in _verified.load_record(place).items() if k in KINDS}
    _verified.save_record(place, {**known, kind: {"stamp": dict(now), "result": result}})


def _left_out(seen: Mapping[str, Any]) -> bool:
    result = seen.get("result")
    return isinstance(result, Mapping) and bool(result.get("left_out"))


def differences(
    proofs: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, str], serving: bool
) -> list[dict[str, Any]]:
    """Decide which proofs have to be made.

    Args:
        proofs: The reading's record of the wanted release, as `read` gives it.
        wanted: Kind to `auto` (when there is none for this boot and driver, or one that had to
            leave out GPUs), `always` or `never`.
        serving: Whether the engine runs: `auto` then leaves its GPUs alone.

    Returns:
        Mappings of `item`, `reason`, `restart` and `kind`.
    """
    found = []
    for kind, when in wanted.items():
        seen = proofs.get(kind)
        partial = bool(seen and seen["valid"] and _left_out(seen) and not serving)
        if when == "never" or (when == "auto" and seen and seen["valid"] and not partial):
            continue
        if when == "auto" and serving and kind == "collective":
            continue
        reason = "asked for"
        if when == "auto":
            reason = "made before this boot or driver" if seen else "not made yet"
        if when == "auto" and partial:
            reason = "made without GPUs that had no room for it then"
        found.append({"item": f"proof of {kind}", "reason": reason, "restart": False, "kind": kind})
    return found
