# SPDX-License-Identifier: Apache-2.0
"""A lab of its own for the tests: other folder and other addresses than the user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab import mounts
from lab.state import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS_BASE = "127.120.9."
COMMAND_SECONDS = 600


class LabUnderTest:
    """Runs `python -m lab` as a person would."""

    def __init__(self, state: Path, address_base: str = ADDRESS_BASE) -> None:
        self.state = state
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("LAB_")},
            "LAB_STATE": str(state),
            "LAB_ADDRESS_BASE": address_base,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "lab", *arguments],
            cwd=REPOSITORY,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def result(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=COMMAND_SECONDS)
        return process.returncode, output

    def run(self, *arguments: str) -> str:
        code, output = self.result(*arguments)
        assert code == 0, output
        return output

    def on(self, name: str, command: str) -> str:
        return self.run("ssh", name, "--", command).strip()

    def status(self) -> dict[str, dict[str, Any]]:
        rows = json.loads(self.run("status", "--json"))
        return {row["name"]: row for row in rows}

    def supervisors(self) -> list[int]:
        return [pid for pid, line in processes() if "systemd-nspawn" in line and self.owns(line)]

    def owns(self, text: str) -> bool:
        return f"{self.state}/" in text


def processes() -> list[tuple[int, str]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            found.append((int(entry.name), line.decode("utf-8", "replace")))
    return found


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    """A lab whose base file system was built, for real, by the first `up`."""
    if os.geteuid() != 0:
        pytest.skip("booting nodes needs root")
    lab = LabUnderTest(tmp_path_factory.mktemp("lab") / "state")
    leftover = lab.state / "rootfs" / ".building-leftover"
    (leftover / "root" / "mounted").mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "leftover", str(leftover / "root" / "mounted")], check=True
    )
    try:
        output = lab.run("up")
        assert "removing an interrupted build" in output
        assert not leftover.exists()
        lab.run("down")
        yield lab
    finally:
        lab.run("down", "--purge")
        assert not mounts.mounts_under(lab.state)


@pytest.fixture
def lab(built: LabUnderTest) -> Iterator[LabUnderTest]:
    """A built lab without nodes, before and after."""
    yield built
    built.run("down")


@pytest.fixture
def node(lab: LabUnderTest) -> LabUnderTest:
    """A lab with one node up."""
    lab.run("up")
    return lab
