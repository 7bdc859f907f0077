# SPDX-License-Identifier: Apache-2.0
"""What makes a file system this node's: its name, keys and address, and this machine's network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lab import host, rootfs, sources, ssh
from lab.state import SSH_USER, Lab, LabError, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

_HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
# Not in the home folder: that one belongs to whoever works on the node.
_LAB_KEYS = "/etc/ssh/authorized_keys.d"
_CERTIFICATES = "/usr/local/share/ca-certificates"


def sshd_config(node: Node) -> str:
    """Settings of a node's SSH server."""
    return "\n".join(
        [
            f"ListenAddress {node.address}",
            f"Port {node.port}",
            f"HostKey {_HOST_KEY}",
            f"AllowUsers {SSH_USER}",
            f"AuthorizedKeysFile {_LAB_KEYS}/%u .ssh/authorized_keys",
            "PermitRootLogin no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UseDNS no",
            # A playbook with many forks opens more sessions at once than the usual ten.
            "MaxSessions 100",
            "MaxStartups 100",
            "",
        ]
    )


def hosts_file(node: Node, machine_hosts: str) -> str:
    """A node's /etc/hosts: itself, and the names that this machine's file adds.

    Args:
        node: the node.
        machine_hosts: this machine's /etc/hosts; a package mirror may be named only there.

    Returns:
        The file's text.
    """
    lines = [
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost ip6-loopback",
        f"{node.address} {node.name}",
    ]
    for line in machine_hosts.splitlines():
        entry = line.partition("#")[0].split()
        if len(entry) > 1 and not entry[0].startswith("127.") and entry[0] != "::1":
            lines.append(" ".join(entry))
    return "".join(f"{line}\n" for line in lines)


def write_in(root: Path, path: str, content: bytes, mode: int = 0o644) -> bool:
    """Write a file inside a node's file system, never outside of it.

    A node's own root may have put a link anywhere; followed from here, an absolute link would
    lead into this machine's files. So the target is replaced, not followed, and its folder must
    lie inside.

    Args:
        root: root directory of the node.
        path: absolute path inside the node.
        content: what to write.
        mode: permissions.

    Returns:
        True when the file was not there like that before.

    Raises:
        LabError: the folder lies outside.
    """
    target = root / path.lstrip("/")
    inside = root.resolve()
    if not target.parent.resolve().is_relative_to(inside):
        raise LabError(f"{target.parent} leads out of the node, to {target.parent.resolve()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_file() and not target.is_symlink():
        same = target.read_bytes() == content and target.stat().st_mode & 0o7777 == mode
        if same:
            return False
    temporary = target.with_name(f".{target.name}.lab")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.chmod(mode)
    temporary.replace(target)
    return True


def apply(lab: Lab, node: Node, root: Path, apt: host.AptConfig) -> None:
    """Write a node's own files and this machine's network settings into its file system.

    Done before every boot: what the machine changed since (resolver, mirrors) reaches the node.

    Args:
        lab: where.
        node: the node; its host key is made on first use and pinned.
        root: its root directory, mounted.
        apt: this machine's APT configuration.

    Raises:
        LabError: a file cannot be written.
    """
    private = lab.node_dir(node.name) / "ssh_host_ed25519_key"
    ssh.ensure_key(private, node.name)
    public = private.with_name(f"{private.name}.pub").read_bytes()
    ssh.pin_host(lab, node, public.decode("ascii"))
    write_in(root, "/etc/machine-id", f"{node.machine_id}\n".encode(), 0o444)
    write_in(root, "/etc/hostname", f"{node.name}\n".encode())
    write_in(root, "/etc/hosts", hosts_file(node, _text("/etc/hosts")).encode())
    write_in(root, "/etc/resolv.conf", _text("/etc/resolv.conf").encode())
    write_in(root, _HOST_KEY, private.read_bytes(), 0o600)
    write_in(root, f"{_HOST_KEY}.pub", public)
    write_in(root, "/etc/ssh/sshd_config.d/10-lab.conf", sshd_config(node).encode())
    key = lab.key.with_name(f"{lab.key.name}.pub").read_bytes()
    write_in(root, f"{_LAB_KEYS}/{SSH_USER}", key)
    write_apt(root, apt)
    write_certificates(root, host.local_certificates())


def write_apt(root: Path, apt: host.AptConfig) -> None:
    """Let a node install from where this machine does.

    Args:
        root: root directory of the node.
        apt: this machine's APT configuration.
    """
    lines = "".join(f"{source.one_line()}\n" for source in apt.sources)
    write_in(root, "/etc/apt/sources.list.d/lab.list", lines.encode())
    write_in(root, "/etc/apt/apt.conf.d/80lab", sources.render_settings(apt.settings).encode())
    for number, source in enumerate(apt.sources):
        if source.key:
            write_in(root, f"/etc/apt/trusted.gpg.d/lab-{number}.asc", source.key.encode())
    for path in apt.files:
        file = Path(path)
        write_in(root, path, file.read_bytes(), file.stat().st_mode & 0o777)


def write_certificates(root: Path, certificates: Iterable[Path]) -> None:
    """Let a node trust the certificates that this machine's administrator added.

    Args:
        root: root directory of the node.
        certificates: files below /usr/local/share/ca-certificates.
    """
    changed = [
        write_in(root, f"{_CERTIFICATES}/{path.name}", path.read_bytes()) for path in certificates
    ]
    if any(changed):
        rootfs.in_root(root, ["update-ca-certificates"])


def _text(path: str) -> str:
    """A text of this machine, links followed; empty when there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
