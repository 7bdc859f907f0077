# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _lock


def test_a_folder_is_held_by_one_at_a_time_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    with (
        _lock.folder(tmp_path),
        pytest.raises(TimeoutError, match="another run has held it for 0 s"),
        _lock.folder(tmp_path, seconds=0.1),
    ):
        pytest.fail("it was held twice")
    with _lock.folder(tmp_path, seconds=0.0):
        assert list(tmp_path.iterdir()) == []


def test_a_failure_inside_ends_the_lock(tmp_path: Path) -> None:
    with pytest.raises(KeyError), _lock.folder(tmp_path):
        raise KeyError
    with _lock.folder(tmp_path, seconds=0.0):
        pass


def test_a_folder_that_is_not_there_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), _lock.folder(tmp_path / "no"):
        pass
