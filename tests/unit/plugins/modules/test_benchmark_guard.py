# SPDX-License-Identifier: Apache-2.0
"""The module's face; what it does is tested with the code that does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import guard
from ansible_collections.sm120.sglang.plugins.modules import benchmark_guard

ARMED = {
    "state": "armed",
    "original": "a" * 16,
    "launch": "b" * 16,
    "root": "/opt/none",
    "unit": "none.service",
    "user": "nobody",
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(guard, "STATE", tmp_path / "state")
    return tmp_path / "state"


def test_there_is_nothing_to_put_back_without_a_benchmark(run_module: Any) -> None:
    done = run_module(benchmark_guard, {"state": "restored"})
    assert (done["changed"], done["pending"], done["restarted"], done["launch"]) == (
        False,
        False,
        False,
        "",
    )


def test_check_mode_arms_nothing(run_module: Any, state: Path) -> None:
    assert run_module(benchmark_guard, ARMED, check=True)["changed"]
    assert not state.exists()


def test_what_cannot_be_put_back_is_not_armed(run_module: Any, tmp_path: Path) -> None:
    asked = {**ARMED, "config": str(tmp_path)}
    done = run_module(benchmark_guard, asked)
    assert done["failed"]
    assert "there would be nothing to put back" in done["msg"]


def test_arming_needs_to_know_what_and_where(run_module: Any) -> None:
    done = run_module(benchmark_guard, {"state": "armed"})
    assert "missing: original, root, unit, user" in done["msg"]
