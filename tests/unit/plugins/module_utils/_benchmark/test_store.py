# SPDX-License-Identifier: Apache-2.0
"""What a node keeps of its benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import store


def keep(folder: Path, stack: str, started: str) -> None:
    (folder / stack).mkdir(parents=True, exist_ok=True)
    (folder / stack / f"{started}.json").write_text(json.dumps({"started": started}))


def test_the_newest_of_the_newest_stacks(tmp_path: Path) -> None:
    for number in range(6):
        keep(tmp_path, "old", f"2026-01-0{number + 1}")
    for number in range(9):
        keep(tmp_path, f"s{number}", f"2026-02-0{number + 1}")
    found = [one["started"] for one in store.read(tmp_path)]
    assert found == [f"2026-02-0{number}" for number in range(2, 10)]
    assert [one["started"] for one in store.read(tmp_path)] == sorted(found)


def test_only_a_few_of_one_stack(tmp_path: Path) -> None:
    for number in range(6):
        keep(tmp_path, "one", f"2026-01-0{number + 1}")
    assert [one["started"][-1] for one in store.read(tmp_path)] == ["3", "4", "5", "6"]


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert store.read(tmp_path / "none") == []
    keep(tmp_path, "one", "2026-01-01")
    (tmp_path / "one/2026-01-02.json").write_text("{")
    (tmp_path / "one/2026-01-03.json").write_text("[]")
    (tmp_path / "one/.2026-01-04.json").write_text("{}")
    assert store.read(tmp_path) == [{"started": "2026-01-01"}]
