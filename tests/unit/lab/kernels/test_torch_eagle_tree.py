# SPDX-License-Identifier: Apache-2.0
"""Tree building and greedy verification against a slow, obvious reference.

The reference knows a tree as a set of paths: a node is the tuple of choices that leads to it.  What
a node may see, how deep it is and who its children are can then be read off the tuples.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sgl_kernel import (
    build_tree_kernel_efficient,
    build_tree_kernel_efficient_cpu,
    verify_tree_greedy,
    verify_tree_greedy_cpu,
)
from sgl_kernel._eagle_tree import tree_parents

pytestmark = pytest.mark.torch

FULL_MASK, QLEN_ONLY, BIT_PACKED = 0, 1, 2


@dataclass
class Drafted:
    """One request's drafts: the kernels' encoding, and the truth as paths.

    `paths[i]` is node i's path from the root; the root is the empty path.
    """

    parent_list: list[int]
    selected_index: list[int]
    paths: list[tuple[int, ...]]

    def children(self, node: int) -> list[int]:
        path = self.paths[node]
        return [
            other
            for other, candidate in enumerate(self.paths)
            if len(candidate) == len(path) + 1 and candidate[: len(path)] == path
        ]

    def seen_by(self, node: int) -> set[tuple[int, ...]]:
        """Walk up from a node for as long as its ancestors were selected; the root always is."""
        seen: set[tuple[int, ...]] = {()}
        path = self.paths[node]
        while path and path in self.paths:
            seen.add(path)
            path = path[:-1]
        return seen


def draft(rng: random.Random, topk: int, steps: int, nodes: int, *, sure: float = 0) -> Drafted:
    """Draft as EAGLE does: go on from the best branches, then keep the best nodes of all.

    `sure` is the share of choices with probability 1.  They score what their parent does, and the
    choice between equals is random here, so that a parent may be left out.
    """

    def probability() -> float:
        return 1.0 if rng.random() < sure else rng.uniform(0.05, 0.95)

    candidates: list[tuple[float, tuple[int, ...]]] = []  # (score, path), flat number = index
    parent_list = [-1]  # beam 0 continues the root
    beams: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for step in range(steps):
        new = [
            (score * probability(), (*path, choice))
            for score, path in beams
            for choice in range(topk)
        ]
        first = len(candidates)
        candidates += new
        best = sorted(range(len(new)), key=lambda number: -new[number][0])[:topk]
        if step == 0:
            best = list(range(topk))
        beams = [new[number] for number in best]
        if step < steps - 1:
            parent_list += [first + number for number in best]
    # While no choice is sure, a candidate scores below its parent, and the best ones form a tree.
    chosen = sorted(
        range(len(candidates)), key=lambda number: (-candidates[number][0], rng.random())
    )
    selected = sorted(chosen[: nodes - 1])
    return Drafted(parent_list, selected, [(), *(candidates[number][1] for number in selected)])


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, int, int, list[Drafted], list[int]]:
    """Draw (topk, steps, nodes, drafts of each request, tokens before each tree)."""
    topk = draw(st.integers(1, 5))
    steps = draw(st.integers(1, 5))
    available = topk + (steps - 1) * topk * topk
    nodes = draw(st.integers(2, min(available, 16) + 1))
    size = draw(st.integers(1, 3))
    rng = draw(st.randoms(use_true_random=False))
    sure = draw(st.sampled_from([0, 0.5]))
    drafts = [draft(rng, topk, steps, nodes, sure=sure) for _ in range(size)]
    return (
        topk,
        steps,
        nodes,
        drafts,
        draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)),
    )


def built(topk, steps, nodes, drafts, prefixes, mode):  # noqa: PLR0917 - as the kernel's own
    """Call the kernel with tensors as SGLang prepares them; return what it wrote."""
    size = len(drafts)
    length = (
        sum(nodes * (prefix + nodes) for prefix in prefixes)
        if mode == FULL_MASK
        else size * nodes * nodes
    )
    mask = torch.full((length,), True)
    positions = torch.empty((size * nodes,), dtype=torch.long)
    index, child, sibling = torch.full((3, size, nodes), -1, dtype=torch.long)
    build_tree_kernel_efficient(
        torch.tensor([one.parent_list for one in drafts]),
        torch.tensor([one.selected_index for one in drafts]),
        torch.tensor(prefixes),
        mask,
        positions,
        index,
        child,
        sibling,
        topk,
        steps,
        nodes,
        mode,
    )
    return mask, positions, index, child, sibling


@settings(max_examples=200)
@given(batches(), st.sampled_from([FULL_MASK, QLEN_ONLY]))
def test_tree_is_what_the_paths_say(batch, mode):
    topk, steps, nodes, drafts, prefixes = batch
    mask, positions, index, child, sibling = built(topk, steps, nodes, drafts, prefixes, mode)

    expected_mask: list[bool] = []
    for one, prefix in zip(drafts, prefixes, strict=True):
        for node in range(nodes):
            if mode == FULL_MASK:
                expected_mask += [True] * prefix
            expected_mask += [path in one.seen_by(node) for path in one.paths]
    assert mask.tolist() == expected_mask
    assert positions.tolist() == [
        prefix + len(one.seen_by(node)) - 1
        for one, prefix in zip(drafts, prefixes, strict=True)
        for node in range(nodes)
    ]
    assert index.flatten().tolist() == list(range(len(drafts) * nodes))
    for request, one in enumerate(drafts):
        for node in range(nodes):
            listed = []
            current = int(child[request, node])
            while current != -1:
                listed.append(current)
                current = int(sibling[request, current])
            assert listed == one.children(node)
        assert int(sibling[request, 0]) == -1


def accepted_path(one: Drafted, tokens: list[int], wanted: list[int]) -> list[int]:
    """Walk from the root to the first child that carries the token wanted at its parent."""
    path = [0]
    while True:
        fitting = [node for node in one.children(path[-1]) if tokens[node] == wanted[path[-1]]]
        if not fitting:
            return path
        path.append(fitting[0])


@settings(max_examples=200)
@given(batches(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_verification_follows_the_agreed_path(batch, alphabet, rng):
    topk, steps, nodes, drafts, prefixes = batch
    _, _, index, child, sibling = built(topk, steps, nodes, drafts, prefixes, QLEN_ONLY)
    tokens = [[rng.randrange(alphabet) for _ in range(nodes)] for _ in drafts]
    wanted = [[rng.randrange(alphabet) for _ in range(nodes)] for _ in drafts]
    untouched = -7
    predicts = torch.full((len(drafts) * nodes + 1,), untouched, dtype=torch.int32)
    accept_index = torch.full((len(drafts), steps + 1), -1, dtype=torch.int32)
    accept_number = torch.empty((len(drafts),), dtype=torch.int32)
    verify_tree_greedy(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accept_number,
        candidates=torch.tensor(tokens),
        retrive_index=index,
        retrive_next_token=child,
        retrive_next_sibling=sibling,
        target_predict=torch.tensor(wanted),
    )
    expected_predicts = [untouched] * predicts.numel()
    for request, one in enumerate(drafts):
        path = accepted_path(one, tokens[request], wanted[request])
        flat = [request * nodes + node for node in path]
        assert accept_index[request].tolist() == flat + [-1] * (steps + 1 - len(flat))
        assert int(accept_number[request]) == len(path) - 1
        for node, place in zip(path, flat, strict=True):
            expected_predicts[place] = wanted[request][node]
    assert predicts.tolist() == expected_predicts


def test_a_chain_of_three_by_hand():
    one = Drafted([-1, 0, 1], [0, 1, 2], [(), (0,), (0, 0), (0, 0, 0)])
    mask, positions, _, child, sibling = built(1, 3, 4, [one], [7], QLEN_ONLY)
    assert mask.view(4, 4).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1] * 4]
    assert positions.tolist() == [7, 8, 9, 10]
    assert child.tolist() == [[1, 2, 3, -1]]
    assert sibling.tolist() == [[-1] * 4]


def test_verification_never_accepts_more_than_there_is_room_for():
    one = Drafted([-1, 0, 1], [0, 1, 2], [(), (0,), (0, 0), (0, 0, 0)])
    _, _, index, child, sibling = built(1, 3, 4, [one], [0], QLEN_ONLY)
    accept_index = torch.full((1, 2), -1, dtype=torch.int32)
    accept_number = torch.empty((1,), dtype=torch.int32)
    verify_tree_greedy(
        torch.zeros(5, dtype=torch.int32),
        accept_index,
        accept_number,
        torch.ones((1, 4), dtype=torch.long),
        index,
        child,
        sibling,
        torch.ones((1, 4), dtype=torch.long),
    )
    assert accept_index.tolist() == [[0, 1]]
    assert accept_number.tolist() == [1]


def test_one_drafting_step_leaves_the_parent_list_empty():
    # SGLang passes an empty float tensor then (0.5.9, eagle_utils.py, organize_draft_results).
    index, child, sibling = torch.full((3, 1, 3), -1, dtype=torch.long)
    mask, positions = torch.full((9,), True), torch.empty((3,), dtype=torch.long)
    build_tree_kernel_efficient(
        torch.empty((1, 0)), torch.tensor([[0, 1]]), torch.tensor([5]), mask, positions,
        index, child, sibling, 2, 1, 3, QLEN_ONLY,
    )  # fmt: skip
    assert mask.view(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    assert positions.tolist() == [5, 6, 6]


def test_bit_packed_masks_are_refused_by_name():
    one = Drafted([-1], [0], [(), (0,)])
    with pytest.raises(NotImplementedError, match=r"build_tree_kernel_efficient.*mode 2"):
        built(1, 1, 2, [one], [0], BIT_PACKED)


def test_a_child_that_was_selected_without_its_parent_is_left_out():
    # Seen on the real engine with topk 4 and a draft that is sure: candidate 28 continues
    # candidate 8, which scored the same and was not selected.
    selected, parents = [0, 1, 4, 5, 20, 24, 28], [-1, 0, 1, 2, 3, 4, 5, 8, 12]
    assert tree_parents(selected, parents, 4) == [None, 0, 0, 1, 1, 3, 4, None]
    paths = [(), (0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 1, 0), (1, 0, 0)]
    one = Drafted(parents, selected, paths)
    mask, positions, _, child, sibling = built(4, 3, 8, [one], [10], QLEN_ONLY)
    assert mask.view(8, 8)[7].int().tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    assert positions.tolist()[7] == 11
    assert 7 not in child.flatten().tolist() + sibling.flatten().tolist()


def test_numbers_that_are_not_ascending_are_refused():
    with pytest.raises(ValueError, match=r"node 1 .* stands before its parent, node 2"):
        tree_parents([2, 3], [-1, 3], 2)


def test_newer_releases_find_the_same_kernels_under_their_names():
    assert build_tree_kernel_efficient_cpu is build_tree_kernel_efficient
    assert verify_tree_greedy_cpu is verify_tree_greedy
