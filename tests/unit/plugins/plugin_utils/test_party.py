# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ansible_collections.sm120.sglang.plugins.plugin_utils._party import Party


def test_who_failed_is_seen_by_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "engine-1"
    first, second = Party(folder, "a", ["b"]), Party(folder, "b", ["a"])
    assert first.lost() == ("", "")
    second.failed("b: KeyError: 12\nRemedy: x")
    assert first.lost() == ("b", "b: KeyError: 12\nRemedy: x")
    assert second.lost() == ("", "")
    assert Party(tmp_path / "engine-2", "a", ["b"]).lost() == ("", ""), "another task's wait"


def test_an_engine_on_one_node_leaves_no_file(tmp_path: Path) -> None:
    Party(tmp_path / "engine-1", "a").failed("dead")
    assert list(tmp_path.iterdir()) == []
