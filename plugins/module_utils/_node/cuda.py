# SPDX-License-Identifier: Apache-2.0
"""What a node has of NVIDIA: packages and their locks, running module, library, toolkit."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._cuda import names, openpgp

_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_MOK_LIST = "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
_DKMS_KEYS = ("var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub")
_LIBRARIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
)
_DPKG_FORMAT = "-f=${db:Status-Abbrev}\\t${Package}\\t${Version}\\n"


def parse_packages(text: str) -> dict[str, Any]:
    r"""Parse `dpkg-query -W -f='${db:Status-Abbrev}\t${Package}\t${Version}\n'` of everything.

    Args:
        text: Its output. The first letter is the wish (`h` hold), the second the state.

    Returns:
        `driver` (name to version), `held` (driver package names), `pinning` (pinning packages),
        `toolkits` (name to version) and `broken` (packages that dpkg left half done).
    """
    found: dict[str, Any] = {
        "driver": {},
        "held": [],
        "pinning": [],
        "toolkits": {},
        "broken": [],
        "headers": [],
    }
    for line in text.splitlines():
        status, _, rest = line.partition("\t")
        name, _, version = rest.partition("\t")
        state = status[1:2]
        if state in "UFHWt" or status[2:3] == "R":
            found["broken"].append(name)
        if state not in ("i", "U", "F", "W", "t"):
            continue
        if name.startswith("nvidia-driver-pinning-"):
            found["pinning"].append(name)
        elif names.is_driver(name, version):
            found["driver"][name] = version
            if status[:1] == "h":
                found["held"].append(name)
        elif re.fullmatch(r"cuda-toolkit-\d+-\d+|cuda-nvcc-\d+-\d+|cuda-toolkit|cuda", name):
            found["toolkits"][name] = version
        elif name.startswith("linux-headers-"):
            found["headers"].append(name)
    for key in ("held", "pinning", "broken", "headers"):
        found[key] = sorted(set(found[key]))
    return found


def parse_module_version(text: str) -> dict[str, Any]:
    """Parse /proc/driver/nvidia/version.

    Args:
        text: Its content; both of the driver's own forms are known: `NVIDIA UNIX Open Kernel
            Module for x86_64  580.95.05 ...` and `NVIDIA UNIX x86_64 Kernel Module  535.54.03`.

    Returns:
        `version`, empty when there is none, and `open`.
    """
    line = next((line for line in text.splitlines() if line.startswith("NVRM version")), "")
    found = re.search(r"\s(\d{3}\.\d{2,3}(?:\.\d{2})?)\s", f"{line} ")
    return {"version": found[1] if found else "", "open": "Open Kernel Module" in line}


def parse_source(text: str, path: str) -> list[dict[str, Any]]:
    """Read an apt source file's active entries, in either style.

    Args:
        text: Its content.
        path: Its path; the style is told by its ending.

    Returns:
        Mappings of `path`, `uri` (without a slash at the end) and `signed_by`.
    """
    entries = []
    if path.endswith(".sources"):
        for block in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", block, re.MULTILINE))
            lower = {key.lower(): value.strip() for key, value in fields.items()}
            if lower.get("enabled", "yes").lower() in ("no", "false", "0", "off"):
                continue
            entries += [
                {"uri": uri.rstrip("/"), "signed_by": lower.get("signed-by", "")}
                for uri in lower.get("uris", "").split()
            ]
    else:
        for found in re.finditer(r"^\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)", text, re.MULTILINE):
            signed = re.search(r"signed-by=(\S+)", found[1] or "", re.IGNORECASE)
            entries.append({"uri": found[2].rstrip("/"), "signed_by": signed[1] if signed else ""})
    return [{"path": path, **entry} for entry in entries]


def read_sources(root: Path) -> list[dict[str, Any]]:
    """Active entries of all apt source files."""
    files = [root / "etc/apt/sources.list", *sorted((root / "etc/apt/sources.list.d").glob("*"))]
    found = []
    for file in files:
        if file.suffix in (".list", ".sources") and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            found += parse_source(text, f"/{file.relative_to(root)}")
    return found


def read_module(root: Path) -> dict[str, Any]:
    """The running kernel module: `loaded`, `version`, `open`, and whether nouveau is loaded."""
    proc = _text(root / "proc/driver/nvidia/version")
    found = parse_module_version(proc)
    found["version"] = found["version"] or _text(root / "sys/module/nvidia/version").strip()
    found["loaded"] = (root / "sys/module/nvidia").is_dir()
    found["nouveau"] = (root / "sys/module/nouveau").is_dir()
    # Without the proc file nothing says which flavour it is.
    found["open"] = found["open"] if proc else None
    return found


def read_library(root: Path) -> str:
    """Version of the userspace library that programs load, empty without one."""
    for folder in _LIBRARIES:
        place = (root / folder / "libnvidia-ml.so.1").resolve()
        found = re.fullmatch(r"libnvidia-ml\.so\.(\d{3}\..+)", place.name)
        if found:
            return found[1]
    return ""


def read_secure_boot(root: Path) -> dict[str, bool]:
    """Whether Secure Boot is on, and whether DKMS's own signing key is enrolled.

    Returns:
        `enabled` and `enrolled`; both False on a host without UEFI variables.
    """
    efi = root / "sys/firmware/efi/efivars"
    # Four bytes of attributes precede the value.
    enabled = _bytes(efi / _SECURE_BOOT)[4:] == b"\x01"
    enrolled = _bytes(efi / _MOK_LIST)
    keys = [_bytes(root / path) for path in _DKMS_KEYS]
    return {"enabled": enabled, "enrolled": any(key and key in enrolled for key in keys)}


def read_keyring(path: Path) -> list[str]:
    """Fingerprints in a keyring, empty without one or when it is damaged."""
    try:
        return openpgp.fingerprints(path.read_bytes())
    except (OSError, openpgp.KeyFileError):
        return []


def read_cuda(asked: Mapping[str, Any], root: Path = Path("/")) -> dict[str, Any]:
    """Read what a node has of NVIDIA. Nothing is changed.

    Args:
        asked: `keyring` (path of the repository's keyring).
        root: Root of the file system.

    Returns:
        `packages`, `module`, `library`, `secure_boot`, `sources`, `keyring`, `links`, `dpkg`
        (`interrupted`), `persistenced`, `kernel` (`release`, `headers`), `tools`, `boot_id`.
    """
    done = _run(["dpkg-query", "-W", _DPKG_FORMAT])
    release = platform.release()
    links = {
        path: str((root / path.lstrip("/")).readlink())
        for path in ("/usr/local/cuda", "/etc/alternatives/cuda", "/etc/alternatives/nvcc")
        if (root / path.lstrip("/")).is_symlink()
    }
    updates = root / "var/lib/dpkg/updates"
    return {
        "packages": parse_packages(done),
        "module": read_module(root),
        "library": read_library(root),
        "secure_boot": read_secure_boot(root),
        "sources": read_sources(root),
        "keyring": read_keyring(root / str(asked["keyring"]).lstrip("/")),
        "links": links,
        "dpkg": {"interrupted": updates.is_dir() and any(updates.iterdir())},
        "persistenced": _persistenced(),
        "kernel": {
            "release": release,
            "headers": (root / f"lib/modules/{release}/build").exists(),
        },
        "tools": {
            name: shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is not None
            for name in ("update-initramfs", "update-grub")
        },
        "boot_id": _text(root / "proc/sys/kernel/random/boot_id").strip(),
    }


def _persistenced() -> dict[str, str]:
    properties = "--property=LoadState,ActiveState,UnitFileState"
    shown = _run(["systemctl", "show", "nvidia-persistenced.service", properties])
    found = dict(line.partition("=")[::2] for line in shown.splitlines())
    return {
        "load_state": found.get("LoadState", ""),
        "active_state": found.get("ActiveState", ""),
        "unit_file_state": found.get("UnitFileState", ""),
    }


def _run(command: list[str]) -> str:
    try:
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=30, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", errors="replace")
