# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for SGLang's CUDA kernels on a machine without a GPU.

Real: what EAGLE decoding needs, in plain torch.  Everything else imports and raises when called.
Names ending in `_cpu` are those that SGLang asks for from about 0.5.16 on.
"""

from __future__ import annotations

import torch

from sgl_kernel._cache_locations import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
)
from sgl_kernel._eagle_tree import build_tree_kernel_efficient, verify_tree_greedy
from sgl_kernel._placeholder import MissingKernel, install_submodule_finder

__version__ = "0.3.21+lab.cpu"
__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_tree_kernel_efficient",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "verify_tree_greedy",
    "verify_tree_greedy_cpu",
]

build_tree_kernel_efficient_cpu = build_tree_kernel_efficient
verify_tree_greedy_cpu = verify_tree_greedy


def __getattr__(name: str) -> MissingKernel:
    if name.startswith("__") or name == "scalar_type":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MissingKernel(f"{__name__}.{name}")


def _quiet_cuda() -> None:
    """Let SGLang's unconditional CUDA housekeeping pass where there is no CUDA."""
    if torch.cuda.is_available():
        return

    def nothing_to_do(*_arguments: object, **_options: object) -> None:
        """Stand in for a CUDA call on a machine without CUDA."""

    torch.cuda.synchronize = nothing_to_do
    torch.cuda.empty_cache = nothing_to_do


install_submodule_finder()
_quiet_cuda()
