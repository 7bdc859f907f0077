# SPDX-License-Identifier: Apache-2.0
"""This machine: which distribution, which tools, which rights, which APT configuration."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab import sources
from lab.state import REPOSITORY, LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# suite -> distribution; the releases that the product supports on nodes.
SUITES = {"bookworm": "debian", "trixie": "debian", "jammy": "ubuntu", "noble": "ubuntu"}
# package -> a command that it brings.
PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "openssh-client": "ssh-keygen",
    "iproute2": "ss",
    "util-linux": "unshare",
}
_INSTALL_SECONDS = 600
# sudo drops these even with -E where its policy says so.
_PASSED_ON = ("LAB_", "http_proxy", "https_proxy", "no_proxy", "PATH")


@dataclass(frozen=True)
class Suite:
    """A distribution release that this machine runs and nodes get."""

    distribution: str
    codename: str
    architecture: str


def suite(os_release: Mapping[str, str], machine: str) -> Suite:
    """Decide which release nodes get: the machine's own.

    Args:
        os_release: fields of /etc/os-release.
        machine: `uname -m`.

    Returns:
        The release.

    Raises:
        LabError: the machine runs something else than the supported releases.
    """
    codename = os_release.get("VERSION_CODENAME", "")
    distribution = os_release.get("ID", "")
    if SUITES.get(codename) != distribution:
        name = os_release.get("PRETTY_NAME") or f"{distribution} {codename}".strip() or "unknown"
        raise LabError(
            f"/etc/os-release says {name!r}; the lab runs on Debian 12 (bookworm), "
            "Debian 13 (trixie), Ubuntu 22.04 (jammy) and Ubuntu 24.04 (noble). "
            "On another machine, point the playbooks at a real node with -i"
        )
    return Suite(distribution, codename, machine)


def this_suite() -> Suite:
    """The release of this machine.

    Raises:
        LabError: it is not supported, or unknown.
    """
    path = Path("/etc/os-release")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return suite(sources.parse_os_release(text), platform.machine())


def missing_packages(find: Callable[[str], str | None]) -> list[str]:
    """Packages whose command is not there.

    Args:
        find: gives the path of a command or None.

    Returns:
        Package names.
    """
    return [package for package, command in PACKAGES.items() if not find(command)]


def find_command(name: str) -> str | None:
    """Path of a command, also when PATH lacks the system administrator's folders."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin")


def install_command(packages: Iterable[str]) -> str:
    """The command line that a person would run to install packages."""
    return f"sudo apt-get update && sudo apt-get install -y {' '.join(packages)}"


def ensure_packages(tell: Callable[[str], None], environ: Mapping[str, str]) -> None:
    """Install what the lab needs on this machine, when missing and allowed. Needs root.

    Args:
        tell: called with one line per step.
        environ: environment; `LAB_INSTALL_PACKAGES=0` forbids installing.

    Raises:
        LabError: packages are missing and may not be or cannot be installed.
    """
    missing = missing_packages(find_command)
    if not missing:
        return
    command = install_command(missing)
    if environ.get("LAB_INSTALL_PACKAGES", "1") == "0":
        raise LabError(
            f"missing packages: {', '.join(missing)}; "
            f"LAB_INSTALL_PACKAGES=0 forbids installing them. Run: {command}"
        )
    tell(f"installing {' '.join(missing)}")
    for step in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", "-q", *step],
            env={**environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-8:])
            raise LabError(f"apt-get {step[0]} failed. Run it yourself: {command}\n{tail}")
    if still := missing_packages(find_command):
        raise LabError(f"installed, but still no command of: {', '.join(still)}")


def sudo_command(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command line that runs the lab again as root.

    Args:
        arguments: what follows `python -m lab`.
        environ: environment to take settings from.

    Returns:
        An argument list for exec.
    """
    settings = [f"{k}={v}" for k, v in sorted(environ.items()) if k.startswith(_PASSED_ON)]
    python = ["env", *settings, f"PYTHONPATH={REPOSITORY}", sys.executable]
    return ["sudo", "-n", "-E", *python, "-m", "lab", *arguments]


def become_root(arguments: Sequence[str]) -> None:
    """Go on as root: return when that is so already, else start again through sudo.

    Args:
        arguments: what follows `python -m lab`.

    Raises:
        LabError: neither root nor sudo without a password.
    """
    if os.geteuid() == 0:
        return
    allowed = (
        find_command("sudo")
        and not subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode
    )
    if not allowed:
        raise LabError(
            "booting nodes needs root, and sudo asks for a password here. "
            f"Run: sudo -E env PYTHONPATH={REPOSITORY} {sys.executable} "
            f"-m lab {' '.join(arguments)}"
        )
    command = sudo_command(arguments, os.environ)
    os.execvp(command[0], command)  # noqa: S606 - replaces this process, no shell meant


@dataclass(frozen=True)
class AptConfig:
    """What a node needs to install from where this machine does.

    Attributes:
        sources: the distribution's package sources.
        settings: APT settings (proxies, TLS, validity).
        files: files to copy to the same path: keyrings, credentials, certificates.
    """

    sources: tuple[sources.Source, ...]
    settings: tuple[tuple[str, str], ...]
    files: tuple[str, ...]


def read_apt(release: Suite, etc_apt: Path, dump: str, environ: Mapping[str, str]) -> AptConfig:
    """Read this machine's APT configuration.

    Args:
        release: the machine's release.
        etc_apt: its /etc/apt.
        dump: output of `apt-config dump`.
        environ: environment, for proxies.

    Returns:
        The part of it that nodes need.

    Raises:
        LabError: no package source of the distribution.
    """
    every = sources.read_sources(etc_apt)
    lists = {path for source in every if (path := sources.mirror_list(source.uri))}
    mirrors = {p: Path(p).read_text(encoding="utf-8") for p in lists if Path(p).is_file()}
    chosen = sources.of_distribution(every, release.distribution, release.codename, mirrors)
    pairs = sources.settings(dump, environ)
    rings = sorted((etc_apt / "trusted.gpg.d").glob("*"))
    trusted = [etc_apt / "trusted.gpg", *(p for p in rings if p.suffix in {".asc", ".gpg"})]
    secrets = [etc_apt / "auth.conf", *sorted((etc_apt / "auth.conf.d").glob("*.conf"))]
    files = [
        *(ring for source in chosen for ring in source.keyrings),
        *(str(path) for path in (*trusted, *secrets)),
        *sources.settings_files(pairs),
    ]
    present = dict.fromkeys(path for path in files if Path(path).is_file())
    return AptConfig(tuple(chosen), tuple(pairs), tuple(present))


def this_apt(release: Suite) -> AptConfig:
    """This machine's APT configuration, see `read_apt`."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    return read_apt(release, Path("/etc/apt"), dump, os.environ)


def local_certificates() -> list[Path]:
    """Certificates that this machine's administrator added to its trust store."""
    folder = Path("/usr/local/share/ca-certificates")
    return sorted(folder.rglob("*.crt")) if folder.is_dir() else []
