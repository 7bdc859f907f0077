# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.modules import verified_files

FILES = {"config.json": b"{}", "d/model.bin": b"weights"}
NAMES = {"part0": "config.json", "part1": "d/model.bin"}


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    for arrived, name in NAMES.items():
        (incoming / arrived).write_bytes(FILES[name])
    return {
        "dest": str(tmp_path / "dest"),
        "record": str(tmp_path / "record.json"),
        "files": [
            {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in FILES.items()
        ],
    }


@pytest.fixture
def bringing(arguments: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    return {**arguments, "incoming": str(tmp_path / "incoming"), "names": NAMES}


def test_files_are_taken_in_once(run_module: Any, bringing: dict[str, Any], tmp_path: Path) -> None:
    both = sorted(FILES)
    check = run_module(verified_files, bringing, check=True)
    assert (check["changed"], check["missing"]) == (True, both)
    assert not (tmp_path / "dest").exists()
    assert not (tmp_path / "record.json").exists()

    first = run_module(verified_files, bringing)
    assert (first["changed"], first["missing"], first["verified"]) == (True, [], both)
    assert first["read"] == []  # their content was seen while they came in
    for name, content in FILES.items():
        assert (tmp_path / "dest" / name).read_bytes() == content

    inodes = [(tmp_path / "dest" / name).stat().st_ino for name in FILES]
    for check_mode in (False, True):
        again = run_module(verified_files, bringing, check=check_mode)
        assert (again["changed"], again["read"], again["verified"]) == (False, [], both)
    assert inodes == [(tmp_path / "dest" / name).stat().st_ino for name in FILES]


def test_only_what_is_missing_is_taken_in(
    run_module: Any, bringing: dict[str, Any], tmp_path: Path
) -> None:
    run_module(verified_files, bringing)
    (tmp_path / "dest/config.json").unlink()
    (tmp_path / "incoming/part1").unlink()  # not needed
    check = run_module(verified_files, bringing, check=True)
    assert (check["changed"], check["missing"]) == (True, ["config.json"])
    assert run_module(verified_files, bringing)["changed"]
    assert not run_module(verified_files, bringing)["changed"]


def test_asking_changes_nothing(run_module: Any, arguments: dict[str, Any], tmp_path: Path) -> None:
    for check in (True, False):
        asked = run_module(verified_files, arguments, check=check)
        assert (asked["changed"], asked["missing"]) == (False, sorted(FILES))
    assert not (tmp_path / "dest").exists()


def place(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / "dest" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dest" / name).write_bytes(content)


def test_files_that_lie_there_are_read_once(
    run_module: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    place(tmp_path)
    both = sorted(FILES)
    check = run_module(verified_files, arguments, check=True)
    assert (check["changed"], check["read"], check["verified"]) == (False, both, both)
    assert not (tmp_path / "record.json").exists()
    assert run_module(verified_files, arguments)["read"] == both
    assert run_module(verified_files, arguments)["read"] == []
    assert run_module(verified_files, {**arguments, "full": True})["read"] == both
    assert run_module(verified_files, arguments)["read"] == []


def test_the_record_lies_in_the_folder_by_default(
    run_module: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    place(tmp_path)
    run_module(verified_files, {k: v for k, v in arguments.items() if k != "record"})
    assert (tmp_path / "dest/.verified.json").is_file()


@pytest.mark.parametrize("check", [True, False])
def test_a_corrupt_file_is_named(
    run_module: Any, arguments: dict[str, Any], tmp_path: Path, check: bool
) -> None:
    place(tmp_path)
    (tmp_path / "dest/d/model.bin").write_bytes(b"wEights")
    (tmp_path / "dest/config.json").unlink()
    found = run_module(verified_files, arguments, check=check)
    assert found["failed"]
    assert f"{tmp_path}/dest/d/model.bin: sha256 is " in found["msg"]
    assert "Remove the file" in found["msg"]
    assert found["missing"] == ["config.json"]
    # It is found every time, until somebody acts.
    assert run_module(verified_files, arguments)["failed"]


def test_a_damaged_transfer_is_not_put_in_place(
    run_module: Any, bringing: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "incoming/part1").write_bytes(b"wEights")
    found = run_module(verified_files, bringing)
    assert found["failed"]
    assert "d/model.bin: arrived with sha256 " in found["msg"]
    assert (found["missing"], found["verified"]) == (["d/model.bin"], ["config.json"])
    (tmp_path / "incoming/part1").write_bytes(FILES["d/model.bin"])
    assert run_module(verified_files, bringing)["missing"] == []


def test_a_wrong_file_can_count_as_missing_and_be_replaced(
    run_module: Any, arguments: dict[str, Any], bringing: dict[str, Any], tmp_path: Path
) -> None:
    place(tmp_path)
    model = tmp_path / "dest/d/model.bin"
    model.write_bytes(b"wEights")
    for check in (True, False):
        asked = run_module(verified_files, {**arguments, "wrong": "missing"}, check=check)
        assert (asked["changed"], asked["missing"]) == (False, ["d/model.bin"])
        assert asked["verified"] == ["config.json"]
    replacing = {**bringing, "wrong": "missing"}
    config = (tmp_path / "dest/config.json").stat().st_ino
    assert run_module(verified_files, replacing, check=True)["changed"]
    assert model.read_bytes() == b"wEights"
    result = run_module(verified_files, replacing)
    assert (result["changed"], result["missing"]) == (True, [])
    assert model.read_bytes() == FILES["d/model.bin"]
    assert (tmp_path / "dest/config.json").stat().st_ino == config  # it was right
    for check in (False, True):
        assert not run_module(verified_files, replacing, check=check)["changed"]


@pytest.mark.parametrize("wrong", ["fail", "missing"])
def test_a_damaged_replacement_is_never_silent(
    run_module: Any, bringing: dict[str, Any], tmp_path: Path, wrong: str
) -> None:
    place(tmp_path)
    (tmp_path / "dest/d/model.bin").write_bytes(b"wEights")
    (tmp_path / "incoming/part1").write_bytes(b"wXights")
    found = run_module(verified_files, {**bringing, "wrong": wrong})
    assert found["failed"]
    assert "d/model.bin: arrived with sha256 " in found["msg"]
    assert (tmp_path / "dest/d/model.bin").read_bytes() == b"wEights"


def test_the_mode_is_set(run_module: Any, bringing: dict[str, Any], tmp_path: Path) -> None:
    run_module(verified_files, {**bringing, "mode": "0600"})
    assert (tmp_path / "dest/config.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": [{"name": "../x", "sha256": "0" * 64, "size": 1}]}, "stay in its folder"),
        ({"names": {"part0": "other.json"}}, "names: other.json is not among the wanted files"),
        ({"incoming": "/nowhere-at-all"}, "/nowhere-at-all/part0: No such file or directory"),
    ],
)
def test_bad_parameters_fail_with_a_sentence(
    run_module: Any, bringing: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    found = run_module(verified_files, {**bringing, **change})
    assert found["failed"]
    assert message in found["msg"]
