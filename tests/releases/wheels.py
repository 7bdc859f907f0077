# SPDX-License-Identifier: Apache-2.0
"""Real SGLang wheels from the package index, cached; nothing of them is in this repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("SGLANG_WHEEL_CACHE") or ROOT / ".cache" / "wheels")

# From 0.5.11 on the wheels are tagged for Python 3.12; `pip download` gets them by that tag.
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

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
FEW = ("0.5.9", "0.5.10.post1", "0.5.12.post1", "0.5.14", ALL[-1])


def wheel(version: str) -> Path:
    """The wheel of a release, downloaded where it is not in the cache yet."""
    for _ in range(2):
        found = sorted(CACHE.glob(f"sglang-{version}-*.whl"))
        if found:
            return found[0]
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [*PIP, "download", "--quiet", "--no-deps", "--python-version", "3.12"]
        command += ["--only-binary=:all:", "--dest", str(CACHE), f"sglang=={version}"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    raise FileNotFoundError(f"pip downloaded no wheel of sglang {version}")


def msgspec() -> Path:
    """A folder with the package msgspec: releases from 0.5.20 on declare arguments with it."""
    target = CACHE / f"msgspec-py{sys.version_info.major}{sys.version_info.minor}"
    if not (target / "msgspec").is_dir():
        command = [*PIP, "install", "--quiet", "--no-deps", "--only-binary=:all:"]
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


def newest() -> str:
    """The newest version on the index."""
    done = subprocess.run(
        [*PIP, "index", "versions", "--python-version", "3.12", "--only-binary=:all:", "sglang"],
        check=True,
        capture_output=True,
        text=True,
    )
    match = re.search(r"Available versions: ([^,\s]+)", done.stdout)
    if match is None:
        raise LookupError(f"the index lists no version of sglang: {done.stdout}")
    return match.group(1)
