# SPDX-License-Identifier: Apache-2.0
"""What the lab remembers, and where: one folder, one record per node, one lock.

Below the lab's folder: `ssh/` with the key and known hosts, `rootfs/<suite>-<digest>/` with cached
base file systems, `nodes/<name>/` with a node's records, console log and files, and `lock`, held
by `up`, `down` and `kill`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.process import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parent.parent
SSH_PORT = 22120
SSH_USER = "operator"
DEFAULT_ADDRESS_BASE = "127.120.0."
MAX_NODES = 99
LOCK_SECONDS = 900.0

_NODE_NAME = re.compile(r"lab-([1-9][0-9]?)")
_ADDRESS_BASE = re.compile(r"127(\.(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){2}\.")


class LabError(Exception):
    """The lab cannot do what was asked; the text names the cause and what to do about it."""


def state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The lab's folder: `LAB_STATE`, else `.lab` at the root of the repository.

    Args:
        environ: environment to read; the process's own when left out.

    Returns:
        An absolute path; it need not exist.
    """
    value = (os.environ if environ is None else environ).get("LAB_STATE", "")
    return Path(value).expanduser().absolute() if value else REPOSITORY / ".lab"


def address_base(environ: Mapping[str, str] | None = None) -> str:
    """The first three octets of node addresses, with the last dot: `LAB_ADDRESS_BASE`.

    Args:
        environ: environment to read; the process's own when left out.

    Returns:
        For example `127.120.0.`.

    Raises:
        LabError: the value is not three octets inside 127.0.0.0/8.
    """
    value = (os.environ if environ is None else environ).get("LAB_ADDRESS_BASE", "")
    value = value or DEFAULT_ADDRESS_BASE
    if not _ADDRESS_BASE.fullmatch(value):
        raise LabError(
            f"LAB_ADDRESS_BASE={value!r} is not the start of a loopback address; "
            f"use three octets and a dot, for example {DEFAULT_ADDRESS_BASE}"
        )
    return value


def node_count(environ: Mapping[str, str] | None = None) -> int:
    """How many nodes `up` brings up when it is not told: `LAB_NODES`, else 1.

    Args:
        environ: environment to read; the process's own when left out.

    Returns:
        1 to 99.

    Raises:
        LabError: `LAB_NODES` is not a number in that range.
    """
    value = (os.environ if environ is None else environ).get("LAB_NODES", "") or "1"
    if not re.fullmatch(r"[0-9]+", value):
        raise LabError(f"LAB_NODES={value!r} is not a number; use 1 to {MAX_NODES}")
    return check_count(int(value))


def check_count(count: int) -> int:
    """Refuse a number of nodes that the addresses cannot hold.

    Args:
        count: wanted number of nodes.

    Returns:
        The same number.

    Raises:
        LabError: it is below 1 or above 99.
    """
    if not 1 <= count <= MAX_NODES:
        raise LabError(f"a lab has 1 to {MAX_NODES} nodes, not {count}")
    return count


def node_name(index: int) -> str:
    """`lab-1` for 1."""
    return f"lab-{index}"


def node_index(name: str) -> int:
    """1 for `lab-1`.

    Args:
        name: a node's name.

    Returns:
        Its number.

    Raises:
        LabError: the name is not one that a lab gives.
    """
    match = _NODE_NAME.fullmatch(name)
    if not match:
        raise LabError(f"{name!r} is not a lab node; nodes are called lab-1 to lab-{MAX_NODES}")
    return int(match.group(1))


@dataclass(frozen=True)
class Node:
    """What was decided when a node was made.

    Attributes:
        name: `lab-1` and so on; also its host name.
        address: loopback address of its own.
        port: where its sshd listens.
        rootfs: path of the base file system below it.
        storage: `overlay` (changes above the base) or `copy` (a full copy of the base).
        machine: name given to systemd-nspawn; unique on this machine, across labs.
        machine_id: content of the node's /etc/machine-id.
    """

    name: str
    address: str
    port: int
    rootfs: str
    storage: str
    machine: str
    machine_id: str


@dataclass(frozen=True)
class Lab:
    """Paths of one lab.

    Attributes:
        path: its folder.
    """

    path: Path

    @property
    def ssh(self) -> Path:
        """Folder of the lab's key and known hosts."""
        return self.path / "ssh"

    @property
    def key(self) -> Path:
        """Private key that opens every node."""
        return self.ssh / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """Pinned host keys, one line per node."""
        return self.ssh / "known_hosts"

    @property
    def rootfs(self) -> Path:
        """Folder of base file systems."""
        return self.path / "rootfs"

    @property
    def nodes(self) -> Path:
        """Folder of nodes."""
        return self.path / "nodes"

    def node_dir(self, name: str) -> Path:
        """Folder of one node."""
        return self.nodes / name

    def node_names(self) -> list[str]:
        """Nodes that left anything behind, half-made ones included, in order."""
        if not self.nodes.is_dir():
            return []
        found = [entry.name for entry in self.nodes.iterdir() if _NODE_NAME.fullmatch(entry.name)]
        return sorted(found, key=node_index)

    def load(self, name: str) -> Node | None:
        """The record of a node.

        Args:
            name: the node.

        Returns:
            Its record, or None when there is none.

        Raises:
            LabError: the record cannot be read as one.
        """
        path = self.node_dir(name) / "node.json"
        data = _read_json(path)
        if data is None:
            return None
        try:
            return Node(**data)
        except TypeError as error:
            raise LabError(_unreadable(path, error)) from error

    def save(self, node: Node) -> None:
        """Write the record of a node in one step."""
        write_atomic(self.node_dir(node.name) / "node.json", json.dumps(asdict(node), indent=2))

    def nodes_recorded(self) -> list[Node]:
        """All nodes with a record, in order."""
        return [node for name in self.node_names() if (node := self.load(name))]

    def load_process(self, name: str) -> Process | None:
        """The process that a node was last started as.

        Args:
            name: the node.

        Returns:
            The supervising systemd-nspawn, alive or not; None when the node was never started.

        Raises:
            LabError: the record cannot be read as one.
        """
        return self._load_process(name, "process.json")

    def save_process(self, name: str, process: Process) -> None:
        """Write which process a node runs as, in one step."""
        write_atomic(self.node_dir(name) / "process.json", json.dumps(asdict(process)))

    def running(self, name: str) -> Process | None:
        """The node's process if it is alive."""
        process = self.load_process(name)
        return process if process and process.is_alive() else None

    def mark_ready(self, name: str) -> None:
        """Note that the node's present process was seen ready."""
        text = (self.node_dir(name) / "process.json").read_text(encoding="utf-8")
        write_atomic(self.node_dir(name) / "ready.json", text)

    def ready(self, name: str) -> bool:
        """Whether the node runs and was seen ready since it was started."""
        process = self.running(name)
        return process is not None and process == self._load_process(name, "ready.json")

    def _load_process(self, name: str, file: str) -> Process | None:
        path = self.node_dir(name) / file
        data = _read_json(path)
        if data is None:
            return None
        try:
            return Process(**data)
        except TypeError as error:
            raise LabError(_unreadable(path, error)) from error

    @contextlib.contextmanager
    def lock(self, tell: Callable[[str], None], seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lab: of two commands that change it, the second waits.

        Args:
            tell: called with one line when there is something to wait for.
            seconds: how long to wait.

        Yields:
            While the lock is held; it ends with the process, however that ends.

        Raises:
            LabError: another command held it for all that time.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        give_to_invoker(self.path)
        path = self.path / "lock"
        deadline = time.monotonic() + seconds
        told = False
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if _try_lock(descriptor, path):
                break
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise LabError(
                    f"another lab command (process {holder}) has held {path} for {seconds:.0f} s; "
                    "wait for it or end it"
                )
            if not told:
                tell(f"waiting for another lab command (process {holder})")
                told = True
            time.sleep(0.1)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
            yield
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int, path: Path) -> bool:
    """Lock an open file unless it is held, or was removed since it was opened."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise LabError(_unreadable(path, error)) from error
    if not isinstance(data, dict):
        raise LabError(_unreadable(path, TypeError("not an object")))
    return data


def _unreadable(path: Path, error: Exception) -> str:
    return f"{path} is damaged ({error}); remove the lab with `python -m lab down`"


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file through a temporary one and a rename, so that no reader sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(mode)
    temporary.replace(path)


def give_to_invoker(path: Path) -> None:
    """Hand a file made as root to the user who called sudo, so that it stays theirs to read."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and uid.isdigit() and gid.isdigit():
        os.chown(path, int(uid), int(gid))
