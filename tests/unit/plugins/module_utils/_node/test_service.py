# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import service
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.recordings import journal

RECORDINGS = Path(__file__).parents[4] / "recordings/node"


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Put a systemctl on PATH that prints a recording."""

    def recorded(name: str, change: tuple[str, str] = ("", "")) -> None:
        text = (RECORDINGS / f"show/{name}.txt").read_text().replace(*change)
        (tmp_path / "recording").write_text(text)
        script = tmp_path / "systemctl"
        script.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\ncat {tmp_path}/recording\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return recorded


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("dead", ("loaded", "inactive", "dead", "static", "success")),
        ("masked", ("masked", "inactive", "dead", "masked", "success")),
        ("not-found", ("not-found", "inactive", "dead", "", "success")),
        ("auto-restart", ("loaded", "activating", "auto-restart", "transient", "exit-code")),
        ("failed", ("loaded", "failed", "failed", "transient", "exit-code")),
    ],
)
def test_a_unit_that_does_not_run(show: Any, name: str, states: tuple[str, ...]) -> None:
    show(name)
    found = service.read_unit("x.service")
    assert (
        found["load_state"],
        found["active_state"],
        found["sub_state"],
        found["unit_file_state"],
        found["result"],
    ) == states
    assert (found["main_pid"], found["launch"], found["need_reload"]) == (0, "", False)


@pytest.mark.parametrize("name", ["running", "activating"])
def test_a_running_units_launch_is_read_from_its_process(
    show: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, begun = {**os.environ, service.LAUNCH_DIGEST: "0123456789abcdef"}, time.time()
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        recorded = service.parse_show((RECORDINGS / f"show/{name}.txt").read_text())
        show(name, (f"MainPID={recorded['MainPID']}", f"MainPID={process.pid}"))
        found = service.read_unit("sglang.service")
        process.communicate(b"\n")
    assert (found["main_pid"], found["launch"]) == (process.pid, "0123456789abcdef")
    assert found["load_state"] == "loaded"
    assert found["active_state"] == ("active" if name == "running" else "activating")
    assert found["invocation_id"] == recorded["InvocationID"]
    assert found["active_since"] == recorded["ActiveEnterTimestamp"]
    assert begun - 2 < found["started_at"] < time.time() + 1
    # The process is gone now: no launch, no error.
    assert service.read_unit("sglang.service")["launch"] == ""


def test_changes_on_disk_and_drop_ins_are_read(show: Any, tmp_path: Path) -> None:
    show("running", ("NeedDaemonReload=no", "NeedDaemonReload=yes"))
    assert service.read_unit("sglang.service")["need_reload"] is True
    show("dead", ("DropInPaths=", "DropInPaths=/etc/a.conf /run/b.conf"))
    assert service.read_unit("sglang.service")["drop_ins"] == ["/etc/a.conf", "/run/b.conf"]
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("show sglang.service --property=LoadState,ActiveState,")


def test_a_machine_without_systemd_has_no_unit() -> None:
    if shutil.which("systemctl") is None:
        pytest.skip("no systemctl here")
    found = service.read_unit("no-such-unit-anywhere.service")
    assert (found["load_state"], found["active_state"]) == ("not-found", "inactive")


def test_environ_is_read_as_the_kernel_prints_it() -> None:
    content = b"A=1\0B=x=y\0EMPTY=\0BAD=\xff\0NOVALUE\0\0"
    assert service.parse_environ(content) == {
        "A": "1",
        "B": "x=y",
        "EMPTY": "",
        "BAD": "�",
        "NOVALUE": "",
    }


def test_recorded_listeners() -> None:
    found = service.parse_listeners((RECORDINGS / "proc/tcp.txt").read_text())
    assert {"address": "127.120.0.1", "port": 30000, "inode": "344765"} in found
    assert {"address": "0.0.0.0", "port": 2024, "inode": "1662"} in found
    assert len(found) == 14  # and none of the established and closing ones
    six = service.parse_listeners((RECORDINGS / "proc/tcp6.txt").read_text())
    assert [(entry["address"], entry["port"]) for entry in six] == [
        ("::", 0xEDAD),
        ("::", 0xA1F9),
        ("::", 0xB075),
    ]


def test_an_ipv4_address_in_ipv6_clothes() -> None:
    text = (RECORDINGS / "proc/tcp6.txt").read_text()
    mapped = text.replace(" 01 00000000", " 0A 00000000")  # recorded connections, as listeners
    assert service.parse_listeners(mapped)[3]["address"] == "127.0.0.1"


@pytest.mark.parametrize("text", ["", "head\n", "head\nshort line\n"])
def test_nothing_listens(text: str) -> None:
    assert service.parse_listeners(text) == []


ADDRESSES = [
    (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
    (socket.AF_INET, "127.120.3.9", "127.120.3.9"),
    (socket.AF_INET, "0.0.0.0", "0.0.0.0"),
    (socket.AF_INET6, "::1", "::1"),
    (socket.AF_INET6, "::", "::"),
]


@pytest.mark.parametrize(("family", "address", "shown"), ADDRESSES)
def test_a_real_listener_is_found_with_its_process(
    family: socket.AddressFamily, address: str, shown: str
) -> None:
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine cannot listen on {address}: {error}")
    with listener:
        port = listener.getsockname()[1]
        # A connection to the listener is no listener.
        with socket.socket(family) as client:
            client.connect((address, port))
            found = service.read_ports([port])
    assert len(found) == 1
    assert (found[0]["address"], found[0]["port"], found[0]["pid"]) == (shown, port, os.getpid())
    assert found[0]["command"] == Path("/proc/self/comm").read_text().strip()
    assert set(found[0]) == {"address", "port", "pid", "command", "unit"}
    assert service.read_ports([]) == []


@pytest.mark.parametrize(
    ("listener", "wanted", "taken"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("::1", "::1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("::1", "127.0.0.1", False),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "localhost", False),
        ("0.0.0.0", "localhost", True),
    ],
)
def test_who_keeps_whom_from_binding(listener: str, wanted: str, taken: bool) -> None:
    assert service.covers(listener, wanted) is taken


@settings(max_examples=60)
@given(st.ip_addresses())
def test_every_address_covers_itself(address: Any) -> None:
    raw = address.packed
    words = [raw[i : i + 4][::-1].hex().upper() for i in range(0, len(raw), 4)]
    line = f"0: {''.join(words)}:7530 0:0 0A 0:0 0:0 0 0 0 42"
    entry = service.parse_listeners("head\n" + line)[0]
    assert service.covers(entry["address"], str(address))
    assert service.covers(entry["address"], address.exploded)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ((RECORDINGS / "cgroup/v1-engine.txt").read_text(), "sglang.service"),
        ((RECORDINGS / "cgroup/v1-session.txt").read_text(), "ssh.service"),
        ((RECORDINGS / "cgroup/v2-engine.txt").read_text(), "sglang.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n", "x.service"),
        ("0::/system.slice/sglang.service/worker\n", "sglang.service"),
        ("0::/system.slice/a:b.service\n", "a:b.service"),
        ("0::/\n", ""),
        ("4:memory:/process_api/0123\n0::/\n", ""),
        ("", ""),
    ],
)
def test_the_unit_of_a_process(text: str, unit: str) -> None:
    assert service.process_unit(text) == unit


def test_a_descriptor_that_closes_meanwhile_hides_no_other(tmp_path: Path) -> None:
    """As /proc/PID/fd of a busy process: one entry cannot be read any more."""
    (tmp_path / "0").symlink_to("socket:[1]")
    (tmp_path / "1").touch()  # reading it as a link fails
    (tmp_path / "2").symlink_to("socket:[2]")
    assert sorted(service._descriptors(str(tmp_path))) == ["socket:[1]", "socket:[2]"]
    assert list(service._descriptors(str(tmp_path / "gone"))) == []


@pytest.mark.parametrize(
    ("recording", "state", "asked"),
    [
        ("served-and-stopped", "failed", True),
        ("served-and-stopped", "inactive", False),
        ("scheduler-killed", "failed", False),
    ],
)
def test_a_stop_that_was_asked_for_is_told_from_a_death(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recording: str, state: str, asked: bool
) -> None:
    """By what systemd wrote of that start; the journals are recordings."""
    said = [line.text for line in journal(recording) if line.manager]
    (tmp_path / "said").write_text("\n".join(said))
    program = tmp_path / "journalctl"
    program.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/words; cat {tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert service.stop_asked({"active_state": state, "invocation_id": "ab12"}) is asked
    if state == "failed":
        words = (tmp_path / "words").read_text()
        assert words.endswith("_PID=1 INVOCATION_ID=ab12\n")
