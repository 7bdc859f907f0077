# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import proof

RECORDINGS = Path(__file__).parents[4] / "recordings/cuda"
ASKED = {
    "nvcc": "/cuda/bin/nvcc",
    "cuobjdump": "/cuda/bin/cuobjdump",
    "version": "13.0",
    "architecture": "sm_120",
    "user": "sglang",
}


def recorded(name: str, code: int = 0) -> proof.Ran:
    return proof.Ran(code, (RECORDINGS / f"{name}.txt").read_text())


GOOD = recorded("nvcc-13.0")
ELF = recorded("list-elf-sm120")
FINE = proof.Ran(0, "")


def test_a_good_compiler_is_proved() -> None:
    assert proof.judge(ASKED, GOOD, FINE, ELF) == []
    assert proof.parse_nvcc_version(GOOD.output) == "13.0.88"
    assert proof.parse_list_elf(ELF.output) == ["kernel.1.sm_120.cubin"]


@pytest.mark.parametrize(
    ("version", "compiled", "listed", "says"),
    [
        (proof.Ran(127, ""), None, None, "/cuda/bin/nvcc is not there"),
        (proof.Ran(126, "Permission denied"), None, None, "may not read or run it"),
        (proof.Ran(0, "what?"), None, None, "it does not run (what?)"),
        (
            GOOD,
            recorded("nvcc-unknown-architecture", 1),
            None,
            "does not know the card's architecture",
        ),
        (GOOD, recorded("nvcc-no-host-compiler", 1), None, "install g++"),
        (GOOD, recorded("nvcc-no-runtime-headers", 1), None, "nvidia-cuda-runtime"),
        (GOOD, recorded("nvcc-no-crt", 1), None, "nvidia-cuda-crt"),
        (GOOD, recorded("nvcc-no-nvvm", 127), None, "nvidia-nvvm"),
        (GOOD, proof.Ran(124, "no end after 120 s"), None, "compiling failed (no end after"),
        (GOOD, FINE, proof.Ran(127, ""), "install cuda-cuobjdump"),
        (GOOD, FINE, proof.Ran(0, ""), "sees no cubin and not sm_120"),
        (GOOD, FINE, proof.Ran(0, "ELF file    1: k.1.sm_90.cubin\n"), "sees sm_90 and not"),
    ],
)
def test_each_failure_is_named(
    version: proof.Ran, compiled: proof.Ran | None, listed: proof.Ran | None, says: str
) -> None:
    (sentence,) = proof.judge(ASKED, version, compiled, listed)
    assert says in sentence


def test_another_version_is_refused_before_compiling() -> None:
    (sentence,) = proof.judge({**ASKED, "version": "13.1"}, GOOD, None, None)
    assert "is version 13.0.88, 13.1 is wanted" in sentence
    assert proof.version_fits("13.0.88", "13")
    assert proof.version_fits("13.0.88", "13.0.88")
    assert not proof.version_fits("13.10.1", "13.1")


def test_architectures() -> None:
    assert proof.gencode("sm_120") == "arch=compute_120,code=sm_120"
    assert proof.gencode("sm_120a") == "arch=compute_120a,code=sm_120a"
    with pytest.raises(ValueError, match="write it like sm_120"):
        proof.gencode("12.0")
