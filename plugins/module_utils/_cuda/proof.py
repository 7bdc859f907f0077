# SPDX-License-Identifier: Apache-2.0
"""Prove a CUDA compiler: parse what nvcc and cuobjdump say, and judge it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# No includes and no library calls: it needs the compiler and its own headers, nothing else.
KERNEL = """\
extern "C" __global__ void scale_and_add(int count, float factor, const float *x, float *y) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) y[index] = factor * x[index] + y[index];
}
"""

# (what the tools print, what it means and what to do about it)
_CAUSES = (
    (
        r"Unsupported gpu architecture|is not defined for option 'gpu-architecture'",
        (
            "this nvcc does not know the card's architecture; CUDA 12.8 is the first that knows "
            "sm_120: install CUDA 13"
        ),
    ),
    (
        (
            r"Failed to preprocess host compiler|(gcc|g\+\+|cc1plus|c\+\+).{0,40}"
            r"(No such file|not found)|cannot find compiler"
        ),
        "nvcc finds no host compiler: install g++ (it is in cuda_stack_packages)",
    ),
    (
        r"unsupported GNU version|host compiler targets unsupported",
        (
            "the host's g++ is newer than this nvcc allows: install an older g++ beside it, or a "
            "newer CUDA"
        ),
    ),
    (
        r"cuda_runtime\.h: No such file",
        (
            "the CUDA runtime's headers are missing: install cuda-cudart-dev of the same version, "
            "or the wheel nvidia-cuda-runtime"
        ),
    ),
    (
        r"crt/host_config\.h: No such file|host_defines\.h: No such file",
        (
            "the compiler's own headers are missing: install cuda-crt of the same version, or the "
            "wheel nvidia-cuda-crt"
        ),
    ),
    (
        r"cicc.{0,20}not found|libdevice",
        (
            "the device compiler is missing: install libnvvm of the same version, or the wheel "
            "nvidia-nvvm"
        ),
    ),
    (r"No space left on device", "the disk is full: free space in /tmp"),
    (r"Permission denied", "the engine's user may not read or run it: check owner and mode"),
)


@dataclass(frozen=True)
class Ran:
    """A finished command.

    Attributes:
        code: Exit status; 127 when the program is not there, 126 when it may not be run.
        output: Standard output and error together.
    """

    code: int
    output: str


def parse_nvcc_version(text: str) -> str:
    """Version in the output of `nvcc --version`.

    Args:
        text: The output.

    Returns:
        For example `13.0.88`; empty when there is none.
    """
    found = re.search(r"^Cuda compilation tools, release \S+, V(\d+(?:\.\d+)+)", text, re.MULTILINE)
    return found[1] if found else ""


def parse_list_elf(text: str) -> list[str]:
    """Compiled kernels in the output of `cuobjdump --list-elf`.

    Args:
        text: The output, lines like `ELF file    1: kernel.1.sm_120.cubin`.

    Returns:
        Their names.
    """
    return re.findall(r"^ELF file\s+\d+:\s*(\S+\.cubin)\s*$", text, re.MULTILINE)


def version_fits(found: str, wanted: str) -> bool:
    """Whether a full version begins with the wanted parts: 13.0.88 fits 13, 13.0 and 13.0.88."""
    parts = wanted.split(".")
    return found.split(".")[: len(parts)] == parts


def architectures(elf: list[str]) -> set[str]:
    """Architectures of compiled kernels, by name: `sm_120` of `kernel.1.sm_120.cubin`."""
    found = (re.search(r"(sm_\d+[a-z]?)\.cubin$", name) for name in elf)
    return {match[1] for match in found if match}


def gencode(architecture: str) -> str:
    """The nvcc option value that compiles for one real architecture.

    Raises:
        ValueError: It is no architecture like sm_120 or sm_120a.
    """
    if not re.fullmatch(r"sm_\d{2,3}[a-z]?", architecture):
        raise ValueError(f"{architecture!r} is no GPU architecture; write it like sm_120")
    return f"arch=compute_{architecture[3:]},code={architecture}"


def cause(output: str) -> str:
    """What a failed compilation means, empty when nothing is known about it."""
    for pattern, meaning in _CAUSES:
        if re.search(pattern, output):
            return meaning
    return ""


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "no output"


def judge(
    asked: Mapping[str, str], version: Ran, compiled: Ran | None, listed: Ran | None
) -> list[str]:
    """Judge a proof.

    Args:
        asked: `nvcc`, `cuobjdump`, `version`, `architecture` and `user`.
        version: `nvcc --version`.
        compiled: The compilation, None when it was not tried.
        listed: `cuobjdump --list-elf` of the result, None when it was not tried.

    Returns:
        At most one sentence, with cause, evidence and remedy; nothing when it is proved.
    """
    who = f"as user {asked['user']}" if asked.get("user") else "as root"
    nvcc, have = asked["nvcc"], parse_nvcc_version(version.output)
    sentence = ""
    if version.code == 127:
        sentence = f"{nvcc} is not there; install the toolkit, see cuda_stack_toolkit"
    elif version.code != 0 or not have:
        meaning = cause(version.output) or "it does not run"
        sentence = f"{nvcc} --version {who}: {meaning} ({_tail(version.output)})"
    elif not version_fits(have, asked["version"]):
        sentence = (
            f"{nvcc} is version {have}, {asked['version']} is wanted; set "
            "cuda_stack_toolkit_version, or install that version"
        )
    elif compiled is None or compiled.code != 0:
        output = compiled.output if compiled else ""
        sentence = (
            f"{nvcc} {have} cannot compile for {asked['architecture']} {who}: "
            f"{cause(output) or 'compiling failed'} ({_tail(output)})"
        )
    elif listed is None or listed.code != 0:
        output = listed.output if listed else ""
        missing = listed is not None and listed.code == 127
        absent = "it is not there; install cuda-cuobjdump of the same version" if missing else ""
        sentence = f"{asked['cuobjdump']} {who}: {absent or cause(output) or _tail(output)}"
    else:
        seen = architectures(parse_list_elf(listed.output))
        if asked["architecture"] not in seen:
            sentence = (
                f"{nvcc} compiled without error, but cuobjdump sees "
                f"{', '.join(sorted(seen)) or 'no cubin'} and not {asked['architecture']}: nvcc "
                "and cuobjdump are of different installations"
            )
    return [sentence] if sentence else []
