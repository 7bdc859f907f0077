# SPDX-License-Identifier: Apache-2.0
"""The command lines and files of one passing on: OpenSSH's own programs, for one run.

A node gives its files through an SSH server of its own, beside the system's: its key, the keys
that it accepts and the folder that it shows live in a folder that systemd removes with the unit.
It lets the user `nobody` read that folder over SFTP from the other nodes' addresses, and nothing
else.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

UNIT = "sglang-pass-on"
USER = "nobody"
# Without one, a node whose network vanished would keep the keys until somebody looks.
RUNTIME_SECONDS = 86400
_CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
_CAPABILITIES = (
    "CAP_SYS_CHROOT CAP_SETUID CAP_SETGID CAP_KILL CAP_SYS_ADMIN CAP_DAC_OVERRIDE CAP_FOWNER "
    "CAP_CHOWN"
)
_ALIVE = ("ServerAliveInterval=15", "ServerAliveCountMax=3", "ConnectTimeout=10")


def unit(program: Iterable[str], writable: Iterable[str], peers: Iterable[str]) -> list[str]:
    """The command that runs a program as a unit which cannot outlive it.

    Whatever ends the program, systemd ends its children with it and removes its folder, keys
    included. Its input and output are those of this command.

    Args:
        program: The program and its arguments.
        writable: Folders that it may write to; they exist.
        peers: Addresses that it may speak with.

    Returns:
        The command, for root.
    """
    settings = [
        f"RuntimeDirectory={UNIT}",
        "RuntimeDirectoryMode=0711",
        f"RuntimeMaxSec={RUNTIME_SECONDS}",
        "TimeoutStopSec=5",
        "PrivateMounts=yes",
        "PrivateDevices=yes",
        "ProtectSystem=strict",
        "ProtectKernelTunables=yes",
        "ProtectControlGroups=yes",
        "NoNewPrivileges=yes",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
        f"CapabilityBoundingSet={_CAPABILITIES}",
        # The serving engine comes first.
        "Nice=10",
        "IOSchedulingClass=idle",
        "OOMScoreAdjust=900",
        "IPAddressDeny=any",
        *(f"IPAddressAllow={address}" for address in peers),
        *(f"ReadWritePaths={folder}" for folder in writable),
    ]
    command = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit={UNIT}"]
    for setting in settings:
        command += ["--property", setting]
    return [*command, "--", *program]


def server(folder: Path, address: str, port: int) -> str:
    """The configuration of a node's SSH server for this run.

    Args:
        folder: Where its keys and the shown folder `root` are.
        address: The address that it listens on.
        port: The port.

    Returns:
        The content of a sshd_config.
    """
    return "\n".join(
        [
            f"ListenAddress {address}",
            f"Port {port}",
            f"HostKey {folder}/host",
            "PidFile none",
            "AddressFamily any",
            f"AuthorizedKeysFile {folder}/authorized",
            f"AllowUsers {USER}",
            "AuthenticationMethods publickey",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "PermitRootLogin no",
            f"ChrootDirectory {folder}/root",
            "ForceCommand internal-sftp -R",
            "Subsystem sftp internal-sftp",
            "DisableForwarding yes",
            "PermitTTY no",
            "PermitUserRC no",
            "MaxSessions 1",
            "ClientAliveInterval 15",
            "ClientAliveCountMax 3",
            f"Ciphers {_CIPHERS}",
            "",
        ]
    )


def authorized(takers: Iterable[Mapping[str, str]]) -> str:
    """The authorized_keys of a run: each key from its node's address, for nothing but SFTP.

    Args:
        takers: Nodes with `key` (a public key's type and text) and `address`.
    """
    return "".join(f'restrict,from="{taker["address"]}" {taker["key"]}\n' for taker in takers)


def quote(name: str) -> str:
    """A file's name as a batch of `sftp` takes it: neither blanks nor patterns mean anything."""
    if "\n" in name or "\r" in name:
        raise ValueError(f"{name!r}: a line break cannot be in the name of a file that is sent")
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def kbits(megabytes: float, streams: int) -> int:
    """The `-l` of `sftp` (1024 bits a second) that keeps several streams below a limit.

    Args:
        megabytes: Million bytes a second for all streams together; 0 is no limit.
        streams: How many there may be.

    Returns:
        At least 1, or 0 for no limit.
    """
    if megabytes <= 0:
        return 0
    return max(int(megabytes * 1e6 * 8 / 1024 / max(streams, 1)), 1)


def sftp(arguments: Iterable[str], limit: int, destination: str) -> list[str]:
    """A `sftp` that reads its commands from its input and asks nothing.

    Args:
        arguments: What it needs to connect.
        limit: See `kbits`.
        destination: `USER@HOST`, or a host.
    """
    command = ["sftp", "-q", "-b", "-"]
    command += ["-l", str(limit)] if limit else []
    for option in ("BatchMode=yes", *_ALIVE):
        command += ["-o", option]
    return [*command, *arguments, "--", destination]


def taker(folder: Path, source: Mapping[str, str], own: str) -> list[str]:
    """The arguments with which a node connects to another one's server.

    Args:
        folder: Where its key `client` and `known_hosts` are.
        source: The other node: `name`, `port`.
        own: The address to come from.
    """
    options = [
        f"HostKeyAlias={source['name']}",
        f"UserKnownHostsFile={folder}/known_hosts",
        "GlobalKnownHostsFile=none",
        "StrictHostKeyChecking=yes",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        f"IdentityFile={folder}/client",
        f"BindAddress={own}",
        f"Ciphers={_CIPHERS}",
    ]
    arguments = ["-F", "none", "-P", str(source["port"])]
    for option in options:
        arguments += ["-o", option]
    return arguments


def bounded(command: Iterable[str], size: int) -> list[str]:
    """A command that cannot write a file larger than `size` bytes, whatever it is sent."""
    return ["prlimit", f"--fsize={size}", *command]


def why(status: int, text: str, space: bool = False) -> str:
    """What a failed `sftp` failed of.

    Args:
        status: Its exit status.
        text: What it wrote to its error output.
        space: Whether the receiver's own disk is full.

    Returns:
        `denied` (the source does not let the file be read, or lacks it), `corrupt` (it sends more
        than the file has), `local` (the receiver cannot write it), or `lost` (no connection, or a
        broken one).
    """
    low = text.lower()
    if status in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ):
        return "corrupt"  # it would not end where the file ends
    if space or "no space left" in low or "couldn't write" in low:
        return "local"
    # 1 is a command that failed, 255 a connection that did.
    if status == 1 and any(word in low for word in ("permission denied", "not found", "no such")):
        return "denied"
    return "lost" if status else ""
