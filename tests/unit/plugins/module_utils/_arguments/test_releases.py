# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.releases import (
    Range,
    release_key,
)

ORDER = [
    "0.5.5.post3",
    "0.5.9",
    "0.5.10rc1",
    "0.5.10",
    "0.5.10.post1",
    "0.5.13",
    "0.5.13.post1",
    "0.5.14.dev3+g1",
    "0.5.14",
    "0.6",
]


def test_releases_are_ordered_as_they_came() -> None:
    assert sorted(set(ORDER), key=release_key) == ORDER


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("", ORDER),
        ("<0.5.10", ORDER[:3]),
        (">=0.5.10,<0.5.14", ORDER[3:8]),
        ("<=0.5.13.post1", ORDER[:7]),
        ("==0.5.14", ["0.5.14"]),
        ("> 0.5.13.post1", ORDER[7:]),
    ],
)
def test_ranges(text: str, inside: list[str]) -> None:
    assert [version for version in ORDER if version in Range(text)] == inside


@pytest.mark.parametrize("text", ["0.5.14", "~=0.5", ">=", ">=x"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        Range(text)
