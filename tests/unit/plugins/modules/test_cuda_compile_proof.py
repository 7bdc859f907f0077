# SPDX-License-Identifier: Apache-2.0
"""The module with programs that print what NVIDIA's print; the real ones run in the lab."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.modules import cuda_compile_proof

RECORDINGS = Path(__file__).parents[3] / "recordings/cuda"


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    folder = tmp_path / "cuda/bin"
    folder.mkdir(parents=True)
    scripts = {
        "nvcc": f"""#!/bin/sh
if [ "$1" = --version ]; then exec cat {RECORDINGS}/nvcc-13.0.txt; fi
wanted="-gencode arch=compute_120,code=sm_120 -c kernel.cu -o kernel.o"
[ -s kernel.cu ] && [ "$*" = "$wanted" ] || exit 9
[ "$CUDA_HOME" = {tmp_path}/cuda ] && [ "$HOME" = "$PWD" ] || exit 8
id -un > kernel.o
""",
        "cuobjdump": f"""#!/bin/sh
[ "$1" = --list-elf ] && [ "$(cat "$2")" = "$EXPECTED_USER" ] || exit 7
exec cat {RECORDINGS}/list-elf-sm120.txt
""",
    }
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o055)
        if place.name.startswith("pytest-of"):
            break
    return folder


def asked(toolkit: Path, user: str, more: dict[str, Any]) -> dict[str, Any]:
    environment = {"EXPECTED_USER": user}
    plain = {"nvcc": str(toolkit / "nvcc"), "version": "13.0", "user": user}
    return {**plain, "environment": environment, **more}


def test_it_compiles_as_the_user(run_module: Any, toolkit: Path) -> None:
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    found = run_module(cuda_compile_proof, asked(toolkit, user, {}), check=True)
    assert found["version"] == "13.0.88", found
    assert found["elf"] == ["kernel.1.sm_120.cubin"]
    assert found["changed"] is False


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"version": "13.1"}, "is version 13.0.88, 13.1 is wanted"),
        ({"nvcc": "/nowhere/nvcc"}, "/nowhere/nvcc is not there"),
        ({"cuobjdump": "/nowhere/cuobjdump"}, "install cuda-cuobjdump"),
        ({"architecture": "12.0"}, "write it like sm_120"),
        ({"user": "no-such-user-here"}, "no-such-user-here"),
    ],
)
def test_what_is_wrong_is_said(
    run_module: Any, toolkit: Path, more: dict[str, Any], says: str
) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert says in run_module(cuda_compile_proof, asked(toolkit, me, more))["msg"]
