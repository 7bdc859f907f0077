# SPDX-License-Identifier: Apache-2.0
"""Base file systems: the machine's own distribution, built once, shared by every node."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab import host, mounts
from lab.state import SSH_USER, Lab, LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Raised when the recipe below changes in a way that the package list does not show.
RECIPE = 1
PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "python3-venv",
    "sudo",
    "systemd",
    "systemd-sysv",
)
# The engine needs Python 3.11 or newer; jammy's own is 3.10.
EXTRA_PACKAGES = {"jammy": ("python3.11", "python3.11-dev", "python3.11-venv")}
BUILD_SECONDS = 900
_BUILDING = ".building-"

# The network, names and clock are this machine's; there is no console to log in at; nothing may
# take APT's lock by itself; /tmp lies on disk, because an install needs more than a share of RAM.
MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "container-getty@.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty.target",
    "motd-news.timer",
    "ssh.socket",
    "systemd-networkd-wait-online.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-pstore.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
    "tmp.mount",
)
# path -> (content, mode)
FILES = {
    f"/etc/sudoers.d/{SSH_USER}": (f"{SSH_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440),
    # A fifth of the first `apt-get update` would be translations of package descriptions.
    "/etc/apt/apt.conf.d/70lab-base": ('Acquire::Languages "none";\n', 0o644),
    "/etc/default/locale": ("LANG=C.UTF-8\n", 0o644),
    # Half of the memory, as on a host of its own; systemd-nspawn alone gives a tenth.
    "/etc/fstab": ("tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=50% 0 0\n", 0o644),
    "/etc/systemd/journald.conf.d/lab.conf": (
        "[Journal]\nStorage=persistent\nSystemMaxUse=100M\n",
        0o644,
    ),
}
_DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/locale/*",
)


def packages(codename: str) -> list[str]:
    """Packages of a base file system, sorted."""
    return sorted({*PACKAGES, *EXTRA_PACKAGES.get(codename, ())})


def rootfs_name(release: host.Suite) -> str:
    """Name of the base file system for a release: another content gets another name."""
    content = {
        "architecture": release.architecture,
        "distribution": release.distribution,
        "dpkg": _DPKG_OPTIONS,
        "files": FILES,
        "masked": MASKED_UNITS,
        "packages": packages(release.codename),
        "recipe": RECIPE,
    }
    text = json.dumps(content, sort_keys=True)
    return f"{release.codename}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def ensure(lab: Lab, release: host.Suite, tell: Callable[[str], None]) -> Path:
    """The base file system for a release; built when it is not there. Needs root and the lock.

    It is built under a temporary name and renamed when whole, so what an interrupted build left
    is never used; it is removed here.

    Args:
        lab: where.
        release: which.
        tell: called with one line per step.

    Returns:
        Its directory.

    Raises:
        LabError: the build failed; the last lines of its output are in the text.
    """
    lab.rootfs.mkdir(parents=True, exist_ok=True)
    for leftover in leftovers(lab):
        tell(f"removing an interrupted build: {leftover.name}")
        mounts.remove_tree(leftover)
    target = lab.rootfs / rootfs_name(release)
    if not target.is_dir():
        tell(f"building the base file system {target.name} (once; about a minute)")
        building = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{target.name}-", dir=lab.rootfs))
        try:
            _build(building, release, host.this_apt(release))
            (building / "root").rename(target)
        finally:
            mounts.remove_tree(building)
    return target


def leftovers(lab: Lab) -> list[Path]:
    """What interrupted builds left."""
    return sorted(lab.rootfs.glob(f"{_BUILDING}*"))


def prune(lab: Lab, keep: Path) -> list[str]:
    """Remove base file systems that no node stands on. Needs root and the lock.

    Args:
        lab: where.
        keep: one that stays in any case.

    Returns:
        Names of those removed.
    """
    used = {str(keep), *(node.rootfs for node in lab.nodes_recorded())}
    gone = []
    for path in sorted(lab.rootfs.iterdir()):
        if path.is_dir() and str(path) not in used:
            mounts.remove_tree(path)
            gone.append(path.name)
    return gone


def build_command(
    root: Path, release: host.Suite, apt: host.AptConfig, work: Path, inner: Sequence[str] = ()
) -> list[str]:
    """The command that builds a base file system.

    It runs in a process id and mount namespace of its own that dies with the caller, so that an
    interrupted build leaves neither processes nor mounts.

    Args:
        root: directory to build; must not exist.
        release: which distribution release.
        apt: package sources and settings.
        work: existing folder for files that the build reads.
        inner: further arguments of mmdebstrap.

    Returns:
        An argument list.
    """
    isolated = [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--"),
    ]
    options = [
        "--mode=root",
        "--variant=apt",
        f"--include={','.join(packages(release.codename))}",
        *(f"--dpkgopt={option}" for option in _DPKG_OPTIONS),
        *(f'--aptopt={key} "{value}"' for key, value in apt.settings),
        *inner,
    ]
    if any(source.key for source in apt.sources):
        options.append(f"--keyring={work / 'keys'}")
    secrets = [path for path in apt.files if path.startswith("/etc/apt/auth.conf")]
    if secrets:
        quoted = " ".join(f"'{path}'" for path in secrets)
        options.append(
            f'--setup-hook=mkdir -p "$1/etc/apt/auth.conf.d" && '
            f'cp --preserve=mode {quoted} "$1/etc/apt/auth.conf.d/"'
        )
    lines = [source.one_line() for source in apt.sources]
    return [*isolated, "mmdebstrap", *options, release.codename, str(root), *lines]


def _build(building: Path, release: host.Suite, apt: host.AptConfig) -> None:
    root, keys = building / "root", building / "keys"
    _write_keys(keys, apt)
    command = build_command(root, release, apt, building)
    log = building.parent / f"{rootfs_name(release)}.log"
    with log.open("w", encoding="utf-8") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=BUILD_SECONDS,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"mmdebstrap did not end within {BUILD_SECONDS} s; see {log}") from error
    if done.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        tail = "\n".join(text.splitlines()[-12:])
        used = ", ".join(sorted({source.origin for source in apt.sources}))
        raise LabError(
            f"mmdebstrap failed ({done.returncode}) with the package sources of {used}; "
            f"check that `apt-get update` works on this machine. Whole output: {log}\n{tail}"
        )
    _finish(root)


def _write_keys(folder: Path, apt: host.AptConfig) -> None:
    """Keys that stood in the sources files, and the machine's own keyrings beside them.

    mmdebstrap takes one folder of trusted keys in place of the machine's.
    """
    folder.mkdir()
    for number, source in enumerate(apt.sources):
        if source.key:
            (folder / f"source-{number}.asc").write_text(source.key, encoding="utf-8")
    for path in apt.files:
        if path.startswith("/etc/apt/trusted.gpg"):
            shutil.copy(path, folder)


def _finish(root: Path) -> None:
    """Turn a plain installation into a lab node's base; no machine's identity stays in it."""
    # Debian and Ubuntu have a system group of that name, and its home is no home.
    in_root(
        root, ["useradd", "--create-home", "--gid", "operator", "--shell", "/bin/bash", SSH_USER]
    )
    # Ubuntu starts sshd by socket, and its service then requires that socket.
    in_root(root, ["systemctl", "--quiet", "disable", "ssh.socket"])
    in_root(root, ["systemctl", "--quiet", "enable", "ssh.service"])
    units = root / "etc/systemd/system"
    for unit in MASKED_UNITS:
        _link(units / unit, "/dev/null")
    # systemd 256 and newer open further ways in for SSH.
    _link(root / "etc/systemd/system-generators/systemd-ssh-generator", "/dev/null")
    for path, (content, mode) in FILES.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        file.chmod(mode)
    (root / "var/log/journal").mkdir(parents=True, exist_ok=True)
    leftovers = [
        *(root / "etc/ssh").glob("ssh_host_*"),
        *(root / "etc/apt/sources.list.d").iterdir(),
        *(root / "etc/apt/auth.conf.d").glob("*"),
        *(root / name for name in ("etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap")),
        *(root / name for name in ("etc/machine-id", "etc/resolv.conf", "var/lib/dbus/machine-id")),
    ]
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def in_root(root: Path, command: Sequence[str]) -> None:
    """Run a command inside a file system that is not booted. Needs root.

    Args:
        root: the file system.
        command: argument list.

    Raises:
        LabError: it failed.
    """
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", "--", "chroot", str(root), *command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"{command[0]} failed in {root}: {(done.stderr or done.stdout).strip()}")
