# SPDX-License-Identifier: Apache-2.0
"""What the engine's main process really runs with, whatever its files say now."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._node.service import parse_environ

PROGRAM = "sglang.launch_server"
_CHUNK = 1 << 16


def digest(value: str) -> str:
    """What stands for a variable's value, which may be a secret."""
    return hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]


def read(pid: int, root: Path, proc: Path = Path("/proc")) -> dict[str, Any]:
    """Read a process.

    Args:
        pid: The unit's main process, 0 without one.
        root: The product's folder.
        proc: The folder /proc.

    Returns:
        `arguments`, the words after the engine's own module, None where the process shows none (it
        gave itself a title); `environment`, variable to the digest of its value; `release`, the
        one that its libraries were loaded from, empty where it has none.
    """
    place = proc / str(pid)
    try:
        words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        environment = parse_environ((place / "environ").read_bytes())
    except OSError:
        return {"arguments": None, "environment": {}, "release": ""}
    at = words.index(PROGRAM) + 1 if PROGRAM in words else None
    return {
        "arguments": None if at is None else words[at:],
        "environment": {name: digest(value) for name, value in environment.items()},
        "release": _release(place, root),
    }


def _release(place: Path, root: Path) -> str:
    """The kernel names libraries by their real path, whatever `current` points to meanwhile."""
    wanted = re.compile(re.escape(f"{root}/releases/").encode() + rb"([^/\n]+)/venv/")
    rest = b""
    try:
        with (place / "maps").open("rb") as stream:
            while block := stream.read(_CHUNK):
                found = wanted.search(rest + block)
                if found:
                    return found[1].decode(errors="replace")
                rest = block[-512:]
    except OSError:
        pass
    return ""


def differences(
    seen: Mapping[str, Any],
    arguments: list[str],
    environment: Mapping[str, str],
    release: str,
) -> list[str]:
    """What a process was started with that its files do not say.

    Args:
        seen: What `read` gives.
        arguments: The wanted arguments; the credential's file is left out of the comparison.
        environment: The wanted variables.
        release: The wanted release.

    Returns:
        Phrases.
    """
    found = []
    if seen["release"] not in ("", release):
        found.append(f"runs from release {seen['release']}")
    words = seen["arguments"]
    if words is not None and _without_config(words) != _without_config(arguments):
        found.append("was started with other arguments than its unit has")
    other = sorted(
        name
        for name, value in environment.items()
        if seen["environment"].get(name) != digest(value)
    )
    if seen["environment"] and other:
        more = ", ..." if len(other) > 3 else ""
        found.append(f"was started with another {', '.join(other[:3])}{more}")
    return found


def _without_config(words: list[str]) -> list[str]:
    if "--config" not in words:
        return words
    at = words.index("--config")
    return words[:at] + words[at + 2 :]
