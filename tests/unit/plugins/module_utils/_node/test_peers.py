# SPDX-License-Identifier: Apache-2.0
"""Against this machine's own interfaces: loopback sockets, and iproute2 where it is there."""

from __future__ import annotations

import shutil
import socket

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import peers

needs_ip = pytest.mark.skipif(shutil.which("ip") is None, reason="iproute2 is not installed")


def test_who_listens_answers_and_who_does_not_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        others = {"b": {"address": "127.0.0.1", "port": port}}
        asked = {"own": "127.0.0.1", "port": port, "others": others}
        found = peers.read_peers(asked)
        assert found["others"]["b"]["reach"] == peers.OPEN
        assert [entry["address"] for entry in found["listeners"]] == ["127.0.0.1"]
    assert peers.read_peers(asked)["listeners"] == []
    assert peers.read_peers(asked)["others"]["b"]["reach"] == peers.REFUSED


def test_who_does_not_answer_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_CONNECT_SECONDS", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        # A full queue: the kernel drops further connections, as a firewall does.
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        entry = {"address": address[0], "port": address[1]}
        found = peers.read_peers({"own": "127.0.0.1", "port": 1, "others": {"b": entry}})["others"][
            "b"
        ]
        for one in waiting:
            one.close()
    assert found["reach"] == peers.SILENT
    assert found["problem"].startswith("no answer within")


def test_a_name_that_nobody_knows() -> None:
    name = "no-such-node.invalid"
    entry = {"address": name, "port": 1}
    found = peers.read_peers({"own": name, "port": 1, "others": {"b": entry}})
    assert found["own"]["addresses"] == []
    assert found["own"]["problem"].startswith(f"{name}: ")
    assert found["others"]["b"]["reach"] == peers.UNREACHABLE
    assert found["others"]["b"]["problem"].startswith(f"{name}: ")


@needs_ip
@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9"])
def test_the_interface_of_an_address_of_its_own(address: str) -> None:
    found = peers.read_peers({"own": address, "port": 1})
    assert found["own"] == {"addresses": [address], "interface": "lo", "problem": ""}


@needs_ip
def test_an_address_of_another_machine_is_on_no_interface() -> None:
    assert peers.read_peers({"own": "192.0.2.77", "port": 1})["own"]["interface"] == ""


def test_without_iproute2_no_interface_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert peers.read_peers({"own": "127.0.0.1", "port": 1})["own"]["interface"] == ""
