# SPDX-License-Identifier: Apache-2.0
"""The command line, as far as it goes without booting anything."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab import cli, host
from lab.process import identify
from lab.state import Lab, LabError, Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS = "127.120.13.1"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("LAB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("LAB_NODES", raising=False)
    return Lab(tmp_path / "state")


@pytest.fixture
def port() -> Iterator[int]:
    """Something that greets like an SSH server."""

    def greet(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"SSH-2.0-test\r\n")

    with socket.create_server((ADDRESS, 0)) as server:
        thread = threading.Thread(target=greet, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def record(lab: Lab, *, port: int = 1, running: bool = False, ready: bool = False) -> None:
    lab.node_dir("lab-1").mkdir(parents=True)
    lab.save(Node("lab-1", ADDRESS, port, "/r/base", "overlay", "m", "0"))
    me = identify(os.getpid())
    assert me is not None
    if running:
        lab.save_process("lab-1", me)
    if ready:
        lab.mark_ready("lab-1")


class NeedsRootError(Exception):
    pass


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise NeedsRootError

    monkeypatch.setattr(host, "become_root", refuse)


def test_status_of_nothing(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert cli.main(["status"]) == 0
    assert "no nodes" in capsys.readouterr().out
    assert not lab.path.exists()


def test_status(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    record(lab, running=True)
    assert cli.main(["status", "--json"]) == 0
    row = {"name": "lab-1", "address": ADDRESS, "port": 1, "running": True, "pid": os.getpid()}
    assert json.loads(capsys.readouterr().out) == [{**row, "rootfs": "/r/base"}]
    assert cli.main(["status"]) == 0
    assert f"running (process {os.getpid()})" in capsys.readouterr().out


def test_status_of_a_node_that_does_not_run(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    record(lab)
    cli.main(["status", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["running"], row["pid"]) == (False, None)


@pytest.mark.usefixtures("unprivileged")
def test_up_needs_no_root_when_all_is_up(
    lab: Lab, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    record(lab, port=port, running=True, ready=True)
    assert cli.main(["up"]) == 0
    assert f"lab-1 {ADDRESS}:{port} already up" in capsys.readouterr().out


@pytest.mark.usefixtures("unprivileged")
@pytest.mark.parametrize(
    ("node", "greets", "count"),
    [
        ({}, True, "1"),
        ({"running": True}, True, "1"),
        ({"running": True, "ready": True}, False, "1"),
        ({"running": True, "ready": True}, True, "2"),
    ],
)
def test_up_goes_on_as_root_when_anything_is_not(
    lab: Lab, port: int, node: dict[str, bool], greets: bool, count: str
) -> None:
    node = {"running": False, "ready": False, **node}
    record(lab, port=port if greets else 1, running=node["running"], ready=node["ready"])
    with pytest.raises(NeedsRootError):
        cli.main(["up", "--nodes", count])


@pytest.mark.usefixtures("unprivileged")
def test_down_of_nothing_needs_no_root(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["down"], ["down", "--purge"]):
        assert cli.main(arguments) == 0
        assert "nothing to take down" in capsys.readouterr().out
    (lab.path / "models").mkdir(parents=True)
    assert cli.main(["down"]) == 0
    with pytest.raises(NeedsRootError):
        cli.main(["down", "--purge"])


@pytest.mark.usefixtures("unprivileged")
@pytest.mark.parametrize("left", ["nodes/lab-1", "nodes", "rootfs/.building-x"])
def test_down_goes_on_as_root_when_anything_is_left(lab: Lab, left: str) -> None:
    (lab.path / left).mkdir(parents=True)
    with pytest.raises(NeedsRootError):
        cli.main(["down"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--nodes", "0"], "1 to 99"),
        (["ssh", "lab-7"], "no node lab-7"),
        (["ssh", "nonsense"], "is not a lab node"),
        (["kill", "lab-7"], "no node lab-7"),
        (["kill", "../lab-1"], "is not a lab node"),
        (["down", "../.."], "is not a lab node"),
        (["down", "--purge", "lab-1"], "leave out the node names"),
    ],
)
@pytest.mark.usefixtures("lab")
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["kill"], ["up", "--nodes", "x"], ["up", "--", "true"]]
)
def test_what_is_not_understood_has_its_own_status(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2


def test_ssh_to_a_node_that_does_not_run(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    record(lab)
    assert cli.main(["ssh", "--", "true"]) == 1
    assert "lab-1 does not run" in capsys.readouterr().err


def test_the_number_of_nodes_comes_from_the_environment(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def up(_: Lab, count: int, __: object, ___: object) -> int:
        seen.append(count)
        return 0

    monkeypatch.setattr(cli, "up", up)
    monkeypatch.setenv("LAB_NODES", "3")
    cli.main(["up"])
    cli.main(["up", "--nodes", "2"])
    assert seen == [3, 2]


def test_a_base_that_is_no_file_system_is_refused(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["up", "--base", str(tmp_path)]) == 1
    assert "no file system of a machine" in capsys.readouterr().err


def test_host_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host, "PACKAGES", {"coreutils": "ls"})
    assert cli.main(["host-packages"]) == 0
    monkeypatch.setattr(host, "PACKAGES", {"coreutils": "ls", "wanted": "no-such-command"})
    assert cli.main(["host-packages"]) == 1
    assert "apt-get install -y wanted" in capsys.readouterr().out


def test_interruption_is_not_a_traceback(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "status", interrupt)
    assert cli.main(["status"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_lab_error_is_one_line(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise LabError("cause; remedy")

    monkeypatch.setattr(cli, "status", fail)
    assert cli.main(["status"]) == 1
    assert capsys.readouterr().err == "lab: cause; remedy\n"
