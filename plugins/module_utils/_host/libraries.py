# SPDX-License-Identifier: Apache-2.0
"""Find what puts another CUDA library in front of the driver's own.

A compatibility folder (package `cuda-compat-13-0`) holds a libcuda.so of its own. On the path it
replaces the driver's, and the engine dies at its first CUDA call when the two do not fit.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.tools import read_text

_INCLUDE_DEPTH = 4


def parse_loader_folders(text: str) -> tuple[list[str], list[str]]:
    """Parse ld.so.conf or a file that it includes.

    Args:
        text: Its content.

    Returns:
        Folders, and patterns of further files.
    """
    folders, includes = [], []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["include"]:
            includes += words[1:]
        elif words and words[0] != "hwcap":
            folders.append(words[0].split("=")[0])
    return folders, includes


def parse_environment(text: str) -> dict[str, str]:
    """Parse /etc/environment or systemd's Environment=: assignments in shell quoting."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    pairs = (word.removeprefix("export ").partition("=") for word in words)
    return {key: value for key, separator, value in pairs if separator}


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _loader_folders(root: Path) -> list[str]:
    folders: list[str] = []
    waiting, seen = [("etc/ld.so.conf", 0)], set()
    while waiting:
        name, depth = waiting.pop()
        if name in seen or depth > _INCLUDE_DEPTH:
            continue
        seen.add(name)
        found, includes = parse_loader_folders(read_text(root / name))
        folders += found
        for pattern in includes:
            relative = pattern.lstrip("/") if pattern.startswith("/") else f"etc/{pattern}"
            matches = sorted(root.glob(relative))
            waiting += [(str(match.relative_to(root)), depth + 1) for match in matches]
    return folders


def _has_driver_library(root: Path, folder: str) -> bool:
    return any(_inside(root, folder).glob("libcuda.so*"))


def compat_folders(root: Path, folders: list[str]) -> list[str]:
    """The folders that hold a libcuda.so of CUDA's compatibility package."""
    return sorted(
        {
            folder
            for folder in folders
            if folder.rstrip("/").endswith("/compat") and _has_driver_library(root, folder)
        }
    )


def read_libraries(root: Path, unit_environment: str) -> dict[str, Any]:
    """Read what the loader is told for every process and for the engine.

    Args:
        root: Root of the file system.
        unit_environment: What the engine's unit sets, as systemd prints it.

    Returns:
        `compat` (folders with a compatibility libcuda that the loader takes), `preload` (what
        /etc/ld.so.preload or an environment names, with its place), `paths` (LD_LIBRARY_PATH of
        the unit and of /etc/environment).
    """
    places: Mapping[str, dict[str, str]] = {
        "/etc/environment": parse_environment(read_text(root / "etc/environment")),
        "the unit": parse_environment(unit_environment),
        "/etc/sglang/engine.env": parse_environment(read_text(root / "etc/sglang/engine.env")),
    }
    paths = {
        place: values["LD_LIBRARY_PATH"]
        for place, values in places.items()
        if values.get("LD_LIBRARY_PATH")
    }
    preload = [
        f"{values['LD_PRELOAD']} ({place})"
        for place, values in places.items()
        if values.get("LD_PRELOAD")
    ]
    general = read_text(root / "etc/ld.so.preload").split()
    if general:
        preload.insert(0, f"{' '.join(general)} (/etc/ld.so.preload)")
    folders = _loader_folders(root) + [f for value in paths.values() for f in value.split(":") if f]
    return {"compat": compat_folders(root, folders), "preload": preload, "paths": paths}
