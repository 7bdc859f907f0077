# SPDX-License-Identifier: Apache-2.0
"""Nodes that really boot: up, down, killed, twice, several, on difficult file systems."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab import mounts, process
from lab.state import REPOSITORY, SSH_PORT

from .conftest import ADDRESS_BASE, LabUnderTest, processes

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.lab


def until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def listens(address: str) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, SSH_PORT)) == 0


def traces(lab: LabUnderTest) -> list[str]:
    """Everything of a lab's nodes that this machine shows."""
    groups = [
        str(path)
        for mount in ("unified", "systemd", ".")
        for path in (Path("/sys/fs/cgroup") / mount).glob("lab-*")
    ]
    scopes = [str(path) for path in Path("/sys/fs/cgroup").glob("**/machine-lab*.scope")]
    own_groups = [g for g in groups + scopes if any(m in g for m in machine_names(lab))]
    return [
        *(line for _, line in processes() if lab.owns(line)),
        *mounts.mounts_under(lab.state),
        *own_groups,
        *(f"{ADDRESS_BASE}{n}" for n in (1, 2) if listens(f"{ADDRESS_BASE}{n}")),
    ]


def machine_names(lab: LabUnderTest) -> list[str]:
    from lab.node import machine_name
    from lab.state import Lab

    return [machine_name(Lab(lab.state), f"lab-{n}") for n in (1, 2)]


def init_groups(lab: LabUnderTest, name: str) -> set[str]:
    """Control groups of a node's init in the hierarchies that systemd manages."""
    init = process.inhabitants(lab.state / "nodes" / name / "root")[0]
    lines = Path(f"/proc/{init.pid}/cgroup").read_text().splitlines()
    found = {line for line in lines if line.startswith("0::") or ":name=systemd:" in line}
    assert found
    return found


def addresses_of_this_machine() -> str:
    done = subprocess.run(["ip", "-brief", "address"], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_node_is_a_real_host(node: LabUnderTest) -> None:
    row = node.status()["lab-1"]
    assert (row["running"], row["address"]) == (True, f"{ADDRESS_BASE}1")
    assert node.on("lab-1", "systemctl is-system-running") == "running"
    assert node.on("lab-1", "hostname; id -un; sudo id -un").split() == [
        "lab-1",
        "operator",
        "root",
    ]
    assert node.on("lab-1", "cat /proc/1/comm") == "systemd"
    assert node.on("lab-1", "findmnt -no FSTYPE /tmp || echo disk") == "disk"
    shared_memory = int(node.on("lab-1", "df --output=size -k /dev/shm | tail -n 1"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert shared_memory > 0.4 * memory
    own = Path("/etc/machine-id")
    assert not own.exists() or node.on("lab-1", "cat /etc/machine-id") not in own.read_text()


def test_up_again_changes_nothing_and_is_quick(node: LabUnderTest) -> None:
    before = node.status()
    begin = time.monotonic()
    output = node.run("up")
    assert time.monotonic() - begin < 2.0  # a fifth of a second on an idle machine
    assert "already up" in output
    assert node.status() == before


def test_ansible_reaches_it_through_the_inventory_from_anywhere(
    node: LabUnderTest, tmp_path: Path
) -> None:
    ansible = shutil.which("ansible", path=str(Path(sys.executable).parent))
    if not ansible:
        pytest.skip("ansible is not installed beside this Python")
    done = subprocess.run(
        [ansible, "-i", str(REPOSITORY / "inventories/lab/nodes.py"), "engines", "-m", "ping"],
        cwd=tmp_path,
        env={**node.environ, "ANSIBLE_HOST_KEY_CHECKING": "true", "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pong" in done.stdout


def test_another_host_key_is_refused(node: LabUnderTest, tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True
    )
    kind, key, *_ = (tmp_path / "other.pub").read_text().split()
    known_hosts = node.state / "ssh" / "known_hosts"
    right = known_hosts.read_text()
    known_hosts.write_text(f"[{ADDRESS_BASE}1]:{SSH_PORT} {kind} {key}\n")
    try:
        code, output = node.result("ssh", "lab-1", "--", "true")
    finally:
        known_hosts.write_text(right)
    assert code == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in output


def test_a_node_that_lost_power_comes_back_with_its_data(node: LabUnderTest) -> None:
    node.on("lab-1", "echo precious > keep; sync")
    machine_id = node.on("lab-1", "cat /etc/machine-id")
    node.run("kill", "lab-1")
    assert node.status()["lab-1"]["running"] is False
    assert not traces(node)
    assert "booted again" in node.run("up")
    assert node.on("lab-1", "cat keep") == "precious"
    assert node.on("lab-1", "cat /etc/machine-id") == machine_id


def test_a_supervisor_killed_by_somebody_else_is_swept_up(node: LabUnderTest) -> None:
    node.on("lab-1", "echo precious > keep; sync")
    os.kill(node.status()["lab-1"]["pid"], signal.SIGKILL)
    assert until(lambda: not node.status()["lab-1"]["running"], 10)
    assert "booted again" in node.run("up")
    assert node.on("lab-1", "cat keep") == "precious"
    assert len(node.supervisors()) == 1


def test_apt_works_in_a_node(node: LabUnderTest) -> None:
    node.on("lab-1", "sudo apt-get -qq update")
    node.on("lab-1", "sudo DEBIAN_FRONTEND=noninteractive apt-get -qq install -y g++ python3-dev")
    program = "int main() { return 0; }"
    assert node.on("lab-1", f"echo '{program}' | g++ -x c++ - -o t && ./t && echo runs") == "runs"


def test_two_nodes_do_not_share_services(lab: LabUnderTest) -> None:
    lab.environ["LAB_NODES"] = "2"
    try:
        lab.run("up")
    finally:
        del lab.environ["LAB_NODES"]
    assert [row["running"] for row in lab.status().values()] == [True, True]
    assert not init_groups(lab, "lab-1") & init_groups(lab, "lab-2")
    for name in ("lab-1", "lab-2"):
        lab.on(name, "sudo systemd-run --quiet --unit=probe sleep infinity")
    lab.on("lab-1", "sudo systemctl stop probe")
    assert lab.on("lab-2", "systemctl is-active probe") == "active"
    assert "lab-2" not in lab.run("up", "--nodes", "1")
    assert lab.status()["lab-2"]["running"] is True
    lab.run("down", "lab-2")
    assert list(lab.status()) == ["lab-1"]
    assert lab.on("lab-1", "echo still here") == "still here"


def test_two_ups_at_once_make_one_node(lab: LabUnderTest) -> None:
    both = [lab.start("up"), lab.start("up")]
    outputs = [one.communicate(timeout=120)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], outputs
    assert len(lab.supervisors()) == 1
    assert lab.supervisors() == [lab.status()["lab-1"]["pid"]]


def test_down_leaves_nothing_behind(lab: LabUnderTest) -> None:
    mounts_before = Path("/proc/self/mounts").read_text()
    addresses_before = addresses_of_this_machine()
    lab.run("up", "--nodes", "2")
    assert len(traces(lab)) >= 4
    assert lab.run("down").count("stopped, removed") == 2
    assert traces(lab) == []
    assert Path("/proc/self/mounts").read_text() == mounts_before
    assert addresses_of_this_machine() == addresses_before
    assert not (lab.state / "nodes").exists()
    assert (lab.state / "ssh" / "id_ed25519").exists()
    assert (lab.state / "ssh" / "known_hosts").read_text() == ""
    assert "nothing to take down" in lab.run("down")


def test_down_after_a_half_made_node(lab: LabUnderTest) -> None:
    base = next(path for path in (lab.state / "rootfs").iterdir() if path.is_dir())
    directory = lab.state / "nodes" / "lab-1"
    directory.mkdir(parents=True)
    assert mounts.mount_overlay(directory, base) == ""
    lab.run("down")
    assert traces(lab) == []
    assert not directory.exists()


def test_up_after_a_half_made_node(lab: LabUnderTest) -> None:
    directory = lab.state / "nodes" / "lab-1"
    (directory / "upper").mkdir(parents=True)
    (directory / "upper" / "half").touch()
    lab.run("up")
    assert lab.on("lab-1", "ls /half 2>/dev/null || echo clean") == "clean"


def test_down_with_damaged_records_still_finds_the_node(node: LabUnderTest) -> None:
    for name in ("node.json", "process.json"):
        (node.state / "nodes" / "lab-1" / name).write_text("{")
    code, output = node.result("up")
    assert code == 1
    assert "is damaged" in output
    node.run("down")
    assert until(lambda: not traces(node), 10), traces(node)


def test_a_reused_process_id_is_neither_believed_nor_killed(node: LabUnderTest) -> None:
    node.run("kill", "lab-1")
    with subprocess.Popen(["sleep", "infinity"]) as stranger:
        record = node.state / "nodes" / "lab-1" / "process.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "pid": stranger.pid}))
        assert node.status()["lab-1"]["running"] is False
        node.run("down")
        assert stranger.poll() is None
        stranger.kill()


def test_an_address_that_is_taken_is_named(lab: LabUnderTest) -> None:
    with socket.create_server((f"{ADDRESS_BASE}1", SSH_PORT)):
        code, output = lab.result("up")
    assert code == 1
    assert f"cannot listen on {ADDRESS_BASE}1:{SSH_PORT}" in output
    assert "LAB_ADDRESS_BASE" in output
    assert lab.supervisors() == []


def test_a_node_that_cannot_boot_shows_its_console(node: LabUnderTest) -> None:
    node.on("lab-1", "sudo chmod -x /usr/lib/systemd/systemd; sync")
    node.run("kill", "lab-1")
    begin = time.monotonic()
    code, output = node.result("up")
    assert code == 1
    assert "ended while booting" in output
    assert "Permission denied" in output  # from the console
    assert time.monotonic() - begin < 30


def test_a_copy_where_an_overlay_is_not_possible(built: LabUnderTest, tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    merged = tmp_path / "merged"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "t", str(merged)], check=True)
    lab = LabUnderTest(merged / "state", "127.120.10.")
    try:
        (lab.state).mkdir()
        subprocess.run(["cp", "-a", str(built.state / "rootfs"), str(lab.state)], check=True)
        assert "copied the base instead" in lab.run("up")
        lab.on("lab-1", "echo precious > keep; sync")
        lab.run("kill", "lab-1")
        lab.run("up")
        assert lab.on("lab-1", "cat keep") == "precious"
        lab.run("down", "--purge")
        assert not lab.state.exists()
    finally:
        with contextlib.suppress(AssertionError):
            lab.run("down", "--purge")
        mounts.unmount_under(merged)


def test_an_interrupted_build_is_never_used(built: LabUnderTest, tmp_path: Path) -> None:
    lab = LabUnderTest(tmp_path / "state", "127.120.11.")
    build = lab.start("up")
    try:
        assert until(lambda: any(lab.state.glob("rootfs/.building-*/root/usr/bin/*")), 120)
    finally:
        build.kill()
        build.communicate()
    assert until(lambda: not traces(lab), 10), traces(lab)
    assert not [path for path in (lab.state / "rootfs").glob("[a-z]*") if path.is_dir()]
    lab.run("down", "--purge")
    assert not lab.state.exists()


def test_purge_leaves_what_is_not_the_labs(lab: LabUnderTest, tmp_path: Path) -> None:
    other = LabUnderTest(tmp_path / "state")
    (other.state / "ssh").mkdir(parents=True)
    (other.state / "letter.txt").touch()
    assert "holds files that are not the lab's" in other.run("down", "--purge")
    assert [path.name for path in other.state.iterdir()] == ["letter.txt"]
