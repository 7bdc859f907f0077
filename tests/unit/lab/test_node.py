# SPDX-License-Identifier: Apache-2.0
"""How a node is started, and what is written into it."""

from __future__ import annotations

import socket
import stat
import time
from pathlib import Path

import pytest

from lab import cgroup, host, mounts, node, personal
from lab.sources import Source
from lab.state import Lab, LabError, Node

NODE = Node("lab-2", "127.120.12.2", 22120, "/r/base", "overlay", "lab-2-beef", "00ff")


def test_boot_command() -> None:
    command = node.nspawn_command(NODE, Path("/n/root"), keep_unit=True)
    assert command[0] == "systemd-nspawn"
    wanted = {"--boot", "--register=no", "--keep-unit", "--hostname=lab-2", "--machine=lab-2-beef"}
    assert wanted <= set(command)
    assert "--directory=/n/root" in command
    assert "--keep-unit" not in node.nspawn_command(NODE, Path("/n/root"), keep_unit=False)


def test_machine_names_differ_between_labs() -> None:
    one, two = Lab(Path("/a")), Lab(Path("/b"))
    assert node.machine_name(one, "lab-1") == node.machine_name(Lab(Path("/a")), "lab-1")
    assert node.machine_name(one, "lab-1") != node.machine_name(two, "lab-1")
    assert node.machine_name(one, "lab-1") != node.machine_name(one, "lab-2")


def test_a_taken_address_is_refused_and_a_free_one_is_not() -> None:
    node.check_address(NODE)
    with (
        socket.create_server((NODE.address, NODE.port)),
        pytest.raises(LabError, match=r"cannot listen on 127\.120\.12\.2:22120"),
    ):
        node.check_address(NODE)
    node.check_address(NODE)


def test_waiting_for_a_node_that_does_not_run_ends_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.node_dir("lab-2").mkdir(parents=True)
    (lab.node_dir("lab-2") / "console.log").write_text("".join(f"line {n}\n" for n in range(50)))
    with pytest.raises(LabError) as caught:
        node.wait_ready(lab, NODE, time.monotonic() + 3600, pytest.fail)
    text = str(caught.value)
    assert "ended while booting" in text
    assert "line 49" in text
    assert "line 10" not in text


def test_waiting_ends_with_the_deadline(tmp_path: Path) -> None:
    import os

    from lab.process import identify

    lab = Lab(tmp_path)
    lab.node_dir("lab-2").mkdir(parents=True)
    me = identify(os.getpid())
    assert me is not None
    lab.save_process("lab-2", me)
    with pytest.raises(LabError, match="not ready in time; last seen: nothing answered"):
        node.wait_ready(lab, NODE, time.monotonic() + 0.25, pytest.fail)


def test_ssh_server_settings() -> None:
    lines = personal.sshd_config(NODE).splitlines()
    for line in (
        "ListenAddress 127.120.12.2",
        "Port 22120",
        "PasswordAuthentication no",
        "PermitRootLogin no",
        "UseDNS no",
        "AllowUsers operator",
    ):
        assert line in lines


def test_hosts_file_takes_over_only_other_machines() -> None:
    machine = "127.0.0.1 localhost me\n127.0.1.1 me\n::1 ip6\n10.0.0.5 mirror m2 # note\n#x\n10.1\n"
    assert personal.hosts_file(NODE, machine).splitlines() == [
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost ip6-loopback",
        "127.120.12.2 lab-2",
        "10.0.0.5 mirror m2",
    ]


def test_writing_into_a_node_replaces_links_and_reports_changes(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "etc").mkdir(parents=True)
    outside.write_text("the machine's")
    (root / "etc" / "resolv.conf").symlink_to(outside)
    assert personal.write_in(root, "/etc/resolv.conf", b"node's", 0o600)
    assert outside.read_text() == "the machine's"
    written = root / "etc" / "resolv.conf"
    assert (written.read_text(), written.is_symlink()) == ("node's", False)
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert not personal.write_in(root, "/etc/resolv.conf", b"node's", 0o600)
    assert personal.write_in(root, "/etc/resolv.conf", b"node's", 0o644)
    assert personal.write_in(root, "/new/folder/file", b"")
    assert [p.name for p in (root / "etc").iterdir()] == ["resolv.conf"]


def test_writing_into_a_node_never_leaves_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "etc").symlink_to(outside)
    with pytest.raises(LabError, match="leads out of the node"):
        personal.write_in(root, "/etc/hostname", b"lab-1\n")
    assert not list(outside.iterdir())


def test_apt_configuration_of_a_node(tmp_path: Path) -> None:
    ring = tmp_path / "secret.gpg"
    ring.write_bytes(b"ring")
    ring.chmod(0o600)
    apt = host.AptConfig(
        (
            Source("http://m", "noble", ("main",), (("signed-by", str(ring)),)),
            Source("http://m", "noble-updates", ("main",), (), "KEY\n"),
        ),
        (("Acquire::Retries", "3"),),
        (str(ring),),
    )
    root = tmp_path / "root"
    root.mkdir()
    personal.write_apt(root, apt)
    etc = root / "etc" / "apt"
    assert (etc / "sources.list.d" / "lab.list").read_text() == (
        f"deb [signed-by={ring}] http://m noble main\ndeb http://m noble-updates main\n"
    )
    assert (etc / "apt.conf.d" / "80lab").read_text() == 'Acquire::Retries "3";\n'
    assert (etc / "trusted.gpg.d" / "lab-1.asc").read_text() == "KEY\n"
    copied = root / str(ring).lstrip("/")
    assert copied.read_bytes() == b"ring"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600


MOUNTINFO = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:20 / /sys/fs/cgroup rw - tmpfs cgroup rw
23 22 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
24 22 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
25 22 0:23 /outer /sys/fs/cgroup/unified rw shared:3 master:1 - cgroup2 cgroup2 rw
26 21 0:24 / /a\\040b\\134c rw - overlay lab-1 rw
"""


def test_mount_points_are_decoded_in_order() -> None:
    found = mounts.parse_mountinfo(MOUNTINFO)
    assert found[0] == ("/", "ext4")
    assert found[-1] == ("/a b\\c", "overlay")
    assert len(found) == 6


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (
            "9:name=systemd:/x\n4:memory:/m\n0::/outer/y\n",
            ["/sys/fs/cgroup/systemd/x", "/sys/fs/cgroup/unified/y"],
        ),
        ("9:name=systemd:/\n0::/outer\n", ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"]),
        ("0::/outer/y\n", ["/sys/fs/cgroup/unified/y"]),
        ("4:memory:/m\n", []),
    ],
)
def test_own_control_groups(own: str, expected: list[str]) -> None:
    assert [str(path) for path in cgroup.hierarchies(MOUNTINFO, own)] == expected


def test_own_control_group_on_a_unified_machine() -> None:
    mountinfo = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
    assert cgroup.hierarchies(mountinfo, "0::/user.slice/s.scope\n") == [
        Path("/sys/fs/cgroup/user.slice/s.scope")
    ]
