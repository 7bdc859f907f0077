# SPDX-License-Identifier: Apache-2.0
"""Known ways in which an engine dies at its start, and what to do about each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Signature:
    r"""A pattern over a cause and the remedy that goes with it.

    `remedy` may use the pattern's groups as `\1` or `\g<name>`.
    """

    id: str
    pattern: str
    remedy: str


SIGNATURES = (
    Signature(
        "context-length",
        # SGLang 0.5.9 configs/model_config.py:382, 0.5.12.post1 :564.
        r"context_length \((\d+)\) is greater than the derived context_length \((\d+)\)",
        r"the draft's context (\2) is shorter than the target's (\1): set "
        r"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 in the engine's environment, or lower the "
        r"context length to \2",
    ),
    Signature(
        "cxx-compiler",
        r"InvalidCxxCompiler|No working C\+\+ compiler found",
        "install a C++ compiler on the node (package g++), or set TORCHDYNAMO_DISABLE=1",
    ),
    Signature(
        "nvcc",
        r"[Cc]ould not find nvcc|nvcc: (?:not found|No such file)|CUDA_HOME (?:is not set|.*unset)",
        "install the CUDA toolkit of the stack and name it in the engine's environment (CUDA_HOME)",
    ),
    Signature(
        "service-program",
        r"at step EXEC spawning (?P<program>\S+):",
        r"\g<program> is missing or may not be executed: the release is incomplete; deploy again, "
        "which rebuilds it",
    ),
    Signature(
        "service-credential",
        r"at step CREDENTIALS\b|/CREDENTIALS:",
        "a credential file named by the unit is missing or unreadable for systemd: deploy again",
    ),
    Signature(
        "service-sandbox",
        r"at step (?:NAMESPACE|CHDIR)\b|/(?:NAMESPACE|CHDIR):",
        "a folder named by the unit is missing on the node: deploy again, which creates it",
    ),
    Signature(
        "arguments",
        r"unrecognized arguments?: (?P<argument>.+)",
        r"this release does not know \g<argument>: remove or rename it in the engine's arguments",
    ),
    Signature(
        "argument-value",
        r"argument refused: (?P<argument>argument .+)",
        "correct that value in the engine's arguments",
    ),
    Signature(
        "port-in-use",
        r"[Aa]ddress already in use|[Ee]rrno 98\b|\bat (?P<port>\d+) is not available in",
        "another process listens on the engine's port: `ss -ltnp` on the node names it; end it or "
        "choose another port",
    ),
    Signature(
        "gpu-memory",
        r"OutOfMemoryError|CUDA out of memory|HIP out of memory",
        "GPU memory ran out: lower mem_fraction_static (the draft's KV pool comes on top of it in "
        "several releases) or the context length, and look for other processes on the GPUs",
    ),
    Signature(
        "kv-pool-memory",
        r"Not enough memory.*--mem-fraction-static|memory pool.*is too small",
        "no memory is left for the KV cache after the weights: raise mem_fraction_static, or free "
        "GPU memory",
    ),
    Signature(
        "host-memory",
        r"out-of-memory killer|std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator",
        "host memory ran out: free some, or raise the unit's MemoryMax",
    ),
    Signature(
        "disk-full",
        r"No space left on device|[Ee]rrno 28\b",
        "a file system of the node is full: `df -h` names it; free space and start again",
    ),
    Signature(
        "permission",
        r"Permission denied|PermissionError",
        "the service user may not read or write that path: correct its owner or mode, or the "
        "unit's sandbox directives",
    ),
    Signature(
        "missing-file",
        # safetensors reports an unreadable file as missing, so the two share a remedy.
        r"FileNotFoundError|No such file or directory|does not appear to have a file named",
        "that file is missing on the node, or the service user may not read it: verify the model "
        "store and the file's mode",
    ),
    Signature(
        "model-path",
        r"Repo id must (?:be|use)|HFValidationError|is not a local folder|LocalEntryNotFoundError"
        r"|couldn't connect to .* to load|outgoing traffic has been disabled",
        "the model path does not exist on the node and the engine took it for a hub name: correct "
        "the path in the engine's arguments",
    ),
    Signature(
        "corrupt-weights",
        r"SafetensorError|Error while deserializing header|incomplete metadata",
        "a weight file is damaged: verify the model store against its manifest and copy it again",
    ),
    Signature(
        "abi",
        r"undefined symbol: (?P<symbol>\S+)",
        r"two compiled packages do not fit together (missing \g<symbol>): rebuild the release from "
        r"its lock; torch and the kernels must come from one stack",
    ),
    Signature(
        "missing-module",
        r"ModuleNotFoundError|No module named",
        "a package is missing from the release: rebuild it from its lock",
    ),
    Signature(
        "symm-mem-capability",
        # sglang#10571: the size table has no row for compute capability 12.
        r"^KeyError: 12\b",
        "symmetric memory has no entry for compute capability 12 in this release: drop "
        "--enable-torch-symm-mem, or apply the two sm120 patches of the catalogue",
    ),
    Signature(
        "fusion-architecture",
        # sglang#15650.
        r"No supported CUDA architectures found for major versions|Unsupported architecture",
        "a kernel without SM120 support was chosen: set the attention backends explicitly and "
        "leave FlashInfer's all-reduce fusion off",
    ),
    Signature(
        "triton-shared-memory",
        # sglang#17908.
        r"out of resource: shared memory",
        "a Triton kernel wants more shared memory than SM120 has: choose the flashinfer attention "
        "backend",
    ),
    Signature(
        "driver",
        r"CUDA driver version is insufficient|no CUDA-capable device"
        r"|Driver/library version mismatch",
        "the NVIDIA driver is missing, too old, or was updated without a reboot: compare "
        "`nvidia-smi` with the stack's minimum driver",
    ),
)


def best_match(text: str, signatures: Iterable[Signature]) -> tuple[Signature, str] | None:
    """The first signature that matches `text`, with its remedy's groups filled in."""
    for signature in signatures:
        found = re.search(signature.pattern, text)
        if found:
            return signature, found.expand(signature.remedy)
    return None


def from_parameters(remedies: Iterable[Mapping[str, str]]) -> list[Signature]:
    """Turn a task's `remedies` into signatures.

    Raises:
        ValueError: an entry lacks `pattern` or `remedy`, or its pattern does not compile.
    """
    signatures = []
    for number, entry in enumerate(remedies, 1):
        try:
            pattern, remedy = entry["pattern"], entry["remedy"]
        except (KeyError, TypeError):
            raise ValueError(f"remedies[{number}] needs `pattern` and `remedy`: {entry}") from None
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"remedies[{number}].pattern {pattern!r}: {error}") from None
        # A remedy of the inventory is plain text: its backslashes mean themselves.
        signatures.append(Signature(f"remedy-{number}", pattern, remedy.replace("\\", r"\\")))
    return signatures
