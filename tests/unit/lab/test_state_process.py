# SPDX-License-Identifier: Apache-2.0
"""Process identity: no process is mistaken for another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab import launch, process
from lab.process import Process, identify
from lab.state import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator

TAIL = "1 1 1 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 {start} 0 0"


@pytest.mark.parametrize("name", ["sh", "a b", "a) S 1", "((", ") R 9 9 9"])
def test_start_time_behind_any_command_name(name: str) -> None:
    assert process.parse_start_ticks(f"42 ({name}) S {TAIL.format(start=777)}") == 777


@pytest.mark.parametrize("code", ["Z", "X"])
def test_the_dead_have_no_start_time(code: str) -> None:
    assert process.parse_start_ticks(f"42 (sh) {code} {TAIL.format(start=777)}") is None


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "infinity"]) as child:
        yield child
        child.kill()


def known(pid: int) -> Process:
    found = identify(pid)
    assert found is not None
    return found


def test_a_living_process_is_itself(sleeper: subprocess.Popen[bytes]) -> None:
    it = known(sleeper.pid)
    assert it.is_alive()
    assert it == known(sleeper.pid)
    assert it != known(os.getpid())


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "another"}])
def test_another_start_or_boot_is_another_process(
    sleeper: subprocess.Popen[bytes], change: dict[str, int | str]
) -> None:
    other = replace(known(sleeper.pid), **change)  # type: ignore[arg-type]
    assert not other.is_alive()
    assert not other.send(signal.SIGKILL)
    assert other.wait(0)
    assert sleeper.poll() is None


def test_a_signal_and_the_wait_for_the_end(sleeper: subprocess.Popen[bytes]) -> None:
    it = known(sleeper.pid)
    assert not it.wait(0.01)
    assert it.send(signal.SIGTERM)
    assert it.wait(10)  # not reaped yet: a zombie counts as ended
    assert not it.is_alive()
    assert sleeper.wait() == -signal.SIGTERM
    assert not it.send(signal.SIGKILL)
    assert it.wait(0)
    assert identify(sleeper.pid) is None


def test_this_machines_own_root_is_never_a_node() -> None:
    with pytest.raises(ValueError, match="own root"):
        process.inhabitants(Path("/"))
    assert process.inhabitants(Path("/no/such/node")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_inhabitants_are_those_whose_root_it_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    inside = f"import os, time; os.chroot({str(root)!r}); print(flush=True); time.sleep(600)"
    nearby = f"import os, time; os.chdir({str(root)!r}); print(flush=True); time.sleep(600)"
    with (
        subprocess.Popen([sys.executable, "-c", inside], stdout=subprocess.PIPE) as first,
        subprocess.Popen([sys.executable, "-c", nearby], stdout=subprocess.PIPE) as second,
    ):
        for child in (first, second):
            assert child.stdout is not None
            child.stdout.readline()
        assert [p.pid for p in process.inhabitants(root)] == [first.pid]
        assert process.kill_inhabitants(root, 10) == []
        assert first.wait() == -signal.SIGKILL
        assert second.poll() is None
        second.kill()


def test_a_detached_program_is_recorded_before_it_runs(tmp_path: Path) -> None:
    log, record = tmp_path / "log", tmp_path / "record"

    def note(me: Process) -> None:
        os.chdir(tmp_path)
        record.write_text(f"{me.pid} {me.start_ticks}\n")

    launch.spawn_detached(
        ["sh", "-c", "cat record; ps -o sid= -p $$; echo $VALUE >&2; exec sleep 600"],
        {"PATH": os.environ["PATH"], "VALUE": "given"},
        log,
        note,
    )
    pid, start = (int(word) for word in record.read_text().split())
    it = known(pid)
    try:
        assert it.start_ticks == start
        for _ in range(1000):
            if log.read_text().endswith("given\n"):
                break
            it.wait(0.01)
        seen_pid, seen_start, session, value = log.read_text().split()
        assert (int(seen_pid), int(seen_start), value) == (pid, start, "given")
        assert int(session) not in {os.getsid(0), os.getpid()}
    finally:
        it.send(signal.SIGKILL)
        assert it.wait(10)


def test_a_detached_program_keeps_nothing_open_of_its_caller(tmp_path: Path) -> None:
    """A lock that the caller holds would be held for as long as the node runs."""
    log = tmp_path / "log"
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)  # as a shell or flock hands it on
        script = "ls -l /proc/self/fd; echo end"
        launch.spawn_detached(["sh", "-c", script], dict(os.environ), log, lambda _: None)
        deadline = time.monotonic() + 5
        while not log.read_text().endswith("end\n") and time.monotonic() < deadline:
            time.sleep(0.02)
    assert log.read_text().endswith("end\n")
    assert str(tmp_path / "lock") not in log.read_text()


def test_a_program_that_cannot_start_is_an_error_here(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot start /no/such/program: FileNotFoundError"):
        launch.spawn_detached(["/no/such/program"], {}, tmp_path / "log", lambda _: None)


def test_a_failed_preparation_starts_nothing(tmp_path: Path) -> None:
    def refuse(_: Process) -> None:
        raise LabError("no")

    touched = tmp_path / "touched"
    with pytest.raises(LabError, match="LabError: no"):
        launch.spawn_detached(["touch", str(touched)], dict(os.environ), tmp_path / "log", refuse)
    assert not touched.exists()
