# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import (
    files,
    names,
    toolkit,
    transaction,
)

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_holder_of_a_lock_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    assert transaction.lock_holder([str(tmp_path / "none"), str(lock)]) is None
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        holder = transaction.lock_holder([str(lock)])
        assert holder is not None
        assert holder["pid"] == process.pid
        words = transaction.held_by(holder)
        assert f"{lock} is held by pid {process.pid}" in words
        assert "-c" in words
        process.communicate()
    assert transaction.lock_holder([str(lock)]) is None
    assert "outside this system's view" in transaction.held_by({"path": "x", "pid": 0})


def test_waiting_for_apt_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = {"path": "/l", "pid": 7, "command": "apt-get upgrade"}
    monkeypatch.setattr(transaction, "lock_holder", lambda: holder)
    with pytest.raises(names.CudaError, match=r"/l is held by pid 7 \(apt-get upgrade\)"):
        transaction.wait_unlocked(0)


def test_a_file_is_back_when_the_change_fails(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_text("before")
    for path in (file, other):
        with pytest.raises(RuntimeError), transaction.kept_file(path, always=False):
            transaction.write(path, b"after")
            raise RuntimeError
    assert file.read_text() == "before"
    assert not other.exists()
    with transaction.kept_file(file, always=True):
        transaction.write(file, b"after")
    assert file.read_text() == "before"
    with transaction.kept_file(file, always=False):
        transaction.write(file, b"after")
    assert file.read_text() == "after"
    assert file.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


PLAIN = {"--simulate", "--download-only", "--assume-no"}  # nothing is installed


class Dpkg:
    """A package database that apt-mark and apt-get change; it stands for the node's."""

    def __init__(self, packages: dict[str, str], held: set[str]) -> None:
        self.packages, self.held, self.asked = packages, held, list[tuple[str, ...]]()
        self.fails: Callable[[tuple[str, ...]], str] = lambda command: ""

    def run(self, *command: str) -> tuple[int, str]:
        self.asked.append(command)
        if error := self.fails(command):
            return 100, error
        if command[0] == "dpkg-query":
            return 0, "".join(
                f"{'h' if name in self.held else 'i'}i \t{name}\t{version}\n"
                for name, version in self.packages.items()
            )
        if command[:2] == ("apt-mark", "unhold"):
            self.held -= set(command[2:])
        if command[:2] == ("apt-mark", "hold"):
            self.held |= set(command[2:])
        if command[:2] == ("apt-cache", "madison"):
            lines = [f"{n} | 590.48.01-1 | x\n{n} | 580.95.05-1 | x\n" for n in command[2:]]
            return 0, "".join(lines)
        if command[0] == "apt-get" and "install" in command and not PLAIN & set(command):
            assert not self.held & set(self.packages), "a hold is in the way"
            for word in command[command.index("install") + 1 :]:
                name, separator, version = word.partition("=")
                if separator:
                    self.packages[name] = version
        return 0, ""


ASKED: dict[str, Any] = {
    "packages": ["libcuda1"],
    "extra": [],
    "version": "",
    "branch": 590,
    "pinning": "",
    "remove": [],
    "allow_downgrade": False,
}


@pytest.fixture
def dpkg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Dpkg:
    found = Dpkg({"libcuda1": "580.95.05-1", "nvidia-modprobe": "580.95.05-1"}, {"libcuda1"})
    monkeypatch.setattr(transaction, "run", found.run)
    monkeypatch.setattr(files, "PREFERENCES", str(tmp_path / "preferences"))

    # What the node really has must not be asked.
    class Free:
        free = 10**12

    monkeypatch.setattr(shutil, "disk_usage", lambda place: Free)
    return found


def preferences() -> Path:
    return Path(files.PREFERENCES)


@pytest.mark.parametrize("step", ["--simulate", "--download-only", "install"])
def test_holds_and_preferences_survive_every_failure(dpkg: Dpkg, step: str) -> None:
    preferences().write_text("before")

    def fails(command: tuple[str, ...]) -> str:
        wanted = step in command if step in PLAIN else not PLAIN & set(command)
        return "E: no" if command[0] == "apt-get" and "install" in command and wanted else ""

    dpkg.fails = fails
    with pytest.raises(names.CudaError, match="E: no"):
        transaction.install_driver(ASKED, check=False)
    assert dpkg.held == {"libcuda1"}
    assert preferences().read_text() == "before"
    assert set(dpkg.packages.values()) == {"580.95.05-1"}


def test_a_driver_moves_as_a_whole_and_is_held_as_a_whole(dpkg: Dpkg) -> None:
    done = transaction.install_driver(ASKED, check=False)
    assert done["version"] == "590.48.01-1"
    assert set(dpkg.packages.values()) == {"590.48.01-1"}
    assert dpkg.held == {"libcuda1", "nvidia-modprobe"}
    assert "Pin: version 590.48.01-1\n" in preferences().read_text()


def test_check_mode_asks_apt_and_changes_nothing(dpkg: Dpkg) -> None:
    transaction.install_driver(ASKED, check=True)
    assert set(dpkg.packages.values()) == {"580.95.05-1"}
    assert dpkg.held == {"libcuda1"}
    assert not preferences().exists()
    assert not any(command[0] == "apt-mark" for command in dpkg.asked)


def test_a_downgrade_is_refused_where_it_would_happen_too(dpkg: Dpkg) -> None:
    dpkg.packages["libcuda1"] = "595.71.05-1"
    with pytest.raises(names.CudaError, match=r"older than what is installed \(libcuda1 595"):
        transaction.install_driver(ASKED, check=False)
    assert dpkg.held == {"libcuda1"}


def test_headers_that_no_repository_has(dpkg: Dpkg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "available", lambda packages: {"libcuda1": ["590.48.01-1"]})
    with pytest.raises(names.CudaError, match=r"no repository has linux-headers-6\.1; boot a"):
        transaction.install_driver({**ASKED, "extra": ["linux-headers-6.1"]}, check=False)


def test_too_little_space(dpkg: Dpkg, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 1000

    monkeypatch.setattr(shutil, "disk_usage", lambda place: Full)
    with pytest.raises(names.CudaError, match="not enough space, nothing was changed: /var/cache"):
        transaction.check_space("Need to get 81.5 MB of archives.\n")
    transaction.check_space("Need to get 0 B of archives.\n")


def test_only_what_the_toolkit_registered_is_taken_out() -> None:
    text = "Name: cuda\nAlternative: /usr/local/cuda-12.8\nPriority: 128\n"
    before = {"cuda": toolkit.parse_alternatives(text), "cuda-13": []}
    after = {
        "cuda": ["/usr/local/cuda-12.8", "/usr/local/cuda-13.0"],
        "cuda-13": ["/usr/local/cuda-13.0"],
    }
    assert toolkit.to_remove(before, after) == [
        ("cuda", "/usr/local/cuda-13.0"),
        ("cuda-13", "/usr/local/cuda-13.0"),
    ]
    assert toolkit.to_remove(after, after) == []
