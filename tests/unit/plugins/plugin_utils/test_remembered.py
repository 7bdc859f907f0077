# SPDX-License-Identifier: Apache-2.0
"""What was made once is made again when anything that it is made of is another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.plugin_utils import _remembered
from ansible_collections.sm120.sglang.plugins.plugin_utils._remembered import (
    fingerprint,
    remembered,
)


class Made:
    """Counts how often something is made."""

    def __init__(self, result: Any) -> None:
        self.times, self.result = 0, result

    def __call__(self) -> Any:
        self.times += 1
        return self.result


RESULT = {"wheel": "/a", "findings": [{"argument": "--x", "reason": "é"}]}


def test_the_same_parts_are_made_once(tmp_path: Path) -> None:
    make = Made(RESULT)
    for parts in ([1, {"b": 1, "a": 2}], [1, {"a": 2, "b": 1}]):
        assert remembered(tmp_path, parts, make) == RESULT
    assert make.times == 1


@pytest.mark.parametrize("other", [[2, "a"], [1, "b"], [1], ["1", "a"], [[1, "a"]], ["a", 1]])
def test_other_parts_are_another_result(tmp_path: Path, other: list[Any]) -> None:
    remembered(tmp_path, [1, "a"], Made("first"))
    assert remembered(tmp_path, other, Made("second")) == "second"


@pytest.mark.parametrize("content", ["", "{", "\x00"])
def test_what_cannot_be_read_is_made_again(tmp_path: Path, content: str) -> None:
    remembered(tmp_path, [1], Made("first"))
    (kept,) = (tmp_path / _remembered.FOLDER).iterdir()
    kept.write_text(content)
    assert remembered(tmp_path, [1], Made("second")) == "second"
    assert remembered(tmp_path, [1], Made("third")) == "second"


def test_a_folder_that_is_none_costs_time_alone(tmp_path: Path) -> None:
    make = Made("made")
    (tmp_path / "file").write_text("")
    for _ in range(2):
        assert remembered(tmp_path / "file", [1], make) == "made"
    assert make.times == 2


def test_nothing_is_kept_of_a_failure(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        remembered(tmp_path, [1], fail)
    assert remembered(tmp_path, [1], Made("made")) == "made"


def test_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remembered, "KEPT", 2)
    for number in range(4):
        remembered(tmp_path, [number], Made(number))
        for path in (tmp_path / _remembered.FOLDER).iterdir():
            times = path.stat().st_mtime_ns - 10**9
            os.utime(path, ns=(times, times))
    assert len(list((tmp_path / _remembered.FOLDER).iterdir())) == 2
    assert remembered(tmp_path, [3], Made("again")) == 3
    assert remembered(tmp_path, [0], Made("again")) == "again"


def test_a_file_of_the_same_size_and_time_is_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("first")
    before, times = fingerprint(path), path.stat()
    new = tmp_path / "new"
    new.write_text("other")
    new.replace(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert fingerprint(path) != before
