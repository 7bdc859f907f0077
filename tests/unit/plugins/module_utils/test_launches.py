# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _launches
from ansible_collections.sm120.sglang.plugins.module_utils._launches import File, Launch

A, B, C = "a" * 16, "b" * 16, "c" * 16
FILES = [
    File("/etc/systemd/system/sglang.service", "0644", "root", "root", "[Unit]\n"),
    File("/etc/sglang/secrets.yaml", "0600", "root", "root", 'api-key: "k"\n'),
]


def keep(config: Path, launch: str, release: str = "r1") -> bool:
    saved = _launches.save(config, Launch(launch, release, gated_at=1.0), FILES)
    return _launches.mark_serving(config, launch) or saved


def test_what_was_kept_is_read_back_with_its_files(tmp_path: Path) -> None:
    assert _launches.read(tmp_path)["records"] == {}
    assert keep(tmp_path, A)
    assert not keep(tmp_path, A)
    record, files = _launches.load_files(tmp_path, A)
    assert files == FILES
    assert record["release"] == "r1"
    known = _launches.read(tmp_path)
    assert (known["serving"], known["before"]) == (A, "")
    assert known["records"][A] == record
    assert "content" not in str(known)


def test_only_root_reads_a_record(tmp_path: Path) -> None:
    keep(tmp_path, A)
    for folder, _folders, files in os.walk(tmp_path / "launches"):
        assert Path(folder).stat().st_mode & 0o077 == 0
        assert all((Path(folder) / name).stat().st_mode & 0o077 == 0 for name in files)


def test_the_one_that_served_is_the_one_to_go_back_to(tmp_path: Path) -> None:
    for launch in (A, B, C, B):
        keep(tmp_path, launch)
    known = _launches.read(tmp_path)
    assert (known["serving"], known["before"]) == (B, C)


def test_a_record_that_is_not_whole_is_not_used(tmp_path: Path) -> None:
    keep(tmp_path, A)
    (tmp_path / "launches" / A / "secrets.yaml").unlink()
    with pytest.raises(_launches.LaunchRecordError, match="not whole"):
        _launches.load_files(tmp_path, A)
    (tmp_path / "launches" / A / "record.json").write_text("{")
    assert _launches.read(tmp_path)["serving"] == ""
    with pytest.raises(_launches.LaunchRecordError, match="no launch"):
        _launches.load_files(tmp_path, A)
    with pytest.raises(_launches.LaunchRecordError, match="no launch"):
        _launches.load_files(tmp_path, "../" + A)


def test_records_in_use_are_never_forgotten(tmp_path: Path) -> None:
    for launch in (A, B, C):
        keep(tmp_path, launch)
    _launches.forget(tmp_path, [A, B, C, ".."])
    assert set(_launches.read(tmp_path)["records"]) == {B, C}


def test_a_rollback_by_hand_is_remembered_until_it_is_over(tmp_path: Path) -> None:
    keep(tmp_path, A)
    _launches.note_rollback(tmp_path, B, "r2", 5.0)
    assert _launches.read(tmp_path)["rolled_back"] == {"launch": B, "release": "r2", "at": 5.0}
    _launches.forget_rollback(tmp_path)
    _launches.forget_rollback(tmp_path)
    assert _launches.read(tmp_path)["rolled_back"] == {}


STEPS = ("mkdir", "rename", "replace", "symlink_to")


def test_killed_at_any_step_the_old_record_or_the_new_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change of the file system in turn is the last one that happens."""

    class KilledError(BaseException):
        pass

    def dying(name: str, counter: list[int], last: int) -> Callable[..., object]:
        real = getattr(Path, name)

        def step(self: Path, *args: object, **options: object) -> object:
            counter[0] += 1
            if counter[0] > last:
                raise KilledError
            return real(self, *args, **options)

        return step

    for last in range(40):
        config = tmp_path / str(last)
        config.mkdir()
        keep(config, A)
        counter = [0]
        with monkeypatch.context() as patched:
            for name in STEPS:
                patched.setattr(Path, name, dying(name, counter, last))
            try:
                keep(config, B, "r2")
                finished = True
            except KilledError:
                finished = False
        known = _launches.read(config)
        assert known["serving"] in (A, B)
        _launches.load_files(config, known["serving"])
        # The next run does it again.
        keep(config, B, "r2")
        known = _launches.read(config)
        assert known["serving"] == B
        assert known["before"] == A
        if finished:
            break
    else:
        pytest.fail("it never came to its end")
    assert last > 5


def pass_the_gate(config: Path, start: Barrier, times: int) -> None:
    """What `launch_record` does, as often as `times`."""
    start.wait()
    for _ in range(times):
        with _launches.changing(config):
            keep(config, B)


def test_two_gates_of_the_same_launch_may_pass_at_the_same_moment(tmp_path: Path) -> None:
    keep(tmp_path, A)
    fork = get_context("fork")
    start = fork.Barrier(3)
    runs = [fork.Process(target=pass_the_gate, args=(tmp_path, start, 20)) for _ in range(2)]
    for run in runs:
        run.start()
    start.wait()
    known = []
    while any(run.is_alive() for run in runs):
        known.append(_launches.read(tmp_path))
    assert [run.exitcode for run in runs] == [0, 0]
    final = _launches.read(tmp_path)
    assert (final["serving"], final["before"]) == (B, A)
    # Nor has a reader ever seen the record gone.
    seen = [one["serving"] for one in known]
    assert set(seen) <= {A, B}
    assert seen == sorted(seen)
    assert [path.name for path in (tmp_path / "launches").glob(".*")] == []
