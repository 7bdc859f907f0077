# SPDX-License-Identifier: Apache-2.0
"""What a node is: system, interpreters, memory, disk, packages, files."""

from __future__ import annotations

import grp
import hashlib
import os
import platform
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_PYTHON_MINORS = range(10, 16)
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def parse_os_release(text: str) -> dict[str, str]:
    """Parse /etc/os-release.

    Args:
        text: Its content.

    Returns:
        Its keys in lower case, quotes removed.
    """
    found = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found[key.strip().lower()] = value.strip().strip("\"'")
    return found


def parse_meminfo(text: str) -> dict[str, int]:
    """Parse /proc/meminfo.

    Args:
        text: Its content.

    Returns:
        `total` and `available` in bytes; 0 where the kernel does not say.
    """
    values = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            values[key] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return {"total": values.get("MemTotal", 0), "available": values.get("MemAvailable", 0)}


def parse_dpkg(text: str) -> dict[str, str]:
    r"""Parse `dpkg-query -W -f='${db:Status-Abbrev}\t${Package}\t${Version}\n'`.

    Args:
        text: Its output.

    Returns:
        Installed package to version, held ones among them; packages that were removed but left
        their configuration are not installed.
    """
    found = {}
    for line in text.splitlines():
        status, _, rest = line.partition("\t")
        name, _, version = rest.partition("\t")
        if status[1:2] == "i":  # wanted state first (i, h for hold), then the state it is in
            found[name] = version
    return found


def read_packages(names: Iterable[str]) -> dict[str, str | None]:
    """Versions of Debian packages, None for those that are not installed."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    query = ["dpkg-query", "-W", "-f=${db:Status-Abbrev}\\t${Package}\\t${Version}\\n", *wanted]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return dict.fromkeys(wanted)
    found = parse_dpkg(done.stdout)
    return {name: found.get(name) for name in wanted}


def read_pythons() -> dict[str, str]:
    """Python interpreters on PATH, version to path."""
    found = {}
    for minor in _PYTHON_MINORS:
        path = shutil.which(f"python3.{minor}", path="/usr/local/bin:/usr/bin:/bin")
        if path:
            found[f"3.{minor}"] = path
    return found


def read_disk(path: str) -> dict[str, Any]:
    """Space on the file system that holds a path, or will hold it.

    Args:
        path: It need not exist.

    Returns:
        `path`, `free` and `total` in bytes, and `device`, the same number for the same file
        system.
    """
    place = Path(path)
    while not place.exists():
        place = place.parent
    usage = os.statvfs(place)
    return {
        "path": path,
        "free": usage.f_bavail * usage.f_frsize,
        "total": usage.f_blocks * usage.f_frsize,
        "device": place.stat().st_dev,
    }


def read_file(path: str) -> dict[str, Any]:
    """Digest, mode and owner of a configuration file.

    Args:
        path: The file.

    Returns:
        `exists`, and when it does `kind` (file, folder, link or special file), `sha256` (of a file
        alone), `mode` (as "0640"), `owner`, `group`, `changed_at` (content or attributes, seconds
        since the epoch).
    """
    place = Path(path)
    try:
        status = place.lstat()
        content = place.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        return {"exists": False}
    return {
        "exists": True,
        "kind": _KINDS.get(stat.S_IFMT(status.st_mode), "special file"),
        "sha256": hashlib.sha256(content).hexdigest(),
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "owner": _name(pwd.getpwuid, status.st_uid),
        "group": _name(grp.getgrgid, status.st_gid),
        "changed_at": status.st_ctime,
    }


def _name(lookup: Any, number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def read_system(
    disks: Iterable[str], packages: Iterable[str], commands: Iterable[str]
) -> dict[str, Any]:
    """Read what a node is.

    Args:
        disks: Paths whose file systems matter.
        packages: Debian packages to look up.
        commands: Programs to find on PATH.

    Returns:
        `os` (id, version, codename), `machine`, `kernel`, `glibc`, `pythons`, `memory`,
        `disks` by path, `packages`, `commands`.
    """
    release = parse_os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    return {
        "os": {
            "id": release.get("id", ""),
            "version": release.get("version_id", ""),
            "codename": release.get("version_codename", ""),
        },
        "machine": platform.machine(),
        "kernel": platform.release(),
        "glibc": platform.libc_ver()[1],
        "pythons": read_pythons(),
        "memory": parse_meminfo(Path("/proc/meminfo").read_text(encoding="utf-8")),
        "disks": {path: read_disk(path) for path in sorted(set(disks))},
        "packages": read_packages(packages),
        "commands": {name: shutil.which(name) for name in sorted(set(commands))},
    }
