# SPDX-License-Identifier: Apache-2.0
"""Filters: which proofs of a release have to be made, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._proof import record

# The kernel packages, whatever their name, hold this module.
_KERNELS = "sgl_kernel"
_ENGINE = ("transformers", "sglang.srt.server_args")


def proof_modules(stack: Mapping[str, Any]) -> list[str]:
    """The modules of a stack whose import proves that its parts fit, torch first, engine last."""
    return ["torch", _KERNELS, *(["flashinfer"] if stack["flashinfer"] else []), *_ENGINE]


def proof_differences(
    node: Mapping[str, Any], release: str, wanted: Mapping[str, str]
) -> list[dict[str, Any]]:
    """`record.differences` over the reading of a node."""
    serving = node["unit"]["active_state"] in ("active", "activating")
    return record.differences(node["releases"]["proofs"].get(release, {}), wanted, serving)


def cuda_home(stack: Mapping[str, Any], python: str, release: str) -> str:
    """Where a stack's own toolkit lies in a release, empty for a stack without one.

    Args:
        stack: The stack.
        python: The release's Python version.
        release: The release's folder on the node.
    """
    if not stack["toolkit"]:
        return ""
    major = str(stack["toolkit"]).partition(".")[0]
    return f"{release}/venv/lib/python{python}/site-packages/nvidia/cu{major}"


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "proof_modules": proof_modules,
        "proof_differences": proof_differences,
        "cuda_home": cuda_home,
    }
