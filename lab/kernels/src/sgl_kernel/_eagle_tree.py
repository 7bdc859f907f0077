# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLR0917 - the parameters, and their order, are the CUDA kernels' own
"""EAGLE's two tree kernels in plain torch.

Shapes: B requests, n tree nodes each (`draft_token_num`; node 0 is the last verified token, nodes
1 to n-1 are draft tokens), k choices per step (`topk`), m = steps + 1 (longest accepted path).
All results are written into tensors of the caller, as the CUDA kernels do.

How the tree is encoded: the drafting steps make a flat list of candidates, k of the first step,
then k*k of every further one.  `selected_index` holds the flat numbers of the n-1 best, ascending.
Candidate c was drafted from beam c // k; `parent_list[beam]` is the flat number of the candidate
that the beam continues; beam 0 is the root.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

_ROOT = 0


class MaskMode(IntEnum):
    """Layouts of the attention mask; the numbers are SGLang's own (`TreeMaskMode`)."""

    FULL_MASK = 0
    QLEN_ONLY = 1


def tree_parents(
    selected_index: Sequence[int], parent_list: Sequence[float], topk: int
) -> list[int | None]:
    """Return the parent node of every node.

    A child whose draft probability rounds to 1 scores exactly what its parent does, and SGLang's
    choice of the best nodes may then keep the child alone.  Such an orphan is legal and useless.

    Args:
        selected_index: flat candidate numbers of nodes 1 to n-1, ascending.
        parent_list: flat candidate number that each beam continues.
        topk: choices per step.

    Returns:
        Per node the number of its parent; None for the root and for an orphan.

    Raises:
        ValueError: a node stands before its parent, so the numbers are not ascending.
    """
    node_of = {candidate: node for node, candidate in enumerate(selected_index, start=1)}
    parents: list[int | None] = [None]
    for node, candidate in enumerate(selected_index, start=1):
        beam = candidate // topk
        parent = _ROOT if beam == 0 else node_of.get(int(parent_list[beam]))
        if parent is not None and parent >= node:
            raise ValueError(
                f"node {node} (candidate {candidate}) stands before its parent, node {parent} "
                f"(candidate {int(parent_list[beam])}): {list(selected_index)}"
            )
        parents.append(parent)
    return parents


def build_tree_kernel_efficient(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    topk: int,
    depth: int,  # noqa: ARG001 - the CUDA kernel's own signature
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Turn the drafts of every request into a tree to verify (writes the five marked tensors).

    Args:
        parent_list: (B, beams) flat candidate number that each beam continues.
        selected_index: (B, n-1) flat numbers of the selected candidates, ascending.
        verified_seq_len: (B,) tokens before the tree.
        tree_mask: written, flat bool; row = node, True where the node may look.  FULL_MASK: per
            request n rows of verified_seq_len + n columns, of which the first verified_seq_len
            keep the caller's True.  QLEN_ONLY: per request n rows of n columns.
        positions: written, (B*n,) position of every node: tokens before the tree plus its depth.
        retrive_index: written, (B, n) number of the node in the flattened batch.
        retrive_next_token: written, (B, n) first child, by node; -1 (the caller's) where none.
        retrive_next_sibling: written, (B, n) next child of the same parent; -1 where none.
        topk: choices per step.
        depth: drafting steps.
        draft_token_num: n.
        tree_mask_mode: a `MaskMode`.

    Raises:
        NotImplementedError: the bit-packed mask, which no CPU attention backend reads.
        ValueError: the selected candidates are not ascending.
    """
    nodes = draft_token_num
    if tree_mask_mode not in (MaskMode.FULL_MASK, MaskMode.QLEN_ONLY):
        raise NotImplementedError(
            f"sgl_kernel.build_tree_kernel_efficient: tree mask mode {int(tree_mask_mode)} is for "
            "CUDA backends; the lab's CPU stand-in writes FULL_MASK (0) and QLEN_ONLY (1)"
        )
    mask_start = 0
    for request, prefix in enumerate(verified_seq_len.tolist()):
        parents = tree_parents(
            selected_index[request].tolist(), parent_list[request].tolist(), topk
        )
        hidden_columns = prefix if tree_mask_mode == MaskMode.FULL_MASK else 0
        width = hidden_columns + nodes
        mask = tree_mask[mask_start : mask_start + nodes * width].view(nodes, width)
        mask = mask[:, hidden_columns:]
        mask_start += nodes * width

        mask[:] = False
        depths = [0] * nodes
        for node, parent in enumerate(parents):
            if node != _ROOT:
                # A node sees what its parent sees, and itself; an orphan hangs below the root.
                above = _ROOT if parent is None else parent
                mask[node] = mask[above]
                depths[node] = depths[above] + 1
            mask[node, node] = True

        first = request * nodes
        positions[first : first + nodes] = positions.new_tensor(depths) + prefix
        # Children are linked from the last to the first, so that a list runs in node order.  An
        # orphan is in no list: verification never reaches it.
        for node in range(nodes - 1, 0, -1):
            parent = parents[node]
            if parent is None:
                continue
            older = int(retrive_next_token[request, parent])
            if older != -1:
                retrive_next_sibling[request, node] = older
            retrive_next_token[request, parent] = node
        for node in range(nodes):
            retrive_index[request, node] = first + node


def verify_tree_greedy(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Follow, in every request's tree, the path that the target agrees with.

    Args:
        predicts: written, (at least B*n,) the target's token at every accepted node; the last one
            is the bonus token.
        accept_index: written, (B, m) accepted nodes in the flattened batch, root first; the rest
            keep the caller's -1.
        accept_token_num: written, (B,) accepted draft tokens, the root not counted.
        candidates: (B, n) token of every node.
        retrive_index: (B, n) as `build_tree_kernel_efficient` writes it.
        retrive_next_token: (B, n) as above.
        retrive_next_sibling: (B, n) as above.
        target_predict: (B, n) the target's own next token after every node.
    """
    requests, longest = accept_index.shape
    wanted = target_predict.reshape(-1)
    for request in range(requests):
        node = _ROOT
        flat = int(retrive_index[request, node])
        accept_index[request, 0] = flat
        accepted = 0
        while accepted + 1 < longest:
            node = int(retrive_next_token[request, node])
            while node != -1 and candidates[request, node] != wanted[flat]:
                node = int(retrive_next_sibling[request, node])
            if node == -1:
                break
            predicts[flat] = wanted[flat]
            flat = int(retrive_index[request, node])
            accepted += 1
            accept_index[request, accepted] = flat
        accept_token_num[request] = accepted
        predicts[flat] = wanted[flat]
