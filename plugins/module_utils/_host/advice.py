# SPDX-License-Identifier: Apache-2.0
"""Decide which kernel arguments and module options a host should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._host.catalogue import CHECKS

# Check to the kernel arguments that cure what it finds.
_ARGUMENTS = {"iommu": ("iommu=pt",), "aspm": ("pcie_aspm=off", "pcie_port_pm=off")}
_OPTIONS = {"hmm": ("nvidia_uvm", "uvm_disable_hmm=1")}


def _wrong(verdicts: Iterable[Mapping[str, Any]]) -> set[str]:
    return {entry["id"] for entry in verdicts if entry["verdict"] != "ok"}


def kernel_arguments(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Kernel arguments that would cure a host.

    Args:
        verdicts: Its verdicts.

    Returns:
        `argument` and `reason` each; for the role variable cuda_stack_kernel_arguments. Nothing
        is advised for what was accepted.
    """
    wrong = _wrong(verdicts)
    return [
        {"argument": argument, "reason": CHECKS[check].why}
        for check, arguments in _ARGUMENTS.items()
        if check in wrong
        for argument in arguments
    ]


def module_options(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Module options that would cure a host.

    Args:
        verdicts: Its verdicts.

    Returns:
        `module`, `option` and `reason` each; for the role variable cuda_stack_module_options.
    """
    wrong = _wrong(verdicts)
    return [
        {"module": module, "option": option, "reason": CHECKS[check].why}
        for check, (module, option) in _OPTIONS.items()
        if check in wrong
    ]
