# SPDX-License-Identifier: Apache-2.0
"""Mounting a node's file system, and removing directories that may hold mounts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from lab.state import LabError


def parse_mountinfo(text: str) -> list[tuple[str, str]]:
    """Mounts of a `/proc/PID/mountinfo`, see proc(5).

    Args:
        text: the file's text.

    Returns:
        (mount point, file system type) in mount order, octal escapes decoded.
    """
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), before.split()[4])
        mounts.append((point, after.split()[0]))
    return mounts


def mounts_under(path: Path) -> list[str]:
    """Mount points at or below a directory, in mount order."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    top = str(path.resolve())
    return [
        point for point, _ in parse_mountinfo(text) if point == top or point.startswith(f"{top}/")
    ]


def unmount_under(path: Path) -> None:
    """Unmount everything at or below a directory, last mounted first.

    Args:
        path: the directory.

    Raises:
        LabError: something stays mounted.
    """
    for point in reversed(mounts_under(path)):
        done = _run(["umount", "--", point])
        if done.returncode:
            # In use by a process outside the lab (a shell with its working directory there):
            # take it out of the tree now, the kernel frees it with its last user.
            done = _run(["umount", "--lazy", "--", point])
        if done.returncode:
            raise LabError(f"cannot unmount {point}: {done.stderr.strip()}")
    if left := mounts_under(path):
        raise LabError(
            f"still mounted: {', '.join(left)}; find its user with `fuser -vm {left[0]}`"
        )


def remove_tree(path: Path) -> None:
    """Delete a directory, never what is mounted in it.

    Args:
        path: the directory; nothing happens when it does not exist.

    Raises:
        LabError: it cannot be removed.
    """
    if not path.exists() and not path.is_symlink():
        return
    unmount_under(path)
    done = _run(["rm", "-rf", "--one-file-system", "--", str(path)])
    if done.returncode:
        raise LabError(f"cannot remove {path}: {done.stderr.strip()}")


def mount_overlay(node_dir: Path, lower: Path) -> str:
    """Mount a node's changes (upper/) above a base file system at root/.

    Args:
        node_dir: the node's folder; its directories upper, work and root are made when missing.
        lower: the base.

    Returns:
        Empty when mounted, else why this file system cannot hold an overlay.
    """
    for name in ("upper", "work", "root"):
        (node_dir / name).mkdir(exist_ok=True)
    # The options are a comma and colon separated list: short links keep the paths out of it.
    link = node_dir / "lower"
    link.unlink(missing_ok=True)
    link.symlink_to(lower)
    done = subprocess.run(
        [
            *("mount", "-t", "overlay", node_dir.name),
            *("-o", "lowerdir=lower,upperdir=upper,workdir=work", "root"),
        ],
        cwd=node_dir,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""


def is_mounted(path: Path) -> bool:
    """Whether a directory is itself a mount point."""
    return str(path.resolve()) in mounts_under(path)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
