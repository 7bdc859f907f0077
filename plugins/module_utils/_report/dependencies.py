# SPDX-License-Identifier: Apache-2.0
"""What a release asks of torch, CUDA, kernels and Python, by its own metadata."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._tree import Metadata
from ansible_collections.sm120.sglang.plugins.module_utils._tree.metadata import Requirement

# The kernels' distribution was renamed with SGLang 0.5.10.
_KERNELS = ("sglang-kernel", "sgl-kernel")
_CUDA_EXTRA = re.compile(r"cu(\d\d)\Z")
_MAJOR = re.compile(r"(?:==|>=|~=)(\d+)(?:\.|,|\Z)")


def dependencies(metadata: Metadata) -> dict[str, Any]:
    """The dependencies that a stack is built from.

    Args:
        metadata: of the release; wheel or install, or a checkout's ``pyproject.toml``.

    Returns:
        ``torch``, ``flashinfer``, ``transformers``: the pinned version, or the conditions where
        it is not pinned; ``kernel``: name and version; ``python``: conditions; ``cuda_major``: a
        whole number; ``wheel``: the tag. None for what the metadata does not tell.
    """
    kernel = metadata.requirement(*_KERNELS)
    return {
        "torch": _version(metadata.requirement("torch")),
        "cuda_major": cuda_major(metadata),
        "kernel": f"{kernel.name} {_version(kernel)}" if kernel else None,
        "flashinfer": _version(metadata.requirement("flashinfer-python")),
        "transformers": _version(metadata.requirement("transformers")),
        "python": metadata.requires_python or None,
        "wheel": ", ".join(metadata.tags) or None,
    }


def cuda_major(metadata: Metadata) -> int | None:
    """The CUDA major version that a release is built for.

    It shows in the extras ``[cu13]`` and in the condition on ``cuda-python``: ``==12.9`` up to
    SGLang 0.5.10.post1, ``>=13.0`` from 0.5.11 on. None where neither is there, or they differ.
    """
    found = {
        int(match.group(1))
        for requirement in metadata.requires
        for extra in requirement.extras
        if (match := _CUDA_EXTRA.match(extra))
    }
    bindings = metadata.requirement("cuda-python")
    condition = _MAJOR.search(bindings.versions) if bindings else None
    if condition:
        found.add(int(condition.group(1)))
    return found.pop() if len(found) == 1 else None


def _version(requirement: Requirement | None) -> str | None:
    if requirement is None:
        return None
    return requirement.pin or requirement.versions or "any"
