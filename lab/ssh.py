# SPDX-License-Identifier: Apache-2.0
"""The lab's key, the nodes' host keys, and the way in."""

from __future__ import annotations

import re
import socket
import subprocess
from typing import TYPE_CHECKING

from lab.state import SSH_USER, Lab, LabError, Node, give_to_invoker, write_atomic

if TYPE_CHECKING:
    from pathlib import Path


def ensure_key(path: Path, comment: str) -> None:
    """Make an ed25519 key pair where there is none.

    Args:
        path: private key; the public one goes beside it.
        comment: what the key is for.

    Raises:
        LabError: ssh-keygen failed.
    """
    public = path.with_name(f"{path.name}.pub")
    if path.is_file() and public.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    give_to_invoker(path.parent)
    # A pair with one half missing (interrupted) is replaced.
    path.unlink(missing_ok=True)
    public.unlink(missing_ok=True)
    done = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"ssh-keygen cannot make {path}: {done.stderr.strip()}")
    give_to_invoker(path)
    give_to_invoker(public)


def host_pattern(node: Node) -> str:
    """How known_hosts names a node, see sshd(8)."""
    return f"[{node.address}]:{node.port}"


def known_hosts_with(text: str, pattern: str, key: str) -> str:
    """known_hosts with one host's key replaced.

    Args:
        text: the file before.
        pattern: the host.
        key: its public key (`ssh-ed25519 AAAA...`); empty to forget the host.

    Returns:
        The file after.
    """
    lines = [line for line in text.splitlines() if line.split(" ", 1)[0] != pattern]
    if key:
        lines.append(f"{pattern} {' '.join(key.split()[:2])}")
    return "".join(f"{line}\n" for line in lines)


def pin_host(lab: Lab, node: Node, key: str) -> None:
    """Make a node's host key the only one accepted at its address."""
    lab.ssh.mkdir(parents=True, exist_ok=True)
    before = lab.known_hosts.read_text(encoding="utf-8") if lab.known_hosts.exists() else ""
    after = known_hosts_with(before, host_pattern(node), key)
    if after != before:
        write_atomic(lab.known_hosts, after)
        give_to_invoker(lab.known_hosts)


def forget_host(lab: Lab, node: Node) -> None:
    """Drop a node's host key."""
    if lab.known_hosts.exists():
        pin_host(lab, node, "")


def ssh_options(lab: Lab) -> list[str]:
    """Options that accept the pinned host keys and the lab's own key, and nothing else."""
    # OpenSSH expands % in this option's value, and splits it at blanks outside of quotes.
    hosts = str(lab.known_hosts).replace("%", "%%")
    value = f'"{hosts}"' if re.search(r"[\s']", hosts) else hosts
    return [
        *("-o", f"UserKnownHostsFile={value}"),
        *("-o", "StrictHostKeyChecking=yes"),
        *("-o", "IdentitiesOnly=yes"),
    ]


def ssh_command(lab: Lab, node: Node, *, batch: bool) -> list[str]:
    """The command line that opens a node, whatever the user's own SSH configuration says.

    Args:
        lab: where.
        node: the node.
        batch: never ask anything, and give up soon.

    Returns:
        An argument list, to be followed by a command for the node if any.
    """
    quick = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"] if batch else []
    return [
        *("ssh", "-F", "/dev/null", *ssh_options(lab), *quick),
        *("-i", str(lab.key), "-p", str(node.port), f"{SSH_USER}@{node.address}"),
    ]


def banner(node: Node, timeout: float) -> bool:
    """Whether an SSH server greets at a node's address.

    Args:
        node: the node.
        timeout: seconds to connect and to be greeted.

    Returns:
        True when it did.
    """
    try:
        with socket.create_connection((node.address, node.port), timeout) as connection:
            connection.settimeout(timeout)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
