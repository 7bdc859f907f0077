# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _launches, _release
from ansible_collections.sm120.sglang.plugins.modules import release_prune

OLD, NOW = "a" * 16, "b" * 16
HASH = "0" * 64


def release(root: Path, name: str, *pins: str) -> None:
    tree = root / "releases" / name
    tree.mkdir(parents=True)
    (tree / "COMPLETE").touch()
    (tree / "stack.lock").write_text("".join(f"{pin} --hash=sha256:{HASH}\n" for pin in pins))
    (root / "cache" / name).mkdir(parents=True)


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    root, config = tmp_path / "product", tmp_path / "etc"
    config.mkdir()
    release(root, "r1", "sglang==1", "torch==2.0+cpu")
    release(root, "r2", "sglang==2", "torch==2.0+cpu")
    (root / "cache/uv").mkdir()
    (root / "proofs").mkdir()
    (root / "proofs/r1.json").touch()
    (root / "wheels").mkdir()
    for name in ("sglang-1-py3-none-any.whl", "sglang-2-py3-none-any.whl"):
        (root / "wheels" / name).touch()
    (root / "wheels" / "torch-2.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    for launch, name in ((OLD, "r1"), (NOW, "r2")):
        _launches.save(config, _launches.Launch(launch, name), [])
    _launches.mark_serving(config, NOW)
    _release.switch(root, "r2")
    return {
        "root": str(root),
        "config": str(config),
        "failures": str(tmp_path / "failures"),
        "releases": ["r1"],
    }


def everything(arguments: dict[str, Any]) -> set[str]:
    places = [Path(arguments[key]) for key in ("root", "config")]
    return {str(path) for place in places for path in place.rglob("*")}


def test_a_release_goes_with_all_that_only_it_needed(
    run_module: Any, arguments: dict[str, Any]
) -> None:
    before = everything(arguments)
    root = Path(arguments["root"])
    foreseen = run_module(release_prune, arguments, check=True)
    assert everything(arguments) == before
    done = run_module(release_prune, arguments)
    assert foreseen == done
    assert done["changed"]
    assert done["removed"] == [
        str(root / "releases/r1"),
        str(root / "proofs/r1.json"),
        str(root / "cache/r1"),
        str(root / "wheels/sglang-1-py3-none-any.whl"),
        f"launch {OLD}",
    ]
    assert not (root / "releases/r1").exists()
    assert (root / "releases/r2/COMPLETE").exists()
    assert (root / "cache/uv").exists()
    assert len(list((root / "wheels").iterdir())) == 2
    assert set(_launches.read(Path(arguments["config"]))["records"]) == {NOW}
    assert run_module(release_prune, arguments)["changed"] is False


def test_a_release_in_use_is_refused(run_module: Any, arguments: dict[str, Any]) -> None:
    before = everything(arguments)
    found = run_module(release_prune, {**arguments, "releases": ["r1", "r2"]})
    assert found["failed"]
    assert "release r2 is in use and stays" in found["msg"]
    assert everything(arguments) >= before


def test_without_a_readable_lock_no_wheel_goes(run_module: Any, arguments: dict[str, Any]) -> None:
    root = Path(arguments["root"])
    (root / "releases/r2/stack.lock").unlink()
    run_module(release_prune, arguments)
    assert len(list((root / "wheels").iterdir())) == 3
