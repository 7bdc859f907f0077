# SPDX-License-Identifier: Apache-2.0
"""The shipped patches on the real wheels: state, edit, behaviour, second run, way back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import sha256
from ansible_collections.sm120.sglang.plugins.module_utils._patch.run import Request, Result, run
from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels
from packaging.version import Version

from tests.releases import wheels

CATALOGUE = yaml.safe_load(
    (wheels.ROOT / "roles/source_patches/files/catalogue.yml").read_text("utf-8")
)
KIMI, SIZES, WORLD = (entry["id"] for entry in CATALOGUE)
HAS_KIMI, KIMI_NATIVE, COPES = Version("0.5.9"), Version("0.5.10"), Version("0.5.14")


def release_parameters(usual: Sequence[str] = wheels.FEW) -> list[Any]:
    few = [pytest.mark.releases]
    every = [pytest.mark.releases, pytest.mark.releases_all]
    return [
        pytest.param(name, marks=few if name in usual else every, id=name) for name in wheels.ALL
    ]


@pytest.fixture(scope="module", params=release_parameters())
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = str(request.param)
    return wheels.unpack(name, tmp_path_factory.mktemp(f"sglang-{name}"))


@pytest.fixture
def package(release: Path, tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "sglang"
    shutil.copytree(release, copy)
    yield copy
    shutil.rmtree(copy)


def patch(package: Path, **changes: Any) -> Result:
    return run(Request(root=str(package), shipped_catalog=CATALOGUE, **changes))


def by_id(result: Result) -> dict[str, Any]:
    assert not result.refused
    return {outcome.id: outcome for outcome in result.outcomes}


def states(result: Result) -> dict[str, str]:
    return {name: outcome.state for name, outcome in by_id(result).items()}


def expected(version: str) -> dict[str, str]:
    """Facts A1 to A3: what each release needs."""
    number = Version(version)
    kimi = "upstream" if number >= KIMI_NATIVE else "needed" if number >= HAS_KIMI else "absent"
    tables = "obsolete" if number >= COPES else "needed"
    return {KIMI: kimi, SIZES: tables, WORLD: tables}


def snapshot(package: Path) -> dict[str, str]:
    return {
        str(path.relative_to(package)): sha256(path.read_bytes())
        for path in package.rglob("*")
        if path.is_file()
    }


def test_states_edits_second_run_and_way_back(package: Path) -> None:
    before = snapshot(package)
    looked = patch(package, check_mode=True)
    assert states(looked) == expected(looked.release)
    assert snapshot(package) == before, "check mode changed a file"

    made = patch(package)
    assert states(made) == expected(made.release)
    assert [dict(item) for item in made.diff] == [dict(item) for item in looked.diff]
    after = snapshot(package)
    edited = {name for name in before if before[name] != after[name]}
    assert edited == {outcome.file for outcome in made.outcomes if outcome.changed}
    for outcome in made.outcomes:
        assert outcome.sha256_after == after.get(outcome.file)
        assert outcome.sha256_before == before.get(outcome.file)
        if outcome.changed:
            compile((package / outcome.file).read_bytes(), outcome.file, "exec")

    again = patch(package)
    assert not again.changed
    assert snapshot(package) == after
    for outcome in again.outcomes:
        was = by_id(made)[outcome.id]
        assert outcome.state == ("applied" if was.changed else was.state)

    back = patch(package, state="absent")
    assert back.changed == made.changed
    assert snapshot(package) == before
    assert not back.manifest.exists()


def test_needed_only_leaves_what_the_release_copes_without(package: Path) -> None:
    result = patch(package, policy="needed_only")
    for outcome in result.outcomes:
        assert outcome.changed == (outcome.state == "needed")


def test_behaviour_is_that_of_the_truth_table(package: Path) -> None:
    """Facts A3, as executed there: SM120, world size 8."""
    sizes = by_id(patch(package, patches=[SIZES]))[SIZES].proof
    both = by_id(patch(package, patches=[SIZES, WORLD]))[WORLD].proof
    copes = Version(patch(package, check_mode=True).release) >= COPES
    bare, bare_multicast = sizes["before"]
    if copes:
        assert bare["result"] == bare_multicast["result"] == "disabled"
        assert "Device capability 12 not supported" in bare["detail"]
    else:
        assert bare["detail"] == bare_multicast["detail"] == "KeyError: 12 in __init__"
    for proof in (sizes, both):
        assert proof["after"][0]["result"] == "disabled"
        assert "multicast operations are not supported" in proof["after"][0]["detail"]
    alone = sizes["after"][1]
    if copes:
        assert alone["result"] == "two_shot_all_reduce_"
    else:
        assert alone["detail"] == "KeyError: 12 in all_reduce"
    assert both["after"][1]["result"] == "multimem_all_reduce_"


def test_upgrade_over_a_patched_0_5_9(release: Path, tmp_path: Path) -> None:
    """The old record stays, every file is replaced: it must not be taken for a sign of anything."""
    package = wheels.unpack("0.5.9", tmp_path)
    assert patch(package).changed
    shutil.rmtree(package)
    shutil.copytree(release, package)
    if not (package / CATALOGUE[0]["file"]).exists():
        pytest.skip("older than 0.5.9: no upgrade")
    version = patch(package, check_mode=True).release
    assert states(patch(package)) == expected(version)
    assert not patch(package).changed
    before = snapshot(release)
    assert patch(package, state="absent").changed
    assert snapshot(package) == before


@pytest.mark.releases
@pytest.mark.releases_all
def test_newest_release_on_the_index(tmp_path: Path) -> None:
    """A release that this project has not seen yet is patched right, or refused."""
    version = _sglang_wheels.published()[0]
    package = wheels.unpack(version, tmp_path)
    result = patch(package, on_conflict="skip")
    assert {outcome.state for outcome in result.outcomes} <= {"upstream", "obsolete", "conflict"}
    assert not patch(package, on_conflict="skip").changed


@pytest.mark.releases
def test_the_real_class_answers_on_the_engine_s_own_python() -> None:
    """Needs an environment that can import the engine, for example the lab's.

    ``SGLANG_ENGINE_PYTHON`` names its interpreter; other variables are taken as they are.
    """
    python = os.environ.get("SGLANG_ENGINE_PYTHON", "")
    if not python:
        pytest.skip("SGLANG_ENGINE_PYTHON is not set")
    venv = Path(python).parents[1]
    result = patch(venv, patches=[KIMI], python=python, check_mode=True, on_conflict="skip")
    outcome = by_id(result)[KIMI]
    if outcome.state == "needed":
        assert outcome.proof["real_class"]["ran"], outcome.proof
        assert not outcome.proof["real_class"]["why"]
        (methods,) = outcome.proof["real_class"]["inner"].values()
        assert len(methods) == 3
    else:
        assert outcome.state in {"applied", "upstream"}
