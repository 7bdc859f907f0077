# SPDX-License-Identifier: Apache-2.0
"""Whom the connection trusts and how it is let in, over a real OpenSSH server."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sm120.sglang.plugins.plugin_utils._channel import SshNode
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import (
    NodeError,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import resolve

from tests.unit.plugins.plugin_utils.sshd import (
    Sshd,
    free_port,
    host_entry,
    new_key,
    running_sshd,
)
from tests.unit.plugins.plugin_utils.test_channel import LIMIT, connect, eventually

if TYPE_CHECKING:
    pass


class TestHostKey:
    def test_an_unknown_key_is_not_taken(self, sshd: Sshd, tmp_path: Path) -> None:
        empty = tmp_path / "known_hosts"
        empty.write_text("")
        with pytest.raises(NodeError) as raised:
            connect(sshd, "-o", f"UserKnownHostsFile={empty}")
        assert f"[{sshd.address}]:{sshd.port}" in str(raised.value)
        assert str(empty) in str(raised.value)
        assert "not known" in str(raised.value)

    def test_not_even_when_ssh_is_told_not_to_check(self, sshd: Sshd, tmp_path: Path) -> None:
        with pytest.raises(NodeError, match="Host key checking stays on"):
            connect(
                sshd,
                *("-o", "StrictHostKeyChecking=no"),
                *("-o", f"UserKnownHostsFile={tmp_path / 'none'}"),
            )

    def test_a_changed_key_shows_both(self, sshd: Sshd, tmp_path: Path) -> None:
        other = new_key(tmp_path / "other")
        known = tmp_path / "known_hosts"
        known.write_text(host_entry(sshd.address, sshd.port, other.with_suffix(".pub")))
        with pytest.raises(NodeError) as raised:
            connect(sshd, "-o", f"UserKnownHostsFile={known}")
        assert "has CHANGED" in str(raised.value)
        assert len(set(re.findall(r"SHA256:\S+", str(raised.value)))) == 2
        assert f"ssh-keygen -R '[{sshd.address}]:{sshd.port}' -f {known}" in str(raised.value)

    def test_an_alias_is_looked_up_instead(self, sshd: Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known_hosts"
        kind, key = sshd.known_hosts.read_text().split()[1:3]
        known.write_text(f"node-one {kind} {key}\n")
        node = connect(sshd, "-o", "HostKeyAlias=node-one", "-o", f"UserKnownHostsFile={known}")
        assert node.run(["echo", "in"], timeout=LIMIT).out == "in\n"
        node.close()

    def test_a_hashed_entry_is_found(self, sshd: Sshd, tmp_path: Path) -> None:
        known = tmp_path / "known_hosts"
        known.write_text(sshd.known_hosts.read_text())
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True)
        assert sshd.address not in known.read_text()
        connect(sshd, "-o", f"UserKnownHostsFile={known}").close()


class TestAuthentication:
    def test_a_key_that_is_not_accepted(self, sshd: Sshd, tmp_path: Path) -> None:
        stranger = new_key(tmp_path / "stranger")
        arguments = [*_without_keys(sshd), "-o", f'IdentityFile="{stranger}"']
        with pytest.raises(NodeError) as raised:
            SshNode(resolve("ssh", arguments, sshd.address))
        assert f"user {sshd.user!r}" in str(raised.value)
        assert str(stranger) in str(raised.value)

    @pytest.mark.parametrize(("passphrase", "accepted"), [("open sesame", True), ("no", False)])
    def test_a_key_with_a_passphrase(self, tmp_path: Path, passphrase: str, accepted: bool) -> None:
        with running_sshd(tmp_path / "server") as server:
            locked = new_key(tmp_path / "locked", "open sesame")
            authorized = tmp_path / "server" / "authorized_keys"
            authorized.write_text(locked.with_suffix(".pub").read_text())
            arguments = [*_without_keys(server), "-o", f'IdentityFile="{locked}"']
            settings = resolve("ssh", arguments, server.address)
            if accepted:
                SshNode(settings, passphrase=passphrase).close()
            else:
                with pytest.raises(NodeError):
                    SshNode(settings, passphrase=passphrase)

    def test_a_key_that_only_the_agent_has(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agent_socket = tmp_path / "agent"
        agent = subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(agent_socket)], stdout=subprocess.DEVNULL
        )
        try:
            assert eventually(agent_socket.exists)
            environment = {**os.environ, "SSH_AUTH_SOCK": str(agent_socket)}
            subprocess.run(["ssh-add", "-q", str(sshd.key)], env=environment, check=True)
            arguments = [*_without_keys(sshd), "-o", f"IdentityAgent={agent_socket}"]
            # Restored afterwards, whatever the connection sets.
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "no-agent"))
            node = SshNode(resolve("ssh", arguments, sshd.address))
            assert node.run(["echo", "in"], timeout=LIMIT).out == "in\n"
            node.close()
        finally:
            agent.terminate()
            agent.wait(timeout=10)

    def test_nobody_listens(self, sshd: Sshd) -> None:
        port = free_port(sshd.address)
        with pytest.raises(NodeError) as raised:
            connect(sshd, "-o", f"Port={port}")
        assert f"port {port}" in str(raised.value)
        assert "Connection refused" in str(raised.value)


def _without_keys(server: Sshd) -> list[str]:
    pairs = zip(server.arguments[::2], server.arguments[1::2], strict=True)
    return [word for pair in pairs if not pair[1].startswith("IdentityFile") for word in pair]
