# SPDX-License-Identifier: Apache-2.0
"""A real OpenSSH server on a loopback address, for the time of a test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "127.120.8.1"
_START_LIMIT = 15.0


@dataclass(frozen=True)
class Sshd:
    """A running server; `key` may log in, `known_hosts` holds its host key."""

    address: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    log: Path

    @property
    def arguments(self) -> list[str]:
        """What `ssh` needs to connect, as an inventory would say it."""
        return [
            *("-F", "none"),
            *("-o", f"Port={self.port}"),
            *("-o", f'User="{self.user}"'),
            *("-o", f'IdentityFile="{self.key}"'),
            *("-o", "IdentitiesOnly=yes"),
            *("-o", f"UserKnownHostsFile={self.known_hosts}"),
            *("-o", "GlobalKnownHostsFile=none"),
            *("-o", "ConnectTimeout=10"),
        ]


def new_key(path: Path, passphrase: str = "") -> Path:
    """Make a key pair at `path`."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
    )
    return path


def free_port(address: str) -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def host_entry(address: str, port: int, public_key: Path) -> str:
    """A known_hosts line for a host key."""
    kind, key = public_key.read_text().split()[:2]
    return f"[{address}]:{port} {kind} {key}\n"


@contextmanager
def running_sshd(
    folder: Path, *, options: tuple[str, ...] = (), path: str = "", address: str = ADDRESS
) -> Iterator[Sshd]:
    """Run an sshd whose only user is the one that runs the test.

    Args:
        folder: an empty folder for its keys, configuration and log.
        options: more lines for its configuration; the first value of a keyword counts.
        path: the PATH that commands get.
        address: the loopback address to listen on.
    """
    binary = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert binary, "these tests run a real OpenSSH server: apt-get install openssh-server"
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its privilege separation folder
    folder.mkdir(parents=True, exist_ok=True)
    host_key, key = new_key(folder / "host_key"), new_key(folder / "user_key")
    port = free_port(address)
    (folder / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    (folder / "known_hosts").write_text(host_entry(address, port, host_key.with_suffix(".pub")))
    lines = [
        *options,
        f"ListenAddress {address}",
        f"Port {port}",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "StrictModes no",  # the test's temporary folder may be writable by others
        "PidFile none",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
    ]
    if path:
        lines.append(f'SetEnv "PATH={path}"')
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    log = folder / "log"
    server = subprocess.Popen(
        [binary, "-D", "-f", str(folder / "sshd_config"), "-E", str(log)],
        stdin=subprocess.DEVNULL,
    )
    try:
        _wait_until_listening(server, address, port, log)
        yield Sshd(address, port, getpass.getuser(), key, folder / "known_hosts", log)
    finally:
        server.terminate()
        server.wait(timeout=10)


def _wait_until_listening(
    server: subprocess.Popen[bytes], address: str, port: int, log: Path
) -> None:
    limit = time.monotonic() + _START_LIMIT
    while time.monotonic() < limit:
        assert server.poll() is None, f"sshd ended: {log.read_text() if log.exists() else ''}"
        with socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"sshd does not listen on {address}:{port}: {log.read_text()}")
