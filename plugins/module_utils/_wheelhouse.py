# SPDX-License-Identifier: Apache-2.0
"""The wheelhouse: a folder on the controller with exactly the wheels of one lock."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _verified
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin, normalise

MANIFEST = "wheelhouse.json"
_WHEEL = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl$")


class WheelhouseError(ValueError):
    """A wheel is missing, wrong or one too many; the message says which and what to do."""


def folder_name(lock_name: str, lock_sha256: str, tags: Sequence[str]) -> str:
    """Name the folder for a lock and a platform: `lab-0.5.9-py311-<12 digits>`.

    Args:
        lock_name: The lock's file name without suffix.
        lock_sha256: Digest of its bytes.
        tags: pip's platform arguments (`_stack.wheel_tags`).

    Returns:
        The same name for the same lock and platform.
    """
    digest = hashlib.sha256(json.dumps([lock_sha256, list(tags)]).encode()).hexdigest()
    return f"{lock_name}-{digest[:12]}"


def requirements(pins: Iterable[Pin], hashes: Mapping[str, str] | None = None) -> str:
    """Render pins as a requirements file.

    Args:
        pins: The pins.
        hashes: Package to the one digest to allow; the pins' own when left out.

    Returns:
        Lines as pip and uv read them.
    """
    lines = []
    for pin in pins:
        allowed = pin.hashes if hashes is None else (hashes[pin.name],)
        digests = "".join(f" --hash=sha256:{digest}" for digest in allowed)
        lines.append(f"{pin.name}=={pin.version}{digests}\n")
    return "".join(lines)


def only(pins: Sequence[Pin], packages: Sequence[str]) -> list[Pin]:
    """Some of a lock's pins.

    Args:
        pins: The pins.
        packages: Names; all pins where it is empty.

    Returns:
        The pins in their order.

    Raises:
        WheelhouseError: The lock has no such package.
    """
    wanted = {normalise(name) for name in packages}
    missing = wanted - {pin.name for pin in pins}
    if missing:
        raise WheelhouseError(f"the lock has no package {', '.join(sorted(missing))}")
    return [pin for pin in pins if not wanted or pin.name in wanted]


def match_wheels(pins: Sequence[Pin], names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Find each pin's wheel among file names.

    Args:
        pins: The pins.
        names: File names of wheels.

    Returns:
        Package to file name (a pin without a wheel is not there), and the file names that belong
        to no pin.

    Raises:
        WheelhouseError: A pin has two wheels.
    """
    wanted = {(pin.name, pin.version.replace("-", "_")): pin for pin in pins}
    found: dict[str, str] = {}
    spare = []
    for name in sorted(names):
        match = _WHEEL.match(name)
        pin = match and wanted.get((normalise(match["name"]), match["version"]))
        if not pin:
            spare.append(name)
        elif pin.name in found:
            raise WheelhouseError(
                f"two wheels of {pin.name} {pin.version}: {found[pin.name]}, {name}; remove both "
                "and run again"
            )
        else:
            found[pin.name] = name
    return found, spare


def local_digests(pins: Iterable[Pin], places: Iterable[str]) -> dict[str, set[str]]:
    """Read the wheels that lie in folders of this machine and that no lock knows by digest.

    Args:
        pins: The pins; only those without digest matter.
        places: pip's places to look; what is no folder is left out.

    Returns:
        File name to the sha256 of each file of that name.
    """
    folders = [Path(place) for place in places if Path(place).is_dir()]
    digests: dict[str, set[str]] = {}
    for pin in (pin for pin in pins if not pin.hashes):
        for path in (p for folder in folders for p in folder.glob("*.whl")):
            if match_wheels([pin], [path.name])[0]:
                digests.setdefault(path.name, set()).add(_verified.sha256_file(path))
    return digests


def unusable(folder: Path, pins: Sequence[Pin], local: Mapping[str, set[str]]) -> list[str]:
    """Find wheels that an interrupted run left damaged, or that were built anew since.

    Args:
        folder: The wheelhouse.
        pins: The pins.
        local: See `local_digests`.

    Returns:
        File names; a wheel is right when its digest is in the lock, or, where the lock has none,
        when it is the one that lies in a local folder, or else a complete archive.
    """
    found = []
    for pin in pins:
        for path in sorted(folder.glob("*.whl")):
            if not match_wheels([pin], [path.name])[0]:
                continue
            allowed = pin.hashes or local.get(path.name)
            if not (_verified.sha256_file(path) in allowed if allowed else _complete(path)):
                found.append(path.name)
    return found


def _complete(wheel: Path) -> bool:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except zipfile.BadZipFile:
        return False


def describe(folder: Path, pins: Sequence[Pin], wheels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Read each wheel and check it against its pin.

    Args:
        folder: The wheelhouse.
        pins: The pins.
        wheels: Package to file name.

    Returns:
        For each pin package, name, sha256 and size.

    Raises:
        WheelhouseError: A pin has no wheel, or one whose digest is not among the pin's.
    """
    missing = [f"{pin.name}=={pin.version}" for pin in pins if pin.name not in wheels]
    if missing:
        raise WheelhouseError(f"no wheel for {', '.join(missing)}; lock the stack anew")
    described = []
    for pin in pins:
        path = folder / wheels[pin.name]
        digest = _verified.sha256_file(path)
        if pin.hashes and digest not in pin.hashes:
            raise WheelhouseError(
                f"{path.name}: sha256 {digest} is not in the lock. The index or a cache served "
                f"another file: remove {path} and run again; if it stays, lock the stack anew"
            )
        described.append(
            {"package": pin.name, "name": path.name, "sha256": digest, "size": path.stat().st_size}
        )
    return described


def pip_error(stderr: str) -> str:
    """What pip says about a failure, in one line.

    Args:
        stderr: pip's error output.

    Returns:
        Its errors with the indented lines below them, which name the package; the last 600
        characters where it names no error.
    """
    told: list[str] = []
    for line in stderr.splitlines():
        if line.startswith("ERROR") or (told and line.startswith(" ")):
            told.append(" ".join(line.split()))
        elif told and line.strip():
            break
    return " ".join(told)[:1500] or stderr[-600:].strip()


def read_manifest(folder: Path, local: Mapping[str, set[str]]) -> list[dict[str, Any]] | None:
    """Read a finished wheelhouse without reading its wheels.

    Args:
        folder: The wheelhouse.
        local: See `local_digests`.

    Returns:
        Its wheels, as `describe` gives them; None when it is unfinished or was touched, or when
        a wheel was built anew.
    """
    manifest = _verified.load_record(folder / MANIFEST)
    wheels: list[dict[str, Any]] = manifest.get("wheels", [])
    for wheel in wheels:
        if _verified.fingerprint(folder / wheel["name"]) != wheel["fingerprint"]:
            return None
        if wheel["sha256"] not in local.get(wheel["name"], {wheel["sha256"]}):
            return None
    return [{k: v for k, v in wheel.items() if k != "fingerprint"} for wheel in wheels] or None


def write_manifest(folder: Path, wheels: Iterable[Mapping[str, Any]]) -> None:
    """Mark a wheelhouse as finished."""
    entries = [
        {**wheel, "fingerprint": _verified.fingerprint(folder / wheel["name"])} for wheel in wheels
    ]
    _verified.save_record(folder / MANIFEST, {"wheels": entries})
