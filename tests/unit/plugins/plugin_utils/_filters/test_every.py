# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pkgutil
from types import SimpleNamespace

import pytest
from ansible_collections.sm120.sglang.plugins.filter import every
from ansible_collections.sm120.sglang.plugins.plugin_utils import _filters


def test_no_part_is_left_out() -> None:
    there = {module.name for module in pkgutil.iter_modules(_filters.__path__)}
    assert {part.__name__.rpartition(".")[2] for part in every._PARTS} == there


def test_two_parts_never_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    same = SimpleNamespace(__name__="same", filters=lambda: {"short_cause": str})
    monkeypatch.setattr(every, "_PARTS", (same, same))
    every.every.cache_clear()
    try:
        with pytest.raises(ValueError, match="short_cause is another part's"):
            every.every()
    finally:
        every.every.cache_clear()
