# SPDX-License-Identifier: Apache-2.0
"""One connection to a node: commands, a followed command, and HTTP to the node's loopback.

Everything runs over a single SSH connection of its own (`paramiko`): the engine's port is reached
through `direct-tcpip` channels and never opened anywhere else, and whatever was started on the
node ends with the connection.
"""

from __future__ import annotations

import logging
import os
import shlex
import socket
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import paramiko
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import (
    Become,
    Completed,
    Follow,
    ForwardingRefusedError,
    Node,
    NodeError,
    Talk,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._tunnel import (
    ChannelSocket,
    TunnelAdapter,
    plain_session,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import requests
    from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import SshSettings

# A refused channel is an answer here; paramiko would print it on the terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

_SSH_PORT = 22
_PROHIBITED, _CONNECT_FAILED = 1, 2  # RFC 4254, 5.1: reasons for a channel open failure
_KEEPALIVE = 15


class SshNode(Node):
    """A node over one SSH connection."""

    def __init__(
        self,
        settings: SshSettings,
        *,
        become: Become | None = None,
        password: str = "",
        passphrase: str = "",
    ) -> None:
        """Connect.

        Raises:
            NodeError: the host key is unknown or has changed, nobody answers, or no key or
                password is accepted; the text says which, and what to do.
        """
        super().__init__(become)
        self.settings = settings
        self._proxy: subprocess.Popen[bytes] | None = None
        self._client = paramiko.SSHClient()
        for name in settings.known_hosts:
            with suppress(OSError):
                self._client.load_system_host_keys(name)
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            self._connect(password, passphrase)
        except BaseException:
            self.close()
            raise

    def _connect(self, password: str, passphrase: str) -> None:
        settings = self.settings
        where = f"{settings.alias} ({settings.hostname} port {settings.port})"
        if settings.identity_agent:
            os.environ["SSH_AUTH_SOCK"] = settings.identity_agent
        name, port = _known_hosts_entry(settings)
        try:
            self._client.connect(
                hostname=name,
                port=port,
                username=settings.user,
                sock=self._socket(),
                key_filename=list(settings.identity_files),  # type: ignore[arg-type]  # a list is fine
                password=password or None,
                passphrase=passphrase or None,
                allow_agent=settings.use_agent,
                look_for_keys=False,
                timeout=settings.connect_timeout,
                banner_timeout=settings.connect_timeout,
                auth_timeout=settings.connect_timeout * 3,
            )
        except paramiko.BadHostKeyException as error:
            raise NodeError(
                f"the SSH host key of {where} has CHANGED: known_hosts has "
                f"{_print(error.expected_key)}, the server shows {_print(error.key)}. If the "
                f"node was reinstalled, remove the old key: ssh-keygen -R "
                f"{shlex.quote(settings.host_key_name)} -f {self._known_hosts_file()}; else "
                "somebody may be answering in its place"
            ) from error
        except paramiko.AuthenticationException as error:
            raise NodeError(
                f"{where} accepts neither key nor password of user {settings.user!r}: {error}. "
                f"Tried {', '.join(settings.identity_files) or 'no key file'}"
                f"{' and the agent' if settings.use_agent else ''}"
            ) from error
        except paramiko.SSHException as error:
            raise NodeError(self._explain(where, error)) from error
        except OSError as error:
            raise NodeError(
                f"cannot reach {where}: {error.strerror or error}. Check ansible_host and "
                "ansible_port, and that its SSH server runs"
            ) from error
        transport = self._client.get_transport()
        if transport is None:
            raise NodeError(f"the connection to {where} closed at once")
        transport.set_keepalive(_KEEPALIVE)
        self._transport = transport

    def _explain(self, where: str, error: paramiko.SSHException) -> str:
        if "not found in known_hosts" in str(error):
            return (
                f"the SSH host key of {where} is not known: no entry "
                f"{self.settings.host_key_name} in "
                f"{', '.join(self.settings.known_hosts) or 'any known_hosts file'}. Host key "
                f"checking stays on: connect once with ssh and compare the key, or add it to "
                f"{self._known_hosts_file()}"
            )
        if self._proxy is not None:
            proxy = self.settings.proxy_command
            return f"no SSH server answers as {where} behind `{proxy}`: {error}"
        return f"no SSH connection to {where}: {error}"

    def _lost(self, error: BaseException) -> NodeError:
        return NodeError(f"the SSH connection to {self.settings.alias} is lost: {error}")

    def _known_hosts_file(self) -> str:
        return self.settings.known_hosts[0] if self.settings.known_hosts else "~/.ssh/known_hosts"

    def _socket(self) -> socket.socket:
        if not self.settings.proxy_command:
            address = (self.settings.hostname, self.settings.port)
            return socket.create_connection(address, self.settings.connect_timeout)
        ours, theirs = socket.socketpair()
        with theirs:
            self._proxy = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {self.settings.proxy_command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )
        return ours

    def _session(self, argv: list[str]) -> paramiko.Channel:
        try:
            channel = self._transport.open_session(timeout=self.settings.connect_timeout)
            channel.exec_command(shlex.join(argv))
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._lost(error) from error
        return channel

    def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
        channel = self._session(argv)
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _end(channel)

        # A limit on the whole command: one on each read would let a trickle go on for ever.
        watchdog = threading.Timer(timeout, give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            with suppress(OSError):  # it may have ended without reading its input
                channel.sendall(given.encode())
                channel.shutdown_write()
            out, err = _read_both(channel)
            status = channel.recv_exit_status()
        finally:
            watchdog.cancel()
            _end(channel)
        if late.is_set() or not self._transport.is_active():
            raise NodeError(
                f"{self.settings.alias} did not answer `{shlex.join(argv)[:60]}` within "
                f"{timeout:g} s: the node hangs, or the connection is lost"
            )
        return Completed(status, out.decode(errors="replace"), err.decode(errors="replace"))

    def _follow(self, argv: list[str], given: str) -> Follow:
        channel = self._session(argv)
        with suppress(OSError):
            channel.sendall(given.encode())
            channel.shutdown_write()
        return _SshFollow(channel)

    def talk(self, command: Sequence[str]) -> Talk:
        """Start a command as root, and talk with it until one side ends it.

        Raises:
            NodeError: the connection is lost.
        """
        argv, given = self._wrapped(command, root=True)
        talk = _SshTalk(self._session(argv))
        talk.send(given.encode())
        return talk

    def http(self) -> requests.Session:
        session = plain_session()
        session.mount("http://", TunnelAdapter(self))
        return session

    def open_tcp(self, host: str, port: int, timeout: float | None) -> ChannelSocket:
        """Open a connection from the node to one of its own addresses.

        Raises:
            ConnectionRefusedError: nobody listens there.
            ForwardingRefusedError: the SSH server forbids it.
            NodeError: the connection is lost.
        """
        limit = timeout if timeout is not None else self.settings.connect_timeout
        try:
            channel = self._transport.open_channel(
                "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=limit
            )
        except paramiko.ChannelException as error:
            if error.code == _CONNECT_FAILED:
                raise ConnectionRefusedError(f"nobody listens on {host} port {port}") from error
            if error.code == _PROHIBITED:
                raise ForwardingRefusedError(
                    f"the SSH server of {self.settings.alias} forbids forwarding to {host} port "
                    f"{port}, through which the engine is asked. Allow it for user "
                    f"{self.settings.user}: `AllowTcpForwarding local` and `PermitOpen "
                    f"{host}:{port}` in sshd_config (sshd -T shows what holds now)"
                ) from error
            raise NodeError(
                f"the SSH server of {self.settings.alias} opens no channel: {error.text}"
            ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._lost(error) from error
        channel.settimeout(timeout)
        return ChannelSocket(channel)

    def close(self) -> None:
        self._client.close()
        if self._proxy is not None:
            with suppress(OSError):
                self._proxy.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._proxy.wait(timeout=2)


class _SshFollow(Follow):
    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __iter__(self) -> Iterator[str]:
        with suppress(OSError), self._channel.makefile("rb") as stream:
            for raw in stream:
                yield raw.decode(errors="replace")

    def close(self) -> None:
        _end(self._channel)


class _SshTalk(_SshFollow, Talk):
    def __init__(self, channel: paramiko.Channel) -> None:
        super().__init__(channel)
        self._guard = threading.Lock()

    def send(self, data: bytes) -> None:
        try:
            with self._guard:
                self._channel.sendall(data)
        except OSError as error:
            raise NodeError(f"the line to the node is cut: {error}") from error

    def end(self) -> None:
        with suppress(OSError):
            self._channel.shutdown_write()

    def errors(self) -> str:
        parts = []
        with suppress(OSError):
            while part := self._channel.recv_stderr(65536):
                parts.append(part)
        return b"".join(parts).decode(errors="replace")


def _end(channel: paramiko.Channel) -> None:
    """Close a channel whose connection may be gone already."""
    with suppress(paramiko.SSHException, OSError, EOFError):
        channel.close()


def _read_both(channel: paramiko.Channel) -> tuple[bytes, bytes]:
    """Read both outputs to their ends; reading one after the other could block the sender."""
    errors: list[bytes] = []

    def drain() -> None:
        with suppress(OSError):
            while part := channel.recv_stderr(65536):
                errors.append(part)

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    parts = []
    while part := channel.recv(65536):
        parts.append(part)
    reader.join()
    return b"".join(parts), b"".join(errors)


def _known_hosts_entry(settings: SshSettings) -> tuple[str, int]:
    """The name and port that make paramiko look under `host_key_name`."""
    plain = f"[{settings.hostname}]:{settings.port}"
    if settings.host_key_name == plain:
        return settings.hostname, settings.port
    return settings.host_key_name, _SSH_PORT


def _print(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"
