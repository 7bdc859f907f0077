# SPDX-License-Identifier: Apache-2.0
"""Faults of packages that do not belong together, of compilers and of the driver."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    Signature,
)

_REBUILD = (
    "rebuild the release from its lock (deploy again after `rm -r` of the release); nothing may be "
    "installed into it by hand"
)

SIGNATURES = (
    Signature(
        "abi",
        r"undefined symbol: (?P<symbol>\S+)",
        r"two compiled packages do not fit together (missing \g<symbol>): rebuild the release from "
        r"its lock; torch and the kernels must come from one stack",
        cause="a compiled package was built for another version of what it is loaded beside",
        source="sgl-project/sglang#5100, Dao-AILab/flash-attention#1832",
        says=CLASS,
    ),
    Signature(
        "abi-torch",
        r"undefined symbol: (?P<symbol>\S*MessageLogger\S*)",
        "the kernels were built for another torch than the installed one; it is not a missing "
        "architecture. " + _REBUILD[0].upper() + _REBUILD[1:],
        cause="sglang-kernel and torch are of two builds",
        source="sgl-project/sglang#30562, sgl-project/sglang#29317",
    ),
    Signature(
        "abi-driver",
        r"undefined symbol: (?P<symbol>cu[A-Z]\w+)",
        r"the driver is too old for these kernels (no \g<symbol>): update it to the stack's "
        "minimum driver, and reboot",
        cause="a kernel package asks the driver for a function that it has not",
        source="sgl-project/sglang#8131",
    ),
    Signature(
        "kernel-package",
        r"Could not load any common_ops library",
        "the lines behind it have the reason of each attempt; " + _REBUILD,
        cause="sglang-kernel cannot be loaded",
        source="sgl-project/sglang#18203",
    ),
    Signature(
        "package-version",
        r"(?P<package>[\w-]+) (?:is installed with version \S+,? which is less than|with minimum "
        r"required version \S+ is not installed)",
        r"\g<package> is not the one of this stack: " + _REBUILD,
        cause="the engine refuses the version of a package",
        source="SGLang 0.5.9 utils/common.py:1101; sgl-project/sglang#20953",
    ),
    Signature(
        "flashinfer-version",
        r"flashinfer-(?:cubin|jit-cache) version \(\S+\) does not match flashinfer version",
        _REBUILD + "; do not set FLASHINFER_DISABLE_VERSION_CHECK, it ends in wrong memory",
        cause="flashinfer's packages are of two versions",
        source="vllm-project/vllm#49804, lightseekorg/tokenspeed#284",
    ),
    Signature(
        "shared-library",
        r"(?P<library>lib[\w.+-]+\.so[.\d]*): cannot open shared object file",
        r"\g<library> is not there: the stack's CUDA packages are incomplete or of another CUDA "
        "major; " + _REBUILD,
        cause="a library that a package was built against is missing",
        source="sgl-project/sglang#16052, sgl-project/sglang#34964",
    ),
    Signature(
        "missing-module",
        r"^(?!.*Ignore import error).*(?:ModuleNotFoundError|No module named)",
        "a package is missing from the release: rebuild it from its lock",
        cause="a package is missing",
        source="recorded with SGLang 0.5.9",
        says=CLASS,
    ),
    Signature(
        "import-name",
        r"^(?!.*Ignore import error).*ImportError: cannot import name '(?P<name>[^']+)' from "
        r"'(?P<module>[^']+)'",
        r"\g<module> is of another version than the engine was written for (no \g<name>): "
        + _REBUILD,
        cause="a package is of the wrong version",
        source="sgl-project/sglang#12723",
        says=CLASS,
    ),
    Signature(
        "glibc",
        r"version `GLIBC(?:XX)?_(?P<version>[\d.]+)' not found",
        r"this node's C library is older than \g<version>: take a newer system, or an older stack",
        cause="the wheels were built for a newer system",
        source="SGLang 0.5.11 wheel tag manylinux_2_34",
    ),
    Signature(
        "cxx-compiler",
        r"InvalidCxxCompiler|No working C\+\+ compiler found",
        "install a C++ compiler on the node (package g++), or set TORCHDYNAMO_DISABLE=1",
        cause="torch compiles kernels at the start and finds no compiler",
        source="recorded with SGLang 0.5.9",
    ),
    Signature(
        "python-headers",
        r"Python\.h: No such file or directory",
        "install the headers of the stack's Python on the node (python3-dev)",
        cause="a kernel is compiled against Python and its headers are missing",
        source="triton-lang/triton runtime/build.py",
    ),
    Signature(
        "nvcc",
        r"[Cc]ould not find nvcc|nvcc: (?:not found|No such file)|CUDA_HOME (?:is not set|.*unset)",
        "install the CUDA toolkit of the stack and name it in the engine's environment (CUDA_HOME)",
        cause="kernels are compiled at the start and nvcc is not found by the service user",
        source="vllm-project/vllm#36077",
    ),
    Signature(
        "nvcc-architecture",
        r"nvcc fatal\s*: Unsupported gpu architecture 'compute_12",
        "nvcc is older than 12.9 and cannot compile for SM120: name the stack's own toolkit in "
        "CUDA_HOME",
        cause="an old CUDA toolkit is found first",
        source="flashinfer-ai/flashinfer#3633",
    ),
    Signature(
        "jit-build",
        r"Ninja build failed|ninja: build stopped|Error building extension",
        "the compiler's own message stands above it; a clean kernel cache and the stack's toolkit "
        "in CUDA_HOME are the usual answers",
        cause="a kernel could not be compiled",
        source="sgl-project/sglang#25487",
        says=CLASS,
    ),
    Signature(
        "driver",
        r"CUDA driver version is insufficient|no CUDA-capable device|No CUDA GPUs are available",
        "the NVIDIA driver is missing, too old, or was updated without a reboot: compare "
        "`nvidia-smi` with the stack's minimum driver",
        cause="CUDA finds no driver that it can use",
        source="flashinfer-ai/flashinfer#5145",
        says=CLASS,
    ),
    Signature(
        "driver-compat",
        r"system has unsupported display driver / cuda driver combination"
        r"|forward compatibility was attempted on non supported HW",
        "a CUDA compat folder stands before the driver's libraries: remove it from "
        "LD_LIBRARY_PATH and ld.so.conf",
        cause="two versions of libcuda are on the library path",
        source="rtx6kpro wiki, CUDA compat mismatch",
    ),
    Signature(
        "nvidia-smi",
        r"nvidia-smi not found\. Ensure NVIDIA drivers are installed",
        "install the driver's tools (nvidia-utils), readable for the service user",
        cause="the engine asks nvidia-smi for the cards' memory and does not find it",
        source="SGLang 0.5.9 utils/common.py:1759",
    ),
    Signature(
        "preload",
        r"object '(?P<library>[^']+)' from LD_PRELOAD cannot be preloaded",
        r"remove \g<library> from LD_PRELOAD and /etc/ld.so.preload; a vGPU shim there hangs NCCL",
        cause="something injects a library into every process",
        source="Project-HAMi/HAMi#2641",
        says=CLASS,
    ),
)
