# SPDX-License-Identifier: Apache-2.0
"""KV cache bookkeeping against element-by-element references."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sgl_kernel import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
)

pytestmark = pytest.mark.torch

POOL_ROWS, POOL_COLUMNS = 6, 12


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Draw distinct pool rows, each with a first and a last column (maybe none between)."""
    rows = draw(st.lists(st.integers(0, POOL_ROWS - 1), min_size=1, max_size=4, unique=True))
    bounds = [sorted(draw(st.tuples(*[st.integers(0, POOL_COLUMNS)] * 2))) for _ in rows]
    return rows, [low for low, _ in bounds], [high for _, high in bounds]


def pool() -> torch.Tensor:
    return torch.arange(POOL_ROWS * POOL_COLUMNS, dtype=torch.int32).view(POOL_ROWS, POOL_COLUMNS)


@given(spans())
def test_new_slots_land_in_their_rows(drawn):
    rows, starts, ends = drawn
    slots = list(range(1000, 1000 + sum(ends) - sum(starts)))
    table = pool()
    assign_req_to_token_pool_cpu(
        torch.tensor(rows), table, torch.tensor(starts), torch.tensor(ends),
        torch.tensor(slots, dtype=torch.int64), POOL_COLUMNS,
    )  # fmt: skip
    expected = pool().tolist()
    queue = iter(slots)
    for row, start, end in zip(rows, starts, ends, strict=True):
        for column in range(start, end):
            expected[row][column] = next(queue)
    assert table.tolist() == expected
    assert table.dtype == torch.int32


@given(spans(), st.integers(0, 3))
def test_slots_are_read_in_order_and_the_rest_stays(drawn, spare):
    rows, starts, ends = drawn
    table = pool()
    expected = [
        int(table[row, column])
        for row, start, end in zip(rows, starts, ends, strict=True)
        for column in range(start, end)
    ]
    out = torch.full((len(expected) + spare,), -5, dtype=torch.int64)
    assign_extend_cache_locs_cpu(
        torch.tensor(rows), table, torch.tensor(starts), torch.tensor(ends), out, POOL_COLUMNS
    )
    assert out.tolist() == expected + [-5] * spare


@given(
    st.lists(st.tuples(st.integers(0, POOL_ROWS - 1), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_draft_slots_follow_each_sequence(requests, topk, steps):
    table = pool()
    out = torch.full((len(requests) * topk * steps,), -5, dtype=torch.int64)
    assign_draft_cache_locs_contiguous_cpu(
        torch.tensor([row for row, _ in requests]), table,
        torch.tensor([length for _, length in requests]), out, POOL_COLUMNS, topk, steps,
    )  # fmt: skip
    assert out.tolist() == [
        int(table[row, length + offset])
        for row, length in requests
        for offset in range(topk * steps)
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_bonus_token_is_the_last_accepted_one(lengths):
    stride = 4
    tokens = torch.arange(100, 100 + stride * len(lengths), dtype=torch.int32)
    bonus = torch.zeros(len(lengths), dtype=torch.int64)
    fill_bonus_tokens_cpu(tokens, torch.tensor(lengths), bonus, stride)
    rows = tokens.view(-1, stride).tolist()
    assert bonus.tolist() == [row[length - 1] for row, length in zip(rows, lengths, strict=True)]


@given(st.lists(st.integers(-1, 9), min_size=1, max_size=12))
def test_accepted_slots_are_gathered_without_gaps(index):
    slots = torch.arange(500, 510, dtype=torch.int64)
    out = torch.full((len(index),), -5, dtype=torch.int64)
    fill_accept_out_cache_loc_cpu(torch.tensor(index, dtype=torch.int32), slots, out)
    found = [500 + node for node in index if node != -1]
    assert out.tolist() == found + [-5] * (len(index) - len(found))


@given(st.data(), st.sampled_from([torch.float32, torch.bfloat16]))
def test_cache_entries_move_in_every_layer_even_when_slots_overlap(data, dtype):
    slots, width, layers = 8, 3, 2
    places = st.lists(st.integers(0, slots - 1), min_size=0, max_size=slots)
    targets = data.draw(places.filter(lambda drawn: len(set(drawn)) == len(drawn)))
    sources = data.draw(
        st.lists(st.integers(0, slots - 1), min_size=len(targets), max_size=len(targets))
    )
    buffers = [
        torch.arange(layer * 100, layer * 100 + slots * width).to(dtype).view(slots, width)
        for layer in range(layers)
    ]
    expected = [buffer.clone() for buffer in buffers]
    for before, wanted in zip(buffers, expected, strict=True):
        for target, source in zip(targets, sources, strict=True):
            wanted[target] = before[source]
    copy_all_layer_kv_cache_cpu(
        torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.uint64),
        torch.tensor([width * buffer.element_size() for buffer in buffers]),
        torch.tensor(targets, dtype=torch.int64),
        torch.tensor(sources, dtype=torch.int64),
    )
    for buffer, wanted in zip(buffers, expected, strict=True):
        assert torch.equal(buffer, wanted)
