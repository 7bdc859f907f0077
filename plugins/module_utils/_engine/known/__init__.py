# SPDX-License-Identifier: Apache-2.0
"""The known faults, as data: one module for each part of the node that can be at fault.

To add one: an entry here, and a line that it matches in tests/recordings/signatures.txt.
"""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.known import (
    gpu,
    host,
    kernel,
    model,
    nodes,
    speculation,
    stack,
)

SIGNATURES = (
    *speculation.SIGNATURES,
    *gpu.SIGNATURES,
    *kernel.SIGNATURES,
    *stack.SIGNATURES,
    *model.SIGNATURES,
    *host.SIGNATURES,
    *nodes.SIGNATURES,
)
"""All of them."""
