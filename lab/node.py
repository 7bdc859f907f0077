# SPDX-License-Identifier: Apache-2.0
"""A node's life: made, booted, ready, stopped, cut off, removed. All of it needs root."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cgroup, launch, mounts, process
from lab.ssh import banner, forget_host, ssh_command
from lab.state import SSH_PORT, Lab, LabError, Node, address_base, node_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.process import Process

BOOT_SECONDS = 120.0
STOP_SECONDS = 45.0
KILL_SECONDS = 10.0
_POLL_SECONDS = 0.1
_CONSOLE_LINES = 15


def root_of(lab: Lab, name: str) -> Path:
    """Root directory of a node, as seen from this machine."""
    return lab.node_dir(name) / "root"


def machine_name(lab: Lab, name: str) -> str:
    """Name of a node on this machine, different for labs in different folders."""
    return f"{name}-{uuid.uuid5(uuid.NAMESPACE_URL, str(lab.path.resolve())).hex[:8]}"


def make(lab: Lab, name: str, base: Path) -> Node:
    """Make a node's file system above a base, or mount the one that it has.

    Args:
        lab: where.
        name: the node.
        base: base file system for a new node; an old one keeps its own.

    Returns:
        The node's record.

    Raises:
        LabError: the file system cannot be made, or an old one cannot be mounted.
    """
    node = lab.load(name)
    directory = lab.node_dir(name)
    if node is None:
        mounts.remove_tree(directory)  # half-made, or with nothing that says how it was made
        directory.mkdir(parents=True)
        error = mounts.mount_overlay(directory, base)
        node = Node(
            name=name,
            address=f"{address_base()}{node_index(name)}",
            port=SSH_PORT,
            rootfs=str(base),
            storage="copy" if error else "overlay",
            machine=machine_name(lab, name),
            machine_id=uuid.uuid4().hex,
        )
        if error:
            _copy(base, directory)
        lab.save(node)
    elif node.storage == "overlay" and not mounts.is_mounted(root_of(lab, name)):
        error = mounts.mount_overlay(directory, Path(node.rootfs))
        if error:
            raise LabError(
                f"{name}: cannot mount its file system ({error}). "
                f"To start anew: python -m lab down {name}"
            )
    return node


def _copy(base: Path, directory: Path) -> None:
    """Copy the base where an overlay is not possible; in place only when complete."""
    partial = directory / "root.partial"
    shutil.rmtree(directory / "root", ignore_errors=True)
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", "--", str(base), str(partial)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"cannot copy {base}: {done.stderr.strip()}")
    partial.rename(directory / "root")


def nspawn_command(node: Node, root: Path, keep_unit: bool) -> list[str]:
    """The command that boots a node.

    Args:
        node: the node.
        root: its root directory.
        keep_unit: stay in the current control group; without it systemd makes a scope.

    Returns:
        An argument list.
    """
    return [
        "systemd-nspawn",
        "--quiet",
        "--settings=no",
        f"--directory={root}",
        f"--machine={node.machine}",
        f"--hostname={node.name}",
        "--boot",
        "--register=no",
        *(["--keep-unit"] if keep_unit else []),
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
    ]


def boot(lab: Lab, node: Node) -> Process:
    """Start a node that is not running; its file system must be ready.

    Args:
        lab: where.
        node: the node.

    Returns:
        The supervising process.

    Raises:
        LabError: its address is taken, or systemd-nspawn cannot be started.
    """
    clear_remains(lab, node.name)
    check_address(node)
    without_systemd = not cgroup.booted_with_systemd()
    groups = cgroup.own_groups() if without_systemd else []

    def prepare(myself: Process) -> None:
        lab.save_process(node.name, myself)
        cgroup.enter(node.machine, groups)

    launch.spawn_detached(
        nspawn_command(node, root_of(lab, node.name), keep_unit=without_systemd),
        {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            # /tmp of a node lies on disk: a tenth of the memory is too little to install in.
            "SYSTEMD_NSPAWN_TMPFS_TMP": "0",
        },
        lab.node_dir(node.name) / "console.log",
        prepare,
    )
    started = lab.load_process(node.name)
    if started is None:
        raise LabError(f"{node.name}: started, but left no record; this is a defect of the lab")
    return started


def check_address(node: Node) -> None:
    """Refuse to boot where somebody else listens.

    Raises:
        LabError: the address and port are taken, or this machine does not have the address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((node.address, node.port))
        except OSError as error:
            raise LabError(
                f"{node.name}: cannot listen on {node.address}:{node.port} ({error.strerror}); "
                "another lab on this machine? See who it is with "
                f"`ss -ltnp src {node.address}`; stop it there, or choose other addresses "
                "for this lab with LAB_ADDRESS_BASE=127.120.1."
            ) from error


def wait_ready(lab: Lab, node: Node, deadline: float, tell: Callable[[str], None]) -> None:
    """Wait until a node has booted, and a command runs on it over SSH.

    Args:
        lab: where.
        node: a started node.
        deadline: by time.monotonic().
        tell: called with one line when units of the node failed.

    Raises:
        LabError: it ended or the time is over; the end of its console is in the text.
    """
    said = "nothing answered"
    while True:
        if not lab.running(node.name):
            raise LabError(_failure(lab, node, "ended while booting"))
        left = deadline - time.monotonic()
        if left <= 0:
            raise LabError(_failure(lab, node, f"not ready in time; last seen: {said}"))
        if banner(node, timeout=min(1.0, left)):
            code, said = _over_ssh(lab, node, "systemctl is-system-running --wait", left)
            if said == "running":
                break
            if said == "degraded":
                _, failed = _over_ssh(lab, node, "systemctl --failed --plain --no-legend", left)
                units = " ".join(line.split()[0] for line in failed.splitlines() if line.strip())
                tell(f"{node.name}: up, with failed units: {units or 'none any more'}")
                break
            said = f"exit {code}: {said}"
        time.sleep(_POLL_SECONDS)
    lab.mark_ready(node.name)


def _over_ssh(lab: Lab, node: Node, command: str, seconds: float) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [*ssh_command(lab, node, batch=True), command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"`{command}` did not end"
    return done.returncode, done.stdout.strip() or done.stderr.strip()


def _failure(lab: Lab, node: Node, what: str) -> str:
    log = lab.node_dir(node.name) / "console.log"
    lines: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    tail = "\n".join(f"    {line.rstrip()}" for line in lines[-_CONSOLE_LINES:])
    return (
        f"{node.name}: {what}. Start it anew: python -m lab kill {node.name} && python -m lab up\n"
        f"    end of {log}:\n{tail}"
    )


def stop(lab: Lab, name: str) -> str:
    """Shut a node down; cut it off when it does not obey. Its files stay.

    Args:
        lab: where.
        name: the node, in whatever state.

    Returns:
        How it went: `stopped`, `killed` or `was not running`.

    Raises:
        LabError: something of it is still there.
    """
    supervisor = _supervisor(lab, name)
    if supervisor is None:
        how = "killed" if process.inhabitants(root_of(lab, name)) else "was not running"
    else:
        # systemd-nspawn passes this on to the node's init as an orderly shutdown.
        supervisor.send(signal.SIGTERM)
        how = "stopped" if supervisor.wait(STOP_SECONDS) else "killed"
    cut_off(lab, name)
    return how


def cut_off(lab: Lab, name: str) -> None:
    """End every process of a node at once, as when its power fails, and unmount it.

    Args:
        lab: where.
        name: the node, in whatever state.

    Raises:
        LabError: something of it is still there.
    """
    supervisor = _supervisor(lab, name)
    if supervisor:
        supervisor.send(signal.SIGKILL)
        if not supervisor.wait(KILL_SECONDS):
            raise LabError(f"{name}: process {supervisor.pid} does not die")
    clear_remains(lab, name)
    mounts.unmount_under(lab.node_dir(name))


def clear_remains(lab: Lab, name: str) -> None:
    """Remove what a node leaves when its supervisor was killed: processes and control groups.

    Args:
        lab: where.
        name: a node whose supervisor does not run.

    Raises:
        LabError: something of it is still there.
    """
    # The init of a node outlives its killed supervisor.
    left = process.kill_inhabitants(root_of(lab, name), KILL_SECONDS)
    if left:
        raise LabError(f"{name}: processes do not die: {', '.join(str(p.pid) for p in left)}")
    machine = machine_name(lab, name)
    if not cgroup.booted_with_systemd():
        cgroup.remove(machine, KILL_SECONDS)
    for kind in ("unix-export", "propagate"):
        mounts.remove_tree(Path("/run/systemd/nspawn") / kind / machine)


def remove(lab: Lab, name: str) -> str:
    """Shut a node down and forget it, files included.

    Args:
        lab: where.
        name: the node, in whatever state.

    Returns:
        How the shutdown went, see `stop`.

    Raises:
        LabError: something of it is still there.
    """
    how = stop(lab, name)
    with contextlib.suppress(LabError):  # a damaged record names no address to forget
        node = lab.load(name)
        if node:
            forget_host(lab, node)
    mounts.remove_tree(lab.node_dir(name))
    return how


def _supervisor(lab: Lab, name: str) -> Process | None:
    """The living supervisor; a damaged record counts as none, its node is then found by root."""
    with contextlib.suppress(LabError):
        return lab.running(name)
    return None
