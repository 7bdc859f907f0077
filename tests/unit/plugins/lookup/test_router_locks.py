# SPDX-License-Identifier: Apache-2.0
"""The locks of SGLang's router."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.lookup import router_locks
from ansible_collections.sm120.sglang.plugins.module_utils import _stack

SHIPPED = Path(__file__).parents[4] / "roles/gateway/files/routers"
DIGEST = f" --hash=sha256:{'0' * 64}"


def lock(folder: Path, *lines: str) -> None:
    (folder / "1.0-py311.lock").write_text("".join(f"{line}\n" for line in lines))


def test_the_shipped_router_has_a_lock_for_every_supported_system() -> None:
    found = router_locks.load("0.3.2", [SHIPPED])
    assert set(found) == set(_stack.DISTRIBUTION_PYTHONS.values())
    assert len({entry["release"] for entry in found.values()}) == len(found)


def test_a_folder_of_ones_own_comes_first(tmp_path: Path) -> None:
    lock(tmp_path, f"sglang-router==1.0{DIGEST}", f"uv==1{DIGEST}")
    assert list(router_locks.load("1.0", [tmp_path, SHIPPED])) == ["3.11"]
    assert "3.11" in router_locks.load("0.3.2", [tmp_path, SHIPPED])


def test_an_unknown_version_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(_stack.StackError, match=r"no lock for router '9'; known: 0\.3\.2;"):
        router_locks.load("9", [tmp_path, SHIPPED])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([f"uv==1{DIGEST}"], "pins no sglang-router"),
        ([f"sglang-router==1.0{DIGEST}"], "pins no uv"),
        ([f"sglang-router==1.1{DIGEST}", f"uv==1{DIGEST}"], r"pins sglang-router 1\.1"),
        ([f"sglang-router==1.0{DIGEST}", "uv==1"], "no digest for uv"),
    ],
)
def test_a_lock_that_cannot_be_installed_or_verified_is_refused(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    lock(tmp_path, *lines)
    with pytest.raises(_stack.StackError, match=said):
        router_locks.load("1.0", [tmp_path])
