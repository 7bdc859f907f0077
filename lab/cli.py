# SPDX-License-Identifier: Apache-2.0
"""Command line of the lab: `python -m lab up | down | status | ssh | kill | host-packages`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import host, mounts, node, personal, rootfs, ssh
from lab.state import (
    Lab,
    LabError,
    check_count,
    node_count,
    node_index,
    node_name,
    state_dir,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.state import Node

# Everything that any part of the lab keeps in its folder; `down --purge` removes nothing else.
STATE_ENTRIES = ("nodes", "rootfs", "ssh", "models", "secrets", "wheelhouse", "wheels", "lock")


def tell(line: str) -> None:
    """Say one line to the person who waits."""
    print(f"lab: {line}", flush=True)


def up(lab: Lab, count: int, arguments: Sequence[str], base: Path | None = None) -> int:
    """Bring up lab-1 to lab-N; nodes beyond N are left as they are.

    Args:
        lab: which lab.
        count: N.
        arguments: the command line, to go on as root when there is something to do.
        base: file system that new nodes share; the lab's own when left out.

    Returns:
        Exit status.

    Raises:
        LabError: a node does not come up, or there is no such file system.
    """
    names = [node_name(index) for index in range(1, count + 1)]
    if all(_serves(lab, name) for name in names):
        for name in names:
            tell(_line(lab, name, "already up"))
        return 0
    if base is not None and not (base / "etc/os-release").exists():
        raise LabError(f"{base} is no file system of a machine; it has no etc/os-release")
    host.become_root(arguments)
    host.ensure_packages(tell, os.environ)
    with lab.lock(tell):
        _bring_up(lab, names, base)
    return 0


def _serves(lab: Lab, name: str) -> bool:
    record = lab.load(name)
    return record is not None and lab.ready(name) and ssh.banner(record, timeout=1.0)


def _bring_up(lab: Lab, names: Sequence[str], given: Path | None) -> None:
    begin = time.monotonic()
    release = host.this_suite()
    ssh.ensure_key(lab.key, "sglang-lab")
    apt = host.this_apt(release)
    new = {name for name in names if lab.load(name) is None}
    base = given or (rootfs.ensure(lab, release, tell) if new else lab.rootfs)
    started, waiting = [], []
    for name in names:
        if not lab.running(name):
            # What a killed supervisor left must be gone before its files are mounted anew.
            node.cut_off(lab, name)
            record = node.make(lab, name, base)
            if name in new and record.storage == "copy":
                tell(f"{name}: no overlay on this file system, copied the base instead")
            personal.apply(lab, record, node.root_of(lab, name), apt)
            node.boot(lab, record)
            started.append(name)
        elif not _serves(lab, name):
            waiting.append(name)
    for name in (*started, *waiting):
        record = _recorded(lab, name)
        node.wait_ready(lab, record, time.monotonic() + node.BOOT_SECONDS, tell)
    for name in names:
        how = "new" if name in new else "booted again" if name in started else "already up"
        tell(_line(lab, name, how))
    if new and given is None:
        for old in rootfs.prune(lab, base):
            tell(f"removed the old base file system {old}")
    tell(f"ready after {time.monotonic() - begin:.1f} s")


def _line(lab: Lab, name: str, how: str) -> str:
    record = _recorded(lab, name)
    return f"{name} {record.address}:{record.port} {how}"


def _recorded(lab: Lab, name: str) -> Node:
    node_index(name)
    record = lab.load(name)
    if record is None:
        known = ", ".join(lab.node_names()) or "none"
        raise LabError(f"no node {name} (nodes: {known}); bring it up with `python -m lab up`")
    return record


def down(lab: Lab, names: Sequence[str], purge: bool, arguments: Sequence[str]) -> int:
    """Shut nodes down and remove them; the base file system and the key stay.

    Args:
        lab: which lab.
        names: nodes; all of them when empty.
        purge: remove everything else in the lab's folder too.
        arguments: the command line, to go on as root when there is something to do.

    Returns:
        Exit status.

    Raises:
        LabError: a process or mount of a node cannot be removed.
    """
    if purge and names:
        raise LabError("--purge removes the whole lab; leave out the node names")
    for name in names:
        node_index(name)
    if not lab.path.is_dir() or not (purge or lab.node_names() or _half_built(lab)):
        tell("nothing to take down")
        return 0
    host.become_root(arguments)
    with lab.lock(tell):
        for name in names or lab.node_names():
            tell(f"{name} {node.remove(lab, name)}, removed")
        if not names:
            for leftover in rootfs.leftovers(lab):
                mounts.remove_tree(leftover)
        if lab.nodes.is_dir() and not lab.node_names():
            mounts.remove_tree(lab.nodes)
        if purge:
            _purge(lab)
    return 0


def _half_built(lab: Lab) -> bool:
    return lab.nodes.is_dir() or bool(rootfs.leftovers(lab))


def _purge(lab: Lab) -> None:
    for entry in STATE_ENTRIES:
        path = lab.path / entry
        if path.is_dir() and not path.is_symlink():
            mounts.remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    if any(lab.path.iterdir()):
        tell(f"left {lab.path}: it holds files that are not the lab's")
    else:
        lab.path.rmdir()
        tell(f"removed {lab.path}")


def status_rows(lab: Lab) -> list[dict[str, Any]]:
    """State of every recorded node.

    Returns:
        One dict per node: name, address, port, running, pid (None when not running), rootfs.
    """
    rows = []
    for record in lab.nodes_recorded():
        process = lab.running(record.name)
        rows.append(
            {
                "name": record.name,
                "address": record.address,
                "port": record.port,
                "running": process is not None,
                "pid": process.pid if process else None,
                "rootfs": record.rootfs,
            }
        )
    return rows


def status(lab: Lab, as_json: bool) -> int:
    """Print the state of every node.

    Args:
        lab: which lab.
        as_json: for programs.

    Returns:
        Exit status.
    """
    rows = status_rows(lab)
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print("no nodes; bring one up with `python -m lab up`")
    for row in rows if not as_json else []:
        how = f"running (process {row['pid']})" if row["running"] else "not running"
        print(f"{row['name']:8} {row['address']}:{row['port']}  {how}")
    return 0


def open_ssh(lab: Lab, name: str, command: Sequence[str]) -> int:
    """Become ssh to a node.

    Args:
        lab: which lab.
        name: the node.
        command: what to run there; a shell when empty.

    Returns:
        Exit status, when ssh could not be started.
    """
    record = _recorded(lab, name)
    if not lab.running(name):
        raise LabError(f"{name} does not run; bring it up with `python -m lab up`")
    line = [*ssh.ssh_command(lab, record, batch=not sys.stdin.isatty()), *command]
    os.execvp(line[0], line)  # noqa: S606 - replaces this process, no shell meant


def kill(lab: Lab, name: str, arguments: Sequence[str]) -> int:
    """Cut a node's power; its files stay, and `up` brings it back.

    Args:
        lab: which lab.
        name: the node.
        arguments: the command line, to go on as root.

    Returns:
        Exit status.
    """
    _recorded(lab, name)
    host.become_root(arguments)
    with lab.lock(tell):
        node.cut_off(lab, name)
    tell(f"{name} cut off")
    return 0


def host_packages(install: bool, arguments: Sequence[str]) -> int:
    """Say which packages of this machine the lab lacks, or install them.

    Args:
        install: install them.
        arguments: the command line, to go on as root.

    Returns:
        Exit status: 1 when some are missing and were not installed.
    """
    missing = host.missing_packages(host.find_command)
    if not missing:
        tell("all packages present")
        return 0
    if not install:
        tell(f"missing packages: {' '.join(missing)}. Run: {host.install_command(missing)}")
        return 1
    host.become_root(arguments)
    host.ensure_packages(tell, os.environ)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = commands.add_parser(
        "up", help="bring up nodes lab-1 to lab-N; running ones are left alone"
    )
    add.add_argument("--nodes", type=int, metavar="N", help="default: LAB_NODES, else 1")
    add.add_argument(
        "--base",
        type=Path,
        metavar="DIR",
        help="file system that new nodes share, such as another node's; default: the lab's own",
    )
    add = commands.add_parser("down", help="shut nodes down and remove them")
    add.add_argument("nodes", nargs="*", metavar="NODE", help="default: all")
    add.add_argument("--purge", action="store_true", help="also the base file system and the key")
    add = commands.add_parser("status", help="list nodes")
    add.add_argument("--json", action="store_true", help="for programs")
    add = commands.add_parser("ssh", help="open a node: ssh [NODE] [-- COMMAND ...]")
    add.add_argument("node", nargs="?", default="lab-1", metavar="NODE", help="default: lab-1")
    add = commands.add_parser("kill", help="cut a node's power, for fault tests")
    add.add_argument("node", metavar="NODE")
    add = commands.add_parser("host-packages", help="packages that the lab needs on this machine")
    add.add_argument("--install", action="store_true", help="install those missing")
    return top


def _run(options: argparse.Namespace, arguments: Sequence[str], remote: Sequence[str]) -> int:
    lab = Lab(state_dir())
    commands: dict[str, Callable[[], int]] = {
        "up": lambda: up(lab, _count(options.nodes), arguments, options.base),
        "down": lambda: down(lab, options.nodes, options.purge, arguments),
        "status": lambda: status(lab, options.json),
        "ssh": lambda: open_ssh(lab, options.node, remote),
        "kill": lambda: kill(lab, options.node, arguments),
        "host-packages": lambda: host_packages(options.install, arguments),
    }
    return commands[options.command]()


def _count(wanted: int | None) -> int:
    return node_count() if wanted is None else check_count(wanted)


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: what follows `python -m lab`.

    Returns:
        Exit status: 0 done, 1 could not, 2 not understood.
    """
    own, remote = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, remote = own[:cut], own[cut + 1 :]
    options = parser().parse_args(own)
    if remote and options.command != "ssh":
        parser().error("only ssh takes a command after --")
    try:
        return _run(options, arguments, remote)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
