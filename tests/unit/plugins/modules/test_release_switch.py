# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _release
from ansible_collections.sm120.sglang.plugins.modules import release_switch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("r1", "r2"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "COMPLETE").touch()
    return tmp_path


def links(root: Path) -> tuple[str | None, str | None]:
    return _release.linked(root, "current"), _release.linked(root, "previous")


def test_each_run_of_a_switch(run_module: Any, root: Path) -> None:
    arguments = {"root": str(root), "release": "r1"}
    check = run_module(release_switch, arguments, check=True)
    assert (check["changed"], check["previous"], links(root)) == (True, "", (None, None))
    assert check["diff"] == {"before": "current -> nothing\n", "after": "current -> r1\n"}
    real = run_module(release_switch, arguments)
    assert (real["changed"], links(root)) == (True, ("r1", None))
    assert real["diff"] == check["diff"]
    for mode in (False, True):
        again = run_module(release_switch, arguments, check=mode)
        assert (again["changed"], again["previous"]) == (False, "r1")

    upgrade = {**arguments, "release": "r2"}
    assert run_module(release_switch, upgrade, check=True)["changed"]
    assert links(root) == ("r1", None)
    assert run_module(release_switch, upgrade)["previous"] == "r1"
    assert links(root) == ("r2", "r1")
    run_module(release_switch, arguments)  # and back
    assert links(root) == ("r1", "r2")


def test_an_incomplete_release_is_refused(run_module: Any, root: Path) -> None:
    run_module(release_switch, {"root": str(root), "release": "r1"})
    (root / "releases/r2/COMPLETE").unlink()
    found = run_module(release_switch, {"root": str(root), "release": "r2"})
    assert found["failed"]
    assert "release r2 is not complete on this node; run the deployment" in found["msg"]
    assert links(root) == ("r1", None)
