# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import (
    Edit,
    apply_edits,
    reverse_edits,
)
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def data_and_edits(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    data = draw(st.binary(max_size=60))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8, unique=True)))
    edits = [
        Edit(start, data[start:end], draw(st.binary(max_size=6)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    return data, draw(st.permutations(edits))


@given(data_and_edits())
def test_reverse_gives_the_bytes_back(case: tuple[bytes, list[Edit]]) -> None:
    data, edits = case
    assert apply_edits(apply_edits(data, edits), reverse_edits(edits)) == data


def test_edits_count_in_the_bytes_before() -> None:
    assert apply_edits(b"abcdef", [Edit(4, b"e", b"EE"), Edit(1, b"bc", b"")]) == b"adEEf"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(1, b"x", b"")],
        [Edit(9, b"", b"z")],
        [Edit(0, b"ab", b""), Edit(1, b"b", b"")],
    ],
    ids=["other bytes there", "behind the end", "overlap"],
)
def test_edits_that_do_not_fit_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        apply_edits(b"abc", edits)
