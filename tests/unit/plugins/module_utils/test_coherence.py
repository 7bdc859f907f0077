# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils import _coherence, _stack
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin, Stack

STACKS = Path(__file__).parents[4] / "roles/engine_release/files/stacks"
WHERE = "x.lock"


def shipped(name: str, python: str = "312") -> tuple[Stack, dict[str, str]]:
    stack = _stack.parse_stack(yaml.safe_load((STACKS / f"{name}.yml").read_text()), name)
    lock = (STACKS / f"{name}-py{python}.lock").read_text()
    return stack, {pin.name: pin.version for pin in _stack.parse_lock(lock, name)}


def problems(stack: Stack, locked: dict[str, str], python: str = "3.12") -> list[str]:
    pins = [Pin(name, version) for name, version in locked.items()]
    return _coherence.check(stack, pins, python, WHERE)


@pytest.mark.parametrize(
    ("name", "change", "pair"),
    [
        # a resolver left alone did this to 0.5.23
        (
            "sglang-0.5.23",
            {"nvidia-cuda-crt": "13.5.37"},
            "nvidia-cuda-nvcc 13.0.88 x nvidia-cuda-crt 13.5.37",
        ),
        ("sglang-0.5.23", {"nvidia-nvvm": None}, "nvidia-cuda-nvcc 13.0.88 x nvidia-nvvm: "),
        ("sglang-0.5.23", {"torch": "2.13.0"}, "sglang 0.5.23 x torch: the release pins 2.14.1"),
        (
            "sglang-0.5.23",
            {"transformers": "5.12.1"},
            "sglang 0.5.23 x transformers: the release pins 5.19.0, the stack has 5.12.1",
        ),
        # a later pin replaced the kernel (sglang#12723)
        (
            "sglang-0.5.9-cu130",
            {"sgl-kernel": "0.3.21"},
            "CUDA 13 x sgl-kernel 0.3.21: this build is for CUDA 12",
        ),
        ("sglang-0.5.9-cu130", {"torch": "2.9.1"}, "CUDA 13 x torch 2.9.1: this build is for CUDA"),
        (
            "sglang-0.5.9-cu130",
            {"torch": "2.9.1+cpu"},
            "torch 2.9.1+cpu: this build is for the CPU",
        ),
        (
            "sglang-0.5.9-cu130",
            {"cuda-python": "12.9.0"},
            "CUDA 13 x cuda-python 12.9.0: bindings of another major version",
        ),
        (
            "sglang-0.5.12.post1",
            {"nvidia-nccl-cu12": "2.27.5"},
            "CUDA 13 x nvidia-nccl-cu12 2.27.5: a library of CUDA 12",
        ),
        (
            "sglang-0.5.12.post1",
            {"flashinfer-python": "0.6.12"},
            "sglang 0.5.12.post1 x flashinfer-python: the release pins 0.6.11.post1",
        ),
        (
            "sglang-0.5.12.post1",
            {"flashinfer-jit-cache": "0.6.11.post1+cu129"},
            "CUDA 13 x flashinfer-jit-cache 0.6.11.post1+cu129",
        ),
        ("sglang-0.5.10.post1", {"torch": "2.9.1+cu130"}, "CUDA 12 x torch 2.9.1+cu130"),
        (
            "lab-0.5.9",
            {"nvidia-nccl-cu13": "2.27.7"},
            "is for the CPU, but pins NVIDIA's libraries",
        ),
    ],
)
def test_a_mismatch_names_the_pair(name: str, change: dict[str, str | None], pair: str) -> None:
    stack, locked = shipped(name)
    assert problems(stack, locked) == []
    changed = {k: v for k, v in {**locked, **change}.items() if v is not None}
    found = problems(stack, changed)
    assert any(pair in sentence for sentence in found), found
    assert all(sentence.startswith(f"{WHERE}: ") for sentence in found)


@pytest.mark.parametrize(
    ("change", "python", "pair"),
    [
        ({"minimum_driver": "570"}, "3.12", "CUDA 13 x driver 570: CUDA 13 needs driver 580"),
        ({"glibc": "2.31"}, "3.12", "sglang 0.5.23 x glibc 2.31: the release's wheel needs 2.34"),
        ({}, "3.11", "sglang 0.5.23 x Python 3.11: the release's only wheel is for Python 3.12"),
        ({"toolkit": None}, "3.12", "the stack names toolkit (none), the lock pins"),
        ({"cuda": 12}, "3.12", "CUDA 12 x torch 2.14.1: this build is for CUDA 13"),
        ({"deviations": {"torch": "old"}}, "3.12", "'deviations' names torch, where the stack"),
        ({"accelerator": "cpu"}, "3.12", "torch 2.14.1 is not a CPU build"),
    ],
)
def test_the_stack_file_is_judged_too(change: dict[str, object], python: str, pair: str) -> None:
    stack, locked = shipped("sglang-0.5.23")
    found = problems(replace(stack, **change), locked, python)  # type: ignore[arg-type]
    assert any(pair in sentence for sentence in found), found


def test_a_stated_deviation_is_allowed_and_only_that() -> None:
    stack, locked = shipped("lab-0.5.9")
    assert problems(stack, locked) == []
    fewer = {key: reason for key, reason in stack.deviations.items() if key != "torch"}
    (found,) = problems(replace(stack, deviations=fewer), locked)
    assert "sglang 0.5.9 x torch: the release pins 2.9.1, the stack has 2.13.0" in found
    assert "'torch' under 'deviations'" in found


def test_an_old_python_is_refused_for_a_release_without_tags() -> None:
    stack, locked = shipped("sglang-0.5.10.post1")
    assert problems(stack, locked, "3.11") == []
    (found,) = problems(stack, locked, "3.9")
    assert "sglang 0.5.10.post1 x Python 3.9: the release needs 3.10 or newer" in found


def test_a_release_without_facts_is_judged_by_its_lock_alone() -> None:
    stack, locked = shipped("sglang-0.5.23")
    unknown = replace(stack, sglang="0.9.0", glibc="2.28")
    assert problems(unknown, {**locked, "torch": "2.20.0"}) == []


@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [
        ("torch", "2.9.1+cu130", 13),
        ("torch", "2.9.1+cu128", 12),
        ("torch", "2.10.0", 12),
        ("torch", "2.11.0", 13),
        ("torch", "2.13.0+cpu", None),
        ("sglang-kernel", "0.4.1", 12),
        ("sglang-kernel", "0.4.2", 13),
        ("sgl-kernel", "0.3.21+lab.cpu", None),
    ],
)
def test_the_cuda_of_a_wheel(package: str, version: str, expected: int | None) -> None:
    assert _coherence.cuda_major(package, version) == expected
