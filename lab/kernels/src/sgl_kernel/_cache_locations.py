# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLR0917 - the parameters, and their order, are the CUDA kernels' own
"""Bookkeeping of KV cache slots for speculative decoding, in plain torch.

The names are those that SGLang takes from `sgl_kernel` on a CPU from about 0.5.16 on (0.5.16:
mem_cache/allocation.py, speculative/spec_utils.py, speculative/eagle_worker_common.py; 0.5.23:
kernels/ops/).  Each does what the Triton kernel beside its call does.

Shapes: B requests, P slots per request in the pool, m = longest accepted path.
`req_to_token` is (requests in the pool, P): row = request, column = position, value = KV slot.
Rows are named by `req_pool_indices`, (B,).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,  # noqa: ARG001 - the CUDA kernel's own signature; here the tensor knows its shape
) -> None:
    """Write new slots into the requests' rows.

    Args:
        req_pool_indices: (B,) rows.
        req_to_token: written, (requests, P); columns start to end of each row.
        start_offset: (B,) first column, included.
        end_offset: (B,) last column, excluded.
        out_cache_loc: (sum of end - start,) slots of all requests, one after another.
        pool_len: P.
    """
    taken = 0
    for row, start, end in zip(
        req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True
    ):
        slots = out_cache_loc[taken : taken + end - start]
        req_to_token[row, start:end] = slots.to(req_to_token.dtype)
        taken += end - start


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,  # noqa: ARG001 - as above
) -> None:
    """Read slots from the requests' rows: the inverse of `assign_req_to_token_pool_cpu`.

    Args:
        req_pool_indices: (B,) rows.
        req_to_token: (requests, P).
        start_offset: (B,) first column, included.
        end_offset: (B,) last column, excluded.
        out_cache_loc: written, (at least sum of end - start,); what is beyond stays.
        pool_len: P.
    """
    taken = 0
    for row, start, end in zip(
        req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True
    ):
        slots = req_to_token[row, start:end]
        out_cache_loc[taken : taken + end - start] = slots.to(out_cache_loc.dtype)
        taken += end - start


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,  # noqa: ARG001 - as above
    topk: int,
    speculative_num_steps: int,
) -> None:
    """Read the slots that follow each sequence, for all branches of its draft.

    Args:
        req_pool_indices: (B,) rows.
        req_to_token: (requests, P).
        seq_lens: (B,) tokens of each request; the draft's slots begin there.
        out_cache_loc: written, (B * topk * steps,).
        pool_len: P.
        topk: choices per step.
        speculative_num_steps: drafting steps.
    """
    count = topk * speculative_num_steps
    slots = out_cache_loc.view(-1)
    for request, (row, length) in enumerate(
        zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)
    ):
        drafts = req_to_token[row, length : length + count]
        slots[request * count : (request + 1) * count] = drafts.to(slots.dtype)


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor,
    accept_lens: torch.Tensor,
    bonus_tokens: torch.Tensor,
    accept_stride: int,
) -> None:
    """Pick each request's last accepted token: the one that the target added itself.

    Args:
        accept_tokens: (B * accept_stride,) accepted tokens, each request's from its own start.
        accept_lens: (B,) accepted tokens, the bonus token counted.
        bonus_tokens: written, (B,).
        accept_stride: room per request in `accept_tokens`.
    """
    tokens = accept_tokens.view(-1)
    for request, count in enumerate(accept_lens.tolist()):
        bonus_tokens[request] = tokens[accept_stride * request + count - 1]


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor,
    out_cache_loc: torch.Tensor,
    accept_out_cache_loc: torch.Tensor,
) -> None:
    """Gather the slots of the accepted nodes, without gaps.

    Args:
        accept_index: (B, m) or (B * m,) accepted nodes; -1 where none.
        out_cache_loc: (B * n,) slot of every node.
        accept_out_cache_loc: written from its start on; what is beyond stays.
    """
    accepted = accept_index.view(-1)
    accepted = accepted[accepted > -1].long()
    slots = out_cache_loc[accepted]
    accept_out_cache_loc[: slots.numel()] = slots.to(accept_out_cache_loc.dtype)


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor,
    strides: torch.Tensor,
    tgt_loc: torch.Tensor,
    src_loc: torch.Tensor,
) -> None:
    """Move KV entries from slots to slots, in every layer.

    All sources are read before the first target is written: the two may overlap.

    Args:
        data_ptrs: (layers,) address of each layer's buffer.
        strides: (layers,) bytes per slot.
        tgt_loc: (count,) slots to write.
        src_loc: (count,) slots to read.
    """
    targets, sources = tgt_loc.tolist(), src_loc.tolist()
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        entries = [ctypes.string_at(address + slot * stride, stride) for slot in sources]
        for slot, entry in zip(targets, entries, strict=True):
            ctypes.memmove(address + slot * stride, entry, stride)
