# SPDX-License-Identifier: Apache-2.0
"""Do the parts of a stack belong together? Decided from the stack and one lock, without a host.

What a release asks for stands in `RELEASES`, read from the metadata of the published wheels
(`tests/releases/test_requirements.py` compares). All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._stack import (
    Pin,
    Stack,
    normalise,
    version_key,
)


@dataclass(frozen=True)
class Requirements:
    """What one SGLang release asks for.

    Attributes:
        torch: torch's public version.
        flashinfer: Version of the flashinfer packages.
        kernels: Kernel package and version.
        transformers: transformers' version.
        cuda_python: Major version of cuda-python.
        python: Oldest Python; with `only`, the one Python that there is a wheel for.
        only: Whether the wheel is for `python` alone.
        glibc: Oldest C library of the wheel.
    """

    torch: str
    flashinfer: str
    kernels: str
    transformers: str
    cuda_python: int
    python: str = "3.12"
    only: bool = True
    glibc: str = "2.34"


# 0.5.9 and 0.5.10 are py3-none-any; from 0.5.11 on the index has cp312-manylinux_2_34 alone.
RELEASES: Mapping[str, Requirements] = {
    "0.5.9": Requirements(
        "2.9.1", "0.6.3", "sgl-kernel==0.3.21", "4.57.1", 12, "3.10", only=False, glibc="2.28"
    ),
    "0.5.10.post1": Requirements(
        "2.9.1",
        "0.6.7.post3",
        "sglang-kernel==0.4.1",
        "5.3.0",
        12,
        "3.10",
        only=False,
        glibc="2.28",
    ),
    "0.5.12.post1": Requirements(
        "2.11.0", "0.6.11.post1", "sglang-kernel==0.4.2.post2", "5.6.0", 13
    ),
    "0.5.14": Requirements("2.11.0", "0.6.12", "sglang-kernel==0.4.4", "5.8.1", 13),
    "0.5.16": Requirements("2.11.0", "0.6.14", "sglang-kernel==0.4.5", "5.12.1", 13),
    "0.5.18": Requirements("2.13.0", "0.6.17", "sglang-kernel==0.4.6.post1", "5.12.1", 13),
    "0.5.20": Requirements("2.13.0", "0.6.18", "sglang-kernel==0.4.7", "5.12.1", 13),
    "0.5.23": Requirements("2.14.1", "0.7.2", "sglang-kernel==0.4.10", "5.19.0", 13),
}
# The main index's torch moved to CUDA 13 with 2.11 (its metadata asks for nvidia-nccl-cu13), the
# kernels with 0.4.2 (libcudart.so.13 among their needed libraries).
_CUDA_13_FROM = {"torch": (2, 11), "sgl-kernel": (0, 4, 2), "sglang-kernel": (0, 4, 2)}
# Oldest driver branch by CUDA major version (NVIDIA's CUDA release notes, "minimum required
# driver"); for CUDA 12 the oldest that knows Blackwell.
MINIMUM_DRIVER = {12: "570", 13: "580"}
_TOOLKIT = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime")
_LABEL = re.compile(r"\+cu(\d\d)\d$")
_SUFFIX = re.compile(r"^(?!nvidia-cutlass-dsl-libs-).*-cu(\d\d)$")


def check(stack: Stack, pins: Iterable[Pin], python: str, where: str) -> list[str]:
    """Judge a stack with the lock of one Python.

    Args:
        stack: The stack.
        pins: The lock's pins.
        python: The lock's Python version.
        where: The lock's name, for messages.

    Returns:
        One sentence a problem, each naming the two that do not belong together.
    """
    locked = {pin.name: pin.version for pin in pins}
    problems = list(_against_release(stack, locked, python))
    problems += _against_toolkit(stack, locked)
    if stack.accelerator == "cuda" and stack.cuda is not None:
        problems += _against_cuda(stack, stack.cuda, locked)
    elif any(_SUFFIX.match(name) for name in locked):
        problems.append(f"stack {stack.name} is for the CPU, but pins NVIDIA's libraries")
    if stack.accelerator == "cpu" and not stack.torch.endswith("+cpu"):
        problems.append(
            f"stack {stack.name} is for the CPU, but torch {stack.torch} is not a CPU build (+cpu)"
        )
    return [f"{where}: {problem}" for problem in problems]


def _against_release(stack: Stack, locked: Mapping[str, str], python: str) -> Iterator[str]:
    asked = RELEASES.get(stack.sglang)
    if asked is None:
        return
    kernel = normalise(asked.kernels.partition("==")[0])
    pairs = {
        "torch": ("torch", asked.torch),
        "transformers": ("transformers", asked.transformers),
        "kernels": (kernel, asked.kernels.partition("==")[2]),
        "flashinfer": ("flashinfer-python", asked.flashinfer),
    }
    differs = set()
    for subject, (package, version) in pairs.items():
        found = locked.get(package, "nothing").partition("+")[0]
        if found != version:
            differs.add(subject)
            if subject not in stack.deviations:
                yield (
                    f"sglang {stack.sglang} x {package}: the release pins {version}, the stack has "
                    f"{found}; take the release's, or name '{subject}' under 'deviations' with the "
                    "reason"
                )
    found = locked.get("cuda-python", "")
    if found and version_key(found)[0] != asked.cuda_python:
        differs.add("cuda-python")
        if "cuda-python" not in stack.deviations:
            yield (
                f"sglang {stack.sglang} x cuda-python: the release asks for {asked.cuda_python}.x, "
                f"the stack has {found}; name 'cuda-python' under 'deviations' with the reason"
            )
    for subject in sorted(set(stack.deviations) - differs - {"python"}):
        yield f"'deviations' names {subject}, where the stack does not deviate; remove it"
    if asked.only:
        if python != asked.python and "python" not in stack.deviations:
            yield (
                f"sglang {stack.sglang} x Python {python}: the release's only wheel is for Python "
                f"{asked.python}"
            )
    elif version_key(python) < version_key(asked.python):
        yield f"sglang {stack.sglang} x Python {python}: the release needs {asked.python} or newer"
    if version_key(stack.glibc) < version_key(asked.glibc):
        yield (
            f"sglang {stack.sglang} x glibc {stack.glibc}: the release's wheel needs {asked.glibc}"
        )


def cuda_major(package: str, version: str) -> int | None:
    """The CUDA major version that a torch or kernel wheel is built for.

    Args:
        package: `torch` or a kernel package.
        version: Its version, local label included.

    Returns:
        12 or 13; from the label (`+cu130`), else from what the main index has; None for a CPU
        build.
    """
    label = _LABEL.search(version)
    if label:
        return int(label[1])
    if "+" in version:
        return None
    first = _CUDA_13_FROM.get(package)
    return 13 if first is None or version_key(version) >= first else 12


def _against_cuda(stack: Stack, cuda: int, locked: Mapping[str, str]) -> Iterator[str]:
    for package in ("torch", normalise(stack.kernels.partition("==")[0])):
        version = locked.get(package, "")
        found = cuda_major(package, version)
        if version and found != cuda:
            yield (
                f"CUDA {cuda} x {package} {version}: this build is for "
                f"{f'CUDA {found}' if found else 'the CPU'}"
            )
    for name, version in sorted(locked.items()):
        suffix = _SUFFIX.match(name)
        if suffix and int(suffix[1]) != cuda:
            yield f"CUDA {cuda} x {name} {version}: a library of CUDA {suffix[1]}"
    bindings = locked.get("cuda-python", "")
    if bindings and version_key(bindings)[0] != cuda:
        yield f"CUDA {cuda} x cuda-python {bindings}: bindings of another major version"
    cache = locked.get("flashinfer-jit-cache", "")
    if cache and cuda_major("flashinfer-jit-cache", cache) != cuda:
        yield f"CUDA {cuda} x flashinfer-jit-cache {cache}: kernels of another CUDA version"
    oldest = MINIMUM_DRIVER.get(cuda)
    driver = stack.minimum_driver or "0"
    if oldest and version_key(driver) < version_key(oldest):
        yield f"CUDA {cuda} x driver {driver}: CUDA {cuda} needs driver {oldest} or newer"


def _against_toolkit(stack: Stack, locked: Mapping[str, str]) -> Iterator[str]:
    nvcc = locked.get("nvidia-cuda-nvcc")
    if stack.toolkit != nvcc:
        yield (
            f"the stack names toolkit {stack.toolkit or '(none)'}, the lock pins nvidia-cuda-nvcc "
            f"{nvcc or '(not at all)'}"
        )
    if nvcc is None:
        return
    # A compiler and headers of different minor versions refuse each other (flashinfer#3493), and
    # a resolver left alone takes the newest of each.
    for name in _TOOLKIT:
        found = locked.get(name)
        if found is None:
            yield f"nvidia-cuda-nvcc {nvcc} x {name}: the toolkit lacks it"
        elif version_key(found)[:2] != version_key(nvcc)[:2]:
            yield (
                f"nvidia-cuda-nvcc {nvcc} x {name} {found}: one toolkit has one minor version; pin "
                "both in the stack's .in file"
            )
