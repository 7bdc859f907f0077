# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._proof import imports
from ansible_collections.sm120.sglang.plugins.module_utils._proof.probe_imports import MARKER
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin

LOCK = [Pin("torch", "2.9.1+cu130"), Pin("sgl-kernel", "0.3.21+cu130")]
INSTALLED = {"torch": "2.9.1+cu130", "Sgl_Kernel": "0.3.21+cu130"}
GPU = {"gpu": 0, "name": "NVIDIA RTX PRO 6000", "capability": [12, 0], "right": True}
GPUS = {"gpus": [GPU], "architectures": ["sm_90", "sm_120"], "cuda": "13.0", "seconds": 1.0}
GOOD: list[dict[str, Any]] = [
    {"installed": INSTALLED, "python": "3.12.3"},
    {"module": "torch", "version": "2.9.1+cu130", "seconds": 3.0},
    {"module": "sgl_kernel", "version": "0.3.21", "seconds": 1.0},
    GPUS,
    {"triton": {"version": "3.5.1", "right": True}},
    {"step": "end"},
]


def text(answers: list[dict[str, Any]]) -> str:
    return "a warning of a package\n" + "".join(f"{MARKER}{json.dumps(a)}\n" for a in answers)


def judge(answers: list[dict[str, Any]], ended: str = "") -> list[str]:
    return imports.judge(imports.read_report(text(answers)), LOCK, True, ended)


def test_a_release_that_works() -> None:
    assert judge(GOOD) == []


def test_a_replaced_kernel_is_named_with_wanted_and_found() -> None:
    changed = {**INSTALLED, "Sgl_Kernel": "0.3.21", "pip": "25.0"}
    found = judge([{"installed": changed, "python": "3.12.3"}, *GOOD[1:]])
    assert found == [
        "sgl-kernel: the lock says 0.3.21+cu130, installed is 0.3.21",
        "pip 25.0: installed, but not in the lock",
    ]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            {"architectures": ["sm_80", "sm_90", "compute_90"]},
            "no code for capability 12.0 (sm_120)",
        ),
        ({"gpus": []}, "torch 2.9.1+cu130 (CUDA 13.0) sees no GPU as the engine's user"),
        ({"gpus": [{**GPU, "right": False}]}, "GPU 0 (NVIDIA RTX PRO 6000): a kernel gave a wrong"),
        (
            {"gpus": [GPU, {"gpu": 1, "error": "AcceleratorError: device busy"}]},
            "GPU 1 (unknown): AcceleratorError: device busy",
        ),
    ],
)
def test_a_gpu_that_does_not_compute(change: dict[str, Any], part: str) -> None:
    (found,) = judge([*GOOD[:3], {**GPUS, **change}, *GOOD[4:]])
    assert part in found


def test_a_failed_import_names_the_pair_or_the_last_line() -> None:
    broken = {
        "module": "sgl_kernel",
        "type": "ImportError",
        "error": "x\n/v/site-packages/sgl_kernel/o.so: undefined symbol: _ZN3c104cuda4failEv",
    }
    (found,) = judge([*GOOD[:2], broken, *GOOD[3:]])
    assert found.startswith(
        "import sgl_kernel: sgl-kernel 0.3.21+cu130 x torch 2.9.1+cu130: sgl_kernel/o.so needs "
        "c10::cuda::fail(...)"
    )
    (found,) = judge([*GOOD[:2], {**broken, "error": "one\nlast words"}, *GOOD[3:]])
    assert found == "import sgl_kernel: ImportError: last words"


@pytest.mark.parametrize(
    ("status", "timed_out", "stderr", "words"),
    [
        (0, False, "", ""),
        (-11, False, "", "was ended by SIGSEGV"),
        (-9, True, "", "did not end within 300 s"),
        (1, False, "Traceback\nMemoryError", "failed (MemoryError)"),
        (1, False, "", "failed (status 1)"),
    ],
)
def test_how_a_program_ended(status: int, timed_out: bool, stderr: str, words: str) -> None:
    found = imports.how_it_ended(status, timed_out, 300.0, stderr)
    assert words in found
    assert bool(found) == bool(words)


def test_a_crash_tells_its_step() -> None:
    # pytorch#176426: Triton died with a segmentation fault on this capability.
    found = judge([*GOOD[:4], {"step": "triton"}], "was ended by SIGSEGV")
    assert found == ["the proof was ended by SIGSEGV in step 'triton'"]


def test_silence_is_no_proof() -> None:
    assert judge([]) == ["the proof ended in step 'start' without a word"]
    assert judge([*GOOD[:-1], {"step": "import", "module": "flashinfer"}]) == [
        "the proof ended in step 'import flashinfer' without a word"
    ]


@pytest.mark.parametrize(
    ("architectures", "capability", "covered"),
    [
        (["sm_90", "sm_120"], (12, 0), True),
        (["sm_120"], (12, 1), True),
        (["sm_121"], (12, 0), False),
        (["sm_120a"], (12, 0), True),
        (["sm_90", "compute_120"], (12, 0), False),
        (["sm_100"], (12, 0), False),
        (["sm_90"], (9, 0), True),
        ([], (9, 0), False),
    ],
)
def test_which_build_runs_where(
    architectures: list[str], capability: tuple[int, int], covered: bool
) -> None:
    assert imports.covers(architectures, *capability) == covered
