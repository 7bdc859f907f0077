# SPDX-License-Identifier: Apache-2.0
"""Change packages on a node: all of a change or none, and every lock back afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._command import run as run_to_end
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import apt, files, names
from ansible_collections.sm120.sglang.plugins.module_utils._node.cuda import parse_packages

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock")
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    # needrestart would ask, or restart services that are not ours.
    "NEEDRESTART_MODE": "l",
    "NEEDRESTART_SUSPEND": "1",
}
_OPTIONS = (
    *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
    *("-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2"),
)


def lock_holder(paths: Sequence[str] = LOCKS) -> dict[str, Any] | None:
    """Who holds apt's or dpkg's lock.

    Args:
        paths: Lock files.

    Returns:
        `path`, `pid` (0 outside this system's view) and `command`; None when all are free.
    """
    for path in paths:
        try:
            with Path(path).open("rb+") as lock:
                asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, _, _, _, pid = struct.unpack(
                    "hhqqi4x", fcntl.fcntl(lock, fcntl.F_GETLK, asked)
                )
        except OSError:
            continue
        if kind != fcntl.F_UNLCK:
            return {"path": path, "pid": max(pid, 0), "command": _command(pid)}
    return None


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)[:120]


def held_by(holder: Mapping[str, Any]) -> str:
    """The holder of a lock in words."""
    if not holder["pid"]:
        return f"{holder['path']} is held by a process outside this system's view"
    return f"{holder['path']} is held by pid {holder['pid']} ({holder['command'] or 'no command'})"


def wait_unlocked(seconds: float) -> None:
    """Wait until nobody works with apt.

    Raises:
        names.CudaError: Somebody still does; who is in the text.
    """
    deadline = time.monotonic() + seconds
    while (holder := lock_holder()) is not None:
        if time.monotonic() >= deadline:
            raise names.CudaError(
                f"apt is busy, nothing was changed: {held_by(holder)}. Wait for it, then run again"
            )
        time.sleep(1.0)


def run(*command: str) -> tuple[int, str]:
    """Run a command of apt or dpkg; its output is in English."""
    return run_to_end(command, env={**os.environ, **_ENVIRONMENT})


def apt_get(what: str, *words: str) -> str:
    """Run apt-get.

    Args:
        what: What it is for, in case it fails.
        words: Its arguments.

    Returns:
        What it said.

    Raises:
        names.CudaError: It failed.
    """
    code, output = run("apt-get", "--yes", "--quiet", *_OPTIONS, *words)
    if code != 0:
        raise names.CudaError(apt.explain(what, output))
    return output


def repair() -> list[str]:
    """Finish what an interrupted dpkg left.

    Returns:
        The packages that were not complete.

    Raises:
        names.CudaError: They cannot be completed.
    """
    updates = Path("/var/lib/dpkg/updates")
    broken = read_packages()["broken"]
    if not broken and not (updates.is_dir() and any(updates.iterdir())):
        return []
    code, output = run("dpkg", "--configure", "-a")
    if code == 0 and read_packages()["broken"]:
        code, output = run("apt-get", "--yes", "--quiet", *_OPTIONS, "--fix-broken", "install")
    if code != 0:
        raise names.CudaError(
            apt.explain("dpkg was interrupted earlier, and finishing its work failed", output)
        )
    return broken or ["dpkg's journal"]


def read_packages() -> dict[str, Any]:
    """Installed driver packages, holds and broken ones, see `_node.cuda.parse_packages`."""
    code, output = run("dpkg-query", "-W", "-f=${db:Status-Abbrev}\\t${Package}\\t${Version}\\n")
    return parse_packages(output if code == 0 else "")


def update(source: str) -> None:
    """Fetch one repository's package lists, and leave those of all others as they are.

    Raises:
        names.CudaError: It cannot be fetched, or its signature is not by the pinned key.
    """
    code, output = run(
        *("apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=120"),
        *("-o", f"Dir::Etc::sourcelist={source}", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", "APT::Get::List-Cleanup=0", "-o", "Acquire::http::Timeout=20", "update"),
    )
    # apt goes on with old lists when a repository fails, and calls that a success.
    if code != 0 or apt.errors(output):
        raise names.CudaError(apt.explain("the repository's package lists", output))


def available(packages: Sequence[str]) -> dict[str, list[str]]:
    """Versions of packages that apt could install."""
    return apt.parse_madison(run("apt-cache", "madison", *packages)[1])


def check_space(output: str) -> None:
    """Compare what apt announces with what is free.

    Raises:
        names.CudaError: It does not fit.
    """
    download, more = apt.parse_sizes(output)
    for path, need in (("/var/cache/apt/archives", download), ("/usr", more)):
        place = next(p for p in (Path(path), *Path(path).parents) if p.exists())
        free = shutil.disk_usage(place).free
        # DKMS builds beside it, and dpkg keeps old files until the end.
        if free < need * 1.2:
            raise names.CudaError(
                f"not enough space, nothing was changed: {path} has {free / 1e9:.1f} GB free, "
                f"{need * 1.2 / 1e9:.1f} GB are needed"
            )


@contextlib.contextmanager
def kept_file(path: Path, always: bool) -> Iterator[None]:
    """Put a file back as it was when the block fails, or always."""
    before = path.read_bytes() if path.exists() else None
    done = False
    try:
        yield
        done = True
    finally:
        if always or not done:
            if before is None:
                path.unlink(missing_ok=True)
            else:
                write(path, before)


def write(path: Path, content: bytes) -> None:
    """Replace a file in one step; readable by all, as apt's files are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def lifted_holds(held: Sequence[str]) -> Iterator[None]:
    """Lift holds for the block, and hold again whatever of it is still installed."""
    if held:
        run("apt-mark", "unhold", *held)
    try:
        yield
    finally:
        still = set(read_packages()["driver"])
        hold([name for name in held if name in still])


def hold(packages: Sequence[str]) -> None:
    """Hold packages.

    Raises:
        names.CudaError: apt-mark refuses.
    """
    if packages:
        code, output = run("apt-mark", "hold", *packages)
        if code != 0:
            raise names.CudaError(apt.explain("holding the driver's packages", output))


def install_driver(asked: Mapping[str, Any], check: bool) -> dict[str, Any]:
    """Install or move the driver, and lock it.

    Everything that can be refused is refused before dpkg starts: version, downgrade, what else
    would change, space, and the download.

    Args:
        asked: `packages`, `extra`, `version`, `branch`, `pinning`, `remove`, `allow_downgrade`.
        check: Only say what would happen.

    Returns:
        `version`, `installed`, `removed` and `repaired`.

    Raises:
        names.CudaError: It is refused, or failed; locks are as they were.
    """
    packages = list(asked["packages"])
    pinning = [asked["pinning"]] if asked["pinning"] else []
    have = available([*packages, *pinning, *asked["extra"]])
    version = apt.choose_version(have, packages, asked["branch"], asked["version"])
    absent = [name for name in [*pinning, *asked["extra"]] if name not in have]
    if absent:
        raise names.CudaError(
            f"no repository has {', '.join(absent)}; "
            + (
                "boot a kernel of the distribution, whose headers DKMS needs to build the module"
                if set(absent) & set(asked["extra"])
                else "the mirror is not complete"
            )
        )
    before = read_packages()
    newer = [
        f"{name} {old}"
        for name, old in before["driver"].items()
        if names.version_key(names.upstream(old)) > names.version_key(names.upstream(version))
    ]
    if newer and not asked["allow_downgrade"]:
        raise names.CudaError(
            f"{version} is older than what is installed ({', '.join(newer[:3])}); allow it with "
            "-e '{\"cuda_stack_allow_downgrade\": true}'"
        )
    move, go = _others(before, packages, version)
    go += asked["remove"]
    words = [*_exact(packages, version), *asked["extra"], *move, *(f"{name}-" for name in go)]
    preferences = Path(files.PREFERENCES)
    with kept_file(preferences, always=check):
        write(preferences, files.preferences(version).encode())
        flags = ("--allow-downgrades", "--allow-change-held-packages", "--no-install-recommends")
        said = apt_get("trying the change", "--simulate", *flags, "install", *pinning, *words)
        seen = apt.parse_simulation(said)
        wrong = apt.unexpected(seen, version, go)
        if wrong:
            raise names.CudaError(
                f"driver {version} would bring more than itself: {'; '.join(wrong[:4])}"
            )
        result = {"version": version, "installed": seen.install, "removed": seen.remove}
        if check:
            return result
        _, announced = run(
            *("apt-get", "--assume-no", *_OPTIONS, *flags, "install", *pinning, *words)
        )
        check_space(announced)
        apt_get("downloading the driver", "--download-only", *flags, "install", *pinning, *words)
        with lifted_holds(before["held"]):
            if pinning:
                switched = [f"{name}-" for name in asked["remove"]]
                apt_get("the pinning package", *flags, "install", *pinning, *switched)
            apt_get("installing the driver", *flags, "install", *words)
        after = read_packages()["driver"]
        other = {n: v for n, v in after.items() if names.upstream(v) != names.upstream(version)}
        if other:
            raise names.CudaError(
                f"driver {version} is installed, but beside it "
                + ", ".join(f"{name} {old}" for name, old in sorted(other.items()))
            )
    hold(sorted(after))
    return result


def _exact(packages: Sequence[str], version: str) -> list[str]:
    return [f"{name}={version}" for name in packages]


def _others(
    before: Mapping[str, Any], packages: Sequence[str], version: str
) -> tuple[list[str], list[str]]:
    """Decide on the driver's further packages: those to move along, and those that have to go.

    A package that the new driver does not have (Ubuntu's names of another branch, say) would stay
    behind with the old version, and programs would load it.
    """
    names_left = [name for name in before["driver"] if name not in packages]
    have = available(names_left) if names_left else {}
    move, go = [], []
    for name in sorted(names_left):
        own = names.upstream(version)
        same = [v for v in have.get(name, ()) if names.upstream(v) == own]
        exact = [v for v in same if v == version] or same
        if exact:
            move.append(f"{name}={exact[0]}")
        else:
            go.append(name)
    return move, go
