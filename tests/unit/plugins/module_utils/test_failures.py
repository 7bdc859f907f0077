# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils import _failures
from ansible_collections.sm120.sglang.plugins.module_utils._failures import Failure

KEY = 's"ecret-0815'
SECRETS = '# by the role\napi-key: "s\\"ecret-0815"\n'


def kept(place: Path, at: float = 0.0, release: str = "r1") -> Path:
    failure = Failure("a" * 16, release, "lab", at, f"dead with {KEY}")
    journal = f"server_args=ServerArgs(api_key='{KEY}', port=1)\nplain {KEY}\n"
    secrets = _failures.secrets_in(SECRETS)
    return _failures.keep(place, failure, journal, {"engine.env": f"A={KEY}\n"}, secrets)


def test_what_is_kept_has_the_log_but_no_secret(tmp_path: Path) -> None:
    folder = kept(tmp_path / "failures")
    assert folder.name == "19700101T000000Z-r1"
    names = {path.name for path in folder.iterdir()}
    assert names == {"failure.json", "journal.log", "engine.env"}
    for path in folder.iterdir():
        assert "ecret-0815" not in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    assert "port=1" in (folder / "journal.log").read_text()
    assert (tmp_path / "failures").stat().st_mode & 0o077 == 0
    read = _failures.read(tmp_path / "failures")
    assert [(entry["release"], entry["folder"]) for entry in read] == [("r1", str(folder))]


def test_the_newest_are_kept_and_those_of_removed_releases_go(tmp_path: Path) -> None:
    for number in range(_failures.KEEP + 3):
        kept(tmp_path, at=number * 60.0, release=f"r{number % 2}")
    found = _failures.read(tmp_path)
    assert len(found) == _failures.KEEP
    assert found[-1]["at"] == (_failures.KEEP + 2) * 60.0
    # The clock went back: this one is the newest all the same.
    kept(tmp_path, at=0.0, release="r0")
    assert _failures.read(tmp_path)[0]["at"] == 0.0
    assert len(_failures.read(tmp_path)) == _failures.KEEP
    _failures.forget(tmp_path, ["r1"])
    assert {entry["release"] for entry in _failures.read(tmp_path)} == {"r0"}
    assert _failures.read(tmp_path / "nowhere") == []


def test_two_controllers_may_see_the_same_launch_fail_in_the_same_second(tmp_path: Path) -> None:
    place, fork = tmp_path / "failures", get_context("fork")
    runs = [fork.Process(target=lambda: [kept(place) for _ in range(20)]) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    assert [path.name for path in place.iterdir()] == ["19700101T000000Z-r1"]
