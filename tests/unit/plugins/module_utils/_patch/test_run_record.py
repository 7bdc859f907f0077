# SPDX-License-Identifier: Apache-2.0
"""What a run remembers: whose work a file is, and the way back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    ManifestError,
    PatchError,
)

from tests.unit.plugins.module_utils._patch.small_release import (
    FILES,
    KIMI,
    KIMI_FILE,
    MODEL,
    SIZES,
    SIZES_FILE,
    WORLD,
    WORLD_FILE,
    go,
    make_release,
    snapshot,
    states,
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return make_release(tmp_path)


def own(file: str, rule: dict[str, Any], identifier: str = "own") -> dict[str, Any]:
    return {"id": identifier, "title": "Own", "file": file, "rule": rule}


def entry(key: int, value: str = "[1]", **changes: Any) -> dict[str, Any]:
    rule = {"kind": "ensure_dict_entry", "table": "TorchSymmMemCommunicator._WORLD_SIZES_MULTIMEM"}
    return own(WORLD_FILE, {**rule, "key": key, "value": value}, f"own_{key}", **changes)


class TestRecord:
    def test_a_copied_release_can_be_reverted(self, tmp_path: Path) -> None:
        package = make_release(tmp_path / "one" / "venv")
        before = snapshot(package)
        manifest = tmp_path / "one" / "patches.json"
        go(package, manifest=str(manifest))
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        shutil.rmtree(tmp_path / "one")
        copied = tmp_path / "two" / "venv" / "sglang"
        record = str(tmp_path / "two" / "patches.json")
        assert set(states(go(copied, manifest=record)).values()) == {"applied"}
        go(copied, manifest=record, state="absent")
        assert snapshot(copied) == before

    def test_without_its_record_an_edit_is_taken_for_the_release_s_own(self, package: Path) -> None:
        manifest = go(package).manifest
        manifest.unlink()
        result = go(package)
        assert set(states(result).values()) == {"upstream"}
        assert not result.changed

    def test_a_damaged_record_stops_the_run(self, package: Path) -> None:
        manifest = go(package).manifest
        manifest.write_text("{")
        with pytest.raises(ManifestError, match=r"cannot be read"):
            go(package)

    def test_a_folder_for_the_record_must_exist(self, package: Path, tmp_path: Path) -> None:
        with pytest.raises(PatchError, match=r"does not exist"):
            go(package, manifest=str(tmp_path / "no" / "patches.json"))

    @pytest.mark.parametrize("done", [0, 1, 2])
    def test_a_run_that_was_killed_between_two_files(self, package: Path, done: int) -> None:
        """The record is written first; any part of the files may have arrived."""
        before = snapshot(package)
        go(package)
        after = snapshot(package)
        for name in [KIMI_FILE, SIZES_FILE, WORLD_FILE][done:]:
            (package / name).write_bytes(before[name])
        result = go(package)
        assert list(states(result).values()) == ["applied"] * done + ["needed"] * (3 - done)
        assert snapshot(package) == after
        go(package, state="absent")
        assert snapshot(package) == before

    def test_a_file_that_somebody_edited_afterwards(self, package: Path) -> None:
        go(package)
        path = package / KIMI_FILE
        path.write_text("# mine\n" + path.read_text())
        mine = path.read_bytes()
        for state in ("present", "absent"):
            result = go(package, state=state)
            assert states(result)[KIMI] == "conflict"
            assert "edited by somebody else" in result.refused
            assert path.read_bytes() == mine
        skipped = go(package, on_conflict="skip", state="absent")
        assert skipped.changed
        assert states(go(package, on_conflict="skip"))[KIMI] == "conflict", "the record was lost"

    def test_a_file_whose_edit_somebody_took_out(self, package: Path) -> None:
        go(package)
        (package / KIMI_FILE).write_text("# mine\n" + MODEL)
        assert states(go(package))[KIMI] == "needed"
        assert states(go(package))[KIMI] == "applied"
        go(package, state="absent")
        assert (package / KIMI_FILE).read_text() == "# mine\n" + MODEL

    def test_another_release_in_the_same_place(self, package: Path) -> None:
        """It may hold, by its own code, the very text that we once wrote."""
        go(package)
        edited = {name: (package / name).read_text() for name in FILES}
        make_release(package.parent, "0.5.10", **{n: t + "# new\n" for n, t in edited.items()})
        result = go(package)
        assert set(states(result).values()) == {"upstream"}
        assert not result.changed


class TestSeveralPatchesOfOneFile:
    def test_together_and_one_by_one(self, package: Path) -> None:
        before = snapshot(package)
        extra = [entry(13), entry(14)]
        go(package, catalog=extra)
        text = (package / WORLD_FILE).read_text()
        assert all(f"{key}: [" in text for key in (12, 13, 14))
        assert not go(package, catalog=extra).changed
        gone = go(package, catalog=extra, patches=["own_13"], state="absent")
        assert states(gone) == {"own_13": "applied"}
        text = (package / WORLD_FILE).read_text()
        assert "13: [" not in text
        assert "12: [8]" in text
        assert "14: [1]" in text
        assert set(states(go(package, catalog=extra)).values()) == {"applied", "needed"}
        go(package, catalog=extra, state="absent")
        assert snapshot(package) == before

    def test_a_changed_rule_is_made_anew(self, package: Path) -> None:
        before = snapshot(package)
        go(package, catalog=[entry(13), entry(14)])
        changed = go(package, catalog=[entry(13, "[2]"), entry(14)])
        assert changed.changed
        text = (package / WORLD_FILE).read_text()
        assert "13: [2]" in text
        assert "14: [1]" in text
        assert not go(package, catalog=[entry(13, "[2]"), entry(14)]).changed
        go(package, catalog=[entry(13), entry(14)], state="absent")
        assert snapshot(package) == before

    def test_a_changed_rule_below_a_forgotten_patch(self, package: Path) -> None:
        go(package, catalog=[entry(13), entry(14)])
        result = go(package, catalog=[entry(13, "[2]")])
        assert states(result)["own_13"] == "conflict"
        assert "own_14 was made on top of it" in result.refused
        alone = go(package, catalog=[entry(13)], patches=["own_13"], state="absent")
        assert "own_14 was made on top of it" in alone.refused

    def test_a_rule_that_no_longer_fits_keeps_the_old_edit(self, package: Path) -> None:
        go(package, catalog=[entry(13)])
        after = snapshot(package)
        result = go(package, catalog=[entry(13, "'text'")])
        assert "its rule has changed" in result.refused
        assert snapshot(package) == after

    def test_everything_goes_even_what_the_catalogue_forgot(self, package: Path) -> None:
        before = snapshot(package)
        go(package, catalog=[entry(13)])
        result = go(package, state="absent")
        assert not result.refused
        assert states(result) == dict.fromkeys(["own_13", KIMI, SIZES, WORLD], "applied")
        assert snapshot(package) == before
