# SPDX-License-Identifier: Apache-2.0
"""The lab on a machine that has nothing: a node serves as that machine.

There the lab runs as a user with sudo, under an init that is systemd, without its tools, and on
a file system that cannot hold an overlay. None of this is so where the other tests run in CI.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from lab import ssh
from lab.state import REPOSITORY, Lab

if TYPE_CHECKING:
    from .conftest import LabUnderTest

pytestmark = pytest.mark.lab


def send_lab(outer: LabUnderTest) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted((REPOSITORY / "lab").glob("*.py")):
            tar.add(path, f"lab/{path.name}")
    lab = Lab(outer.state)
    record = lab.load("lab-1")
    assert record is not None
    line = [*ssh.ssh_command(lab, record, batch=True), "mkdir clone && tar -x -C clone"]
    subprocess.run(line, input=archive.getvalue(), check=True)


def test_a_user_with_sudo_on_a_bare_systemd_machine(node: LabUnderTest) -> None:
    def inside(command: str) -> str:
        return node.on("lab-1", f"cd clone && export LAB_ADDRESS_BASE=127.120.8. && {command}")

    send_lab(node)
    forbidden = inside("LAB_INSTALL_PACKAGES=0 python3 -m lab up 2>&1 || echo refused")
    assert forbidden.endswith("refused")
    assert "sudo apt-get install -y mmdebstrap systemd-container" in forbidden
    output = inside("python3 -m lab up")
    assert "installing mmdebstrap systemd-container" in output
    assert inside("python3 -m lab ssh -- systemctl is-system-running") == "running"
    assert inside("stat -c %U .lab .lab/ssh .lab/ssh/* | sort -u") == "operator"
    assert "Container lab-1-" in inside("systemctl list-units --type=scope --plain --no-legend")
    inside("python3 -m lab ssh -- 'echo precious > keep; sync' && python3 -m lab kill lab-1")
    assert "booted again" in inside("python3 -m lab up")
    assert inside("python3 -m lab ssh -- cat keep") == "precious"
    inside("python3 -m lab down --purge")
    assert inside("ls -d .lab 2>/dev/null || echo gone") == "gone"
    assert inside("pgrep -c systemd-nspawn || true") == "0"
    assert inside("grep -c clone/.lab /proc/mounts || true") == "0"
