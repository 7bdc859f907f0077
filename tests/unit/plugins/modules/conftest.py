# SPDX-License-Identifier: Apache-2.0
"""A release's wheels, made by hand, and the real uv in a wheel like its own."""

from __future__ import annotations

import hashlib
import os
import pwd
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import uv
from ansible_collections.sm120.sglang.plugins.modules import engine_switch

from tests.unit.plugins.module_utils._node.test_processes import RECORDINGS
from tests.unit.plugins.modules.switch_place import OLD, Place

ENGINE = {
    "sglang/srt/__init__.py": "",
    "sglang/srt/server_args.py": "class ServerArgs:\n    pass\n",
    "sglang/srt/models/kimi_k25.py": "class Kimi:\n    pass\n",
}


@pytest.fixture(scope="session")
def uv_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uv that the controller has, where a wheel keeps it."""
    path = tmp_path_factory.mktemp("uv") / "uv-1-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(uv.find_uv_bin(), "uv-1.data/scripts/uv")
    return path


@pytest.fixture
def build_arguments(tmp_path: Path, uv_wheel: Path, make_wheel: Any) -> dict[str, Any]:
    """Parameters of release_build for a small engine with what it imports."""
    root, wheels = tmp_path / "product", tmp_path / "product/wheels"
    made = [
        make_wheel(wheels, "sglang", "0.5.9", ENGINE),
        make_wheel(wheels, "torch", "2.13.0+cpu"),
        make_wheel(wheels, "transformers", "4.57.6"),
        make_wheel(wheels, "other-stack", "9"),  # another release's: it stays out
    ]
    os.link(uv_wheel, wheels / uv_wheel.name)
    pins = ["sglang==0.5.9", "torch==2.13.0+cpu", "transformers==4.57.6"]
    lines = [
        f"{pin} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for pin, path in zip(pins, made, strict=False)
    ]
    return {
        "root": str(root),
        "release": "lab-0123456789ab",
        "python": sys.executable,
        "wheels": str(wheels),
        "requirements": "".join(lines),
        "uv_wheel": uv_wheel.name,
    }


@pytest.fixture
def seal_arguments(build_arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "root": build_arguments["root"],
        "release": build_arguments["release"],
        "user": pwd.getpwuid(os.geteuid()).pw_name,
    }


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_module: Any) -> Place:
    found = Place(tmp_path)
    monkeypatch.setenv("PATH", f"{found.bin}:/usr/bin:/bin")
    done = run_module(engine_switch, found.arguments(OLD, "r1"))
    assert done["changed"]
    found.log.unlink()
    return found


@pytest.fixture
def full_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for nvidia-smi: the two recorded cards, without room for anything."""
    recorded = (RECORDINGS / "gpus-held.txt").read_text()
    cards = recorded.replace("35610", "900").replace("143153", "2047")
    smi = tmp_path / "cards" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f'#!/bin/sh\ncase "$1" in --query-gpu=*) cat <<E\n{cards}E\n;; esac\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
