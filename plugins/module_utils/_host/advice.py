# SPDX-License-Identifier: Apache-2.0
"""Decide which kernel arguments and module options a host should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Check to the kernel arguments that cure what it finds.
_ARGUMENTS = {"iommu": ("iommu=pt",), "aspm": ("pcie_aspm=off", "pcie_port_pm=off")}
_OPTIONS = {"hmm": ("nvidia_uvm", "uvm_disable_hmm=1")}


def advise(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Variables of the role cuda_stack that would cure a host.

    Args:
        verdicts: Its verdicts. Nothing is advised for what was accepted.

    Returns:
        `cuda_stack_kernel_arguments` (words) and `cuda_stack_module_options` (module to options),
        each only where there is something to set.
    """
    wrong = {entry["id"] for entry in verdicts if entry["verdict"] != "ok"}
    words = [word for check, given in _ARGUMENTS.items() if check in wrong for word in given]
    options = dict(pair for check, pair in _OPTIONS.items() if check in wrong)
    found = {"cuda_stack_kernel_arguments": words, "cuda_stack_module_options": options}
    return {name: value for name, value in found.items() if value}
