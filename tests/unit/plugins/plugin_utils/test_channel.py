# SPDX-License-Identifier: Apache-2.0
"""The connection to a node, over a real OpenSSH server and on this machine itself."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.sm120.sglang.plugins.plugin_utils._channel import SshNode
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_http import EngineHTTP
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import (
    Become,
    Completed,
    ForwardingRefusedError,
    LocalNode,
    Node,
    NodeError,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import resolve

from tests.unit.plugins.plugin_utils.sshd import (
    Sshd,
    free_port,
    running_sshd,
)
from tests.unit.plugins.plugin_utils.web import ADDRESS, running_web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 20.0


def connect(server: Sshd, *extra: str, passphrase: str = "") -> SshNode:
    """Connect as the plugins do; options in `extra` win over the server's own."""
    settings = resolve("ssh", [*extra, *server.arguments], server.address)
    return SshNode(settings, passphrase=passphrase)


def eventually(true: Callable[[], bool]) -> bool:
    """Whether something becomes true within a generous time."""
    limit = time.monotonic() + LIMIT
    while time.monotonic() < limit:
        if true():
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture(params=["ssh", "local"])
def node(request: pytest.FixtureRequest, sshd: Sshd) -> Iterator[Node]:
    """Both kinds of node: what holds for one holds for the other."""
    one: Node = connect(sshd) if request.param == "ssh" else LocalNode()
    yield one
    one.close()


class TestCommands:
    def test_status_and_both_outputs(self, node: Node) -> None:
        done = node.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=LIMIT)
        assert done == Completed(3, "out\n", "err\n")

    def test_arguments_arrive_as_they_are(self, node: Node) -> None:
        words = ["a b", "$HOME", "'", '"', "*", ";true", "ü"]
        done = node.run(["printf", "%s\\n", *words], timeout=LIMIT)
        assert done.out.splitlines() == words

    def test_much_output_on_both_sides_does_not_block(self, node: Node) -> None:
        script = "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero"
        done = node.run(["sh", "-c", script], timeout=LIMIT)
        assert (len(done.out), len(done.err)) == (3_000_000, 3_000_000)

    def test_a_command_that_hangs_is_given_up(self, node: Node) -> None:
        begun = time.monotonic()
        with pytest.raises(NodeError, match=r"sleep.* within 0\.3 s"):
            node.run(["sleep", "600"], timeout=0.3)
        assert time.monotonic() - begun < LIMIT / 2

    def test_a_trickle_does_not_count_as_an_answer(self, node: Node) -> None:
        with pytest.raises(NodeError, match="within"):
            node.run(["sh", "-c", "while sleep 0.05; do echo x; done"], timeout=0.4)

    def test_bytes_that_are_no_text(self, node: Node) -> None:
        assert node.run(["printf", r"\377x"], timeout=LIMIT).out.endswith("x")


class TestFollowing:
    def test_lines_come_while_the_command_runs(self, node: Node, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        follower = node.follow(["sh", "-c", f"echo first; read line < {gate}; echo $line"])
        lines = iter(follower)
        assert next(lines).strip() == "first"
        gate.write_text("second\n")
        assert next(lines).strip() == "second"
        assert list(lines) == []

    def test_closing_ends_the_command(self, node: Node) -> None:
        # As journalctl does, tail -f notices that nobody reads any more.
        follower = node.follow(["sh", "-c", "echo $$; exec tail -f /dev/null"])
        pid = int(next(iter(follower)))
        assert alive(pid)
        follower.close()
        assert eventually(lambda: not alive(pid))

    def test_closing_ends_the_reading_thread(self, node: Node) -> None:
        follower = node.follow(["sh", "-c", "echo begun; exec tail -f /dev/null"])
        lines = iter(follower)
        next(lines)
        follower.close()
        assert list(lines) == []


class TestHttp:
    def test_both_kinds_of_request(self, node: Node) -> None:
        with running_web(lambda path, body, headers: (200, {"path": path, "got": body})) as web:
            http = EngineHTTP(node.http(), ADDRESS, web.port)
            assert http.get("/model_info", LIMIT).body == {"path": "/model_info", "got": None}
            answer = http.post("/generate", {"text": "hä"}, LIMIT)
            assert (answer.status, answer.body["got"]) == (200, {"text": "hä"})

    def test_one_connection_serves_several_requests(self, node: Node) -> None:
        with running_web(lambda *_: (200, "")) as web:
            http = EngineHTTP(node.http(), ADDRESS, web.port)
            assert [http.get("/", LIMIT).status for _ in range(5)] == [200] * 5

    def test_a_server_that_closes_after_each_answer(self, node: Node) -> None:
        with running_web(lambda *_: (200, "x" * 300_000), protocol="HTTP/1.0") as web:
            http = EngineHTTP(node.http(), ADDRESS, web.port)
            assert [len(http.get("/", LIMIT).body) for _ in range(3)] == [300_000] * 3

    @pytest.mark.parametrize("key", ["", "sesame-123"])
    def test_the_key_goes_with_every_request(self, node: Node, key: str) -> None:
        with running_web(
            lambda _path, _body, headers: (200, headers.get("Authorization", "none"))
        ) as web:
            http = EngineHTTP(node.http(), ADDRESS, web.port, key)
            assert http.get("/", LIMIT).body == (f"Bearer {key}" if key else "none")

    def test_a_closed_port_is_refused(self, node: Node) -> None:
        answer = EngineHTTP(node.http(), ADDRESS, free_port(ADDRESS)).get("/", LIMIT)
        assert (answer.status, answer.refused) == (0, True)

    def test_a_slow_answer_is_given_up(self, node: Node) -> None:
        def slow(*_: object) -> tuple[int, str]:
            time.sleep(1.5)
            return 200, ""

        with running_web(slow) as web:
            answer = EngineHTTP(node.http(), ADDRESS, web.port).get("/health", 0.2)
        assert answer.status == 0
        assert answer.error == "no answer within 0.2 s"
        assert not answer.refused

    def test_the_controllers_proxy_is_not_asked(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", f"http://{ADDRESS}:{free_port(ADDRESS)}")
        with running_web(lambda *_: (200, "direct")) as web:
            assert EngineHTTP(node.http(), ADDRESS, web.port).get("/", LIMIT).body == "direct"

    def test_a_redirect_is_not_followed(self, node: Node) -> None:
        with running_web(lambda *_: (302, "")) as web:
            assert EngineHTTP(node.http(), ADDRESS, web.port).get("/", LIMIT).status == 302


class TestForwarding:
    @pytest.mark.parametrize("option", ["AllowTcpForwarding no", "PermitOpen 127.0.0.1:1"])
    def test_forbidden_says_how_to_allow_it(self, tmp_path: Path, option: str) -> None:
        with running_sshd(tmp_path, options=(option,)) as server:
            node = connect(server)
            try:
                with pytest.raises(ForwardingRefusedError) as raised:
                    EngineHTTP(node.http(), ADDRESS, 30000).get("/model_info", LIMIT)
            finally:
                node.close()
        assert "AllowTcpForwarding local" in str(raised.value)
        assert f"PermitOpen {ADDRESS}:30000" in str(raised.value)

    def test_a_lost_connection_is_no_answer(self, tmp_path: Path) -> None:
        with running_sshd(tmp_path) as server:
            node = connect(server)
            session = int(node.run(["sh", "-c", "echo $PPID"], timeout=LIMIT).out)
            os.kill(session, 9)
            assert eventually(lambda: not alive(session))
            with pytest.raises(NodeError, match=r"connection to .* is lost"):
                node.run(["true"], timeout=LIMIT)
            with pytest.raises(NodeError, match=r"connection to .* is lost"):
                EngineHTTP(node.http(), ADDRESS, 1).get("/", LIMIT)
            node.close()


class TestJump:
    def test_through_another_server(self, sshd: Sshd, tmp_path: Path) -> None:
        with running_sshd(tmp_path / "jump", address="127.120.8.3") as jump:
            config = tmp_path / "config"
            config.write_text(
                f"Host gate\n HostName {jump.address}\n Port {jump.port}\n User {jump.user}\n"
                f" IdentityFile {jump.key}\n IdentitiesOnly yes\n"
                f" UserKnownHostsFile {jump.known_hosts}\n GlobalKnownHostsFile none\n"
                f"Host inside\n HostName {sshd.address}\n Port {sshd.port}\n User {sshd.user}\n"
                f" IdentityFile {sshd.key}\n IdentitiesOnly yes\n ProxyJump gate\n"
                f" UserKnownHostsFile {sshd.known_hosts}\n GlobalKnownHostsFile none\n"
            )
            before = _children()
            node = SshNode(resolve("ssh", ["-F", str(config)], "inside"))
            assert len(_children() - before) == 1
            client = node.run(["sh", "-c", "echo $SSH_CONNECTION"], timeout=LIMIT).out
            assert client.split()[2:] == [sshd.address, str(sshd.port)]
            with running_web(lambda *_: (200, "inside")) as web:
                assert EngineHTTP(node.http(), ADDRESS, web.port).get("/", LIMIT).body == "inside"
            node.close()
            assert _children() == before
            assert "Accepted publickey" in jump.log.read_text()

    def test_the_jump_hosts_key_is_checked_too(self, sshd: Sshd, tmp_path: Path) -> None:
        with running_sshd(tmp_path / "jump", address="127.120.8.3") as jump:
            config = tmp_path / "config"
            config.write_text(
                f"Host gate\n HostName {jump.address}\n Port {jump.port}\n User {jump.user}\n"
                f" IdentityFile {jump.key}\n UserKnownHostsFile {tmp_path / 'none'}\n"
                f" GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n"
                f"Host inside\n HostName {sshd.address}\n Port {sshd.port}\n ProxyJump gate\n"
            )
            before = _children()
            with pytest.raises(NodeError, match="behind `ssh -F"):
                SshNode(resolve("ssh", ["-F", str(config)], "inside"))
            assert _children() == before

    def test_a_proxy_command(self, sshd: Sshd, tmp_path: Path) -> None:
        # Anything whose input and output are the connection will do.
        relay = tmp_path / "relay.py"
        relay.write_text(RELAY)
        command = f"{sys.executable} {relay} %h %p %%"
        node = connect(sshd, "-o", f"ProxyCommand={command}")
        try:
            assert node.settings.proxy_command.endswith(f"{sshd.address} {sshd.port} %")
            assert node.run(["echo", "in"], timeout=LIMIT).out == "in\n"
        finally:
            node.close()


RELAY = """
import os, socket, sys, threading
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))

def back():
    while data := server.recv(65536):
        os.write(1, data)
    os._exit(0)

threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    server.sendall(data)
"""


def _children() -> set[int]:
    """Processes that this one has started and that still run."""
    path = Path(f"/proc/{os.getpid()}/task")
    found: set[int] = set()
    for task in path.iterdir():
        with suppress(OSError):  # a thread that has just ended
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if alive(pid)}


class TestBecome:
    def test_without_a_password_sudo_never_asks(self) -> None:
        assert Become().wrap(["journalctl", "-f"]) == (
            ["sudo", "-n", "--", "journalctl", "-f"],
            "",
        )

    def test_a_password_goes_to_the_input_and_not_into_the_arguments(self) -> None:
        command, given = Become("/usr/bin/sudo", "hunter22").wrap(["id"])
        assert command == ["/usr/bin/sudo", "-S", "-p", "", "--", "id"]
        assert given == "hunter22\n"

    def test_only_commands_for_root_are_wrapped(self, sshd: Sshd, tmp_path: Path) -> None:
        # A stand-in for sudo shows what it was given, input included.
        sudo = tmp_path / "sudo"
        sudo.write_text('#!/bin/sh\nread password; echo "$password|$*"\n')
        sudo.chmod(0o755)
        node = SshNode(
            resolve("ssh", sshd.arguments, sshd.address), become=Become(str(sudo), "hunter22")
        )
        try:
            assert node.run(["echo", "plain"], timeout=LIMIT).out == "plain\n"
            assert node.run(["id"], timeout=LIMIT, root=True).out == "hunter22|-S -p  -- id\n"
            assert list(node.follow(["id"], root=True)) == ["hunter22|-S -p  -- id\n"]
        finally:
            node.close()
