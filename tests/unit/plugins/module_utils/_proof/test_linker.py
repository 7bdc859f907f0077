# SPDX-License-Identifier: Apache-2.0
"""The loader's words are those of public reports; the thread stands with each."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._proof import linker
from hypothesis import given
from hypothesis import strategies as st

SITE = "/opt/sglang/releases/r1/venv/lib/python3.12/site-packages"
INSTALLED = {
    "torch": "2.11.0",
    "sglang-kernel": "0.4.1",
    "flashinfer-python": "0.6.11",
    "nvidia-nccl-cu13": "2.27.7",
    "torchvision": "0.24.1",
}
CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
LOGGER = "_ZN3c1013MessageLoggerC1EPKciib"


@pytest.mark.parametrize(
    ("error", "pair"),
    [
        # kvcache-ai/sglang#33: kernels built for another torch
        (
            f"{SITE}/sgl_kernel/sm90/common_ops.abi3.so: undefined symbol: {CHECK}",
            (
                "sglang-kernel 0.4.1 x torch 2.11.0: sgl_kernel/sm90/common_ops.abi3.so needs "
                "c10::cuda::c10_cuda_check_implementation(...)"
            ),
        ),
        # sglang#30562: the same, wrapped in the package's own long text
        (
            (
                "\n[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\nAttempted "
                f"locations:\n1. Specific pattern: {SITE}/sgl_kernel/sm100/common_ops.*\n"
                "Error details from previous import attempts:\n- ImportError: "
                f"{SITE}/sgl_kernel/common_ops.abi3.so: undefined symbol: {LOGGER}\n\nGPU Info:\n"
            ),
            (
                "sglang-kernel 0.4.1 x torch 2.11.0: sgl_kernel/common_ops.abi3.so needs "
                "c10::MessageLogger::MessageLogger(...)"
            ),
        ),
        # torch against another NCCL
        (
            f"{SITE}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister",
            (
                "torch 2.11.0 x nvidia-nccl-cu13 2.27.7: torch/lib/libtorch_cuda.so needs "
                "ncclCommWindowRegister"
            ),
        ),
        # sglang#8131: a driver that is too old
        (
            f"{SITE}/sgl_kernel/common_ops.abi3.so: undefined symbol: cuGreenCtxStreamCreate",
            "sglang-kernel 0.4.1 x the NVIDIA driver (libcuda): ",
        ),
        # sgl_kernel for CUDA 13 beside torch for CUDA 12
        (
            "libcudart.so.13: cannot open shared object file: No such file or directory",
            (
                "a package of the release x the CUDA 13 runtime (nvidia-cuda-runtime): "
                "libcudart.so.13 is not there"
            ),
        ),
        (
            (
                f"Failed to load {SITE}/sgl_kernel/common_ops.abi3.so: libnvrtc.so.12: cannot open "
                "shared object file: No such file or directory"
            ),
            "sglang-kernel 0.4.1 x the CUDA 12 compiler library (nvidia-cuda-nvrtc)",
        ),
        (
            "libcuda.so.1: cannot open shared object file: No such file or directory",
            "a package of the release x the NVIDIA driver (libcuda)",
        ),
        (
            "libnuma.so.1: cannot open shared object file: No such file or directory",
            "a package of the release x libnuma 1 of the system: libnuma.so.1 is not there. ",
        ),
        (
            (
                f"/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by "
                f"{SITE}/sglang/srt/grpc/_core.cpython-312-x86_64-linux-gnu.so)"
            ),
            (
                "sglang x the C library of this node: sglang/srt/grpc/_core.cpython-312-x86_64-"
                "linux-gnu.so needs GLIBC 2.34 or newer"
            ),
        ),
        (
            (
                f"/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found "
                f"(required by {SITE}/torch/lib/libtorch.so)"
            ),
            "torch 2.11.0 x the C++ library (libstdc++) of this node",
        ),
        (
            (
                f"{SITE}/torchvision/_C.so: undefined symbol: "
                "_ZNK3c1010TensorImpl39unchecked_is_contiguous_memory_formatEv"
            ),
            "torchvision 0.24.1 x torch 2.11.0: torchvision/_C.so needs c10::TensorImpl::unchecked",
        ),
    ],
)
def test_the_pair_is_named(error: str, pair: str) -> None:
    found = linker.explain(error, INSTALLED)
    assert found is not None
    assert found.sentence().startswith(pair), found.sentence()
    assert found.remedy


@pytest.mark.parametrize(
    "error", ["No module named 'sgl_kernel'", "", "cannot import name 'x' from 'sgl_kernel'"]
)
def test_other_words_are_not_the_loaders(error: str) -> None:
    assert linker.explain(error, INSTALLED) is None


def test_a_full_demangler_is_asked_where_there_is_one() -> None:
    found = linker.explain(f"{SITE}/torch/a.so: undefined symbol: {CHECK}", {}, lambda _: "f(int)")
    assert found is not None
    assert "needs f(int), which" in found.missing


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (CHECK, "c10::cuda::c10_cuda_check_implementation(...)"),
        (LOGGER, "c10::MessageLogger::MessageLogger(...)"),
        ("_ZN3c1013MessageLoggerD1Ev", "c10::MessageLogger::~MessageLogger(...)"),
        ("_Z4funci", "func(...)"),
        ("_ZSt4moveIRiE", "std::move(...)"),
        ("_ZN5torch8autogradE", "torch::autograd(...)"),
    ],
)
def test_the_readable_part_of_a_name(symbol: str, name: str) -> None:
    assert linker.readable(symbol) == f"{name} [{symbol}]"
    if shutil.which("c++filt"):
        done = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True)
        assert name.removesuffix("(...)") in done.stdout


@pytest.mark.parametrize("symbol", ["ncclCommInit", "_ZN99c10E", "_Z", "_ZTV3foo", "", "_ZNK"])
def test_what_is_not_read_comes_back_as_it_is(symbol: str) -> None:
    assert linker.readable(symbol) == symbol


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader(text: str) -> None:
    linker.explain(text, INSTALLED)
    assert linker.readable("_ZN" + text)
