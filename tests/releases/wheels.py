# SPDX-License-Identifier: Apache-2.0
"""Real SGLang wheels from the package index, cached; nothing of them is in this repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("SGLANG_WHEEL_CACHE") or ROOT / ".cache" / "wheels")

# What the patches read: the model with its inner model's bases, the communicator, the version.
NEEDED = re.compile(
    r"sglang/(_?version\.py|srt/models/(kimi_k25|deepseek_v2)\.py|srt/models/deepseek_common/.*\.py"
    r"|srt/distributed/device_communicators/(all_reduce_utils|torch_symm_mem)\.py)\Z"
)

ALL = (
    "0.5.5.post3", "0.5.6", "0.5.6.post1", "0.5.6.post2", "0.5.7", "0.5.8", "0.5.8.post1",
    "0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12", "0.5.12.post1", "0.5.13",
    "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16", "0.5.17", "0.5.18", "0.5.19",
    "0.5.20", "0.5.21", "0.5.22", "0.5.23",
)  # fmt: skip
# An audit takes seconds: the release of the mission and the newest, unless all are asked for.
FEW_AUDITED = ("0.5.9", ALL[-1])
FEW = ("0.5.9", "0.5.10.post1", "0.5.12.post1", "0.5.14", ALL[-1])


def wheel(version: str) -> Path:
    """The wheel of a release, downloaded where it is not in the cache yet."""
    return _sglang_wheels.fetch(version, CACHE)


def msgspec() -> Path:
    """A folder with the package msgspec: releases from 0.5.20 on declare arguments with it."""
    target = CACHE / f"msgspec-py{sys.version_info.major}{sys.version_info.minor}"
    if not (target / "msgspec").is_dir():
        command = [*_sglang_wheels.PIP, "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--target", str(target), "msgspec"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return target


def unpack(version: str, target: Path, needed: re.Pattern[str] = NEEDED) -> Path:
    """Unpack what the patches read into ``target``; return the package folder."""
    with zipfile.ZipFile(wheel(version)) as archive:
        for name in archive.namelist():
            if needed.match(name):
                archive.extract(name, target)
    return target / "sglang"
