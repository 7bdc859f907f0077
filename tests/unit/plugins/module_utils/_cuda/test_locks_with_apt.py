# SPDX-License-Identifier: Apache-2.0
"""The locks, judged by the real apt over lists with NVIDIA's names; nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import apt, files, names

from tests import apt_repository

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="a machine without apt")

END = {"debian": "1", "ubuntu": "0ubuntu1"}


class Root:
    """An apt of its own: lists, preferences and package database in a folder."""

    def __init__(self, folder: Path, packages: Iterable[apt_repository.Package]) -> None:
        self.folder = folder
        for part in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "repo"):
            (folder / part).mkdir(parents=True)
        self.status, self.preferences = folder / "state/status", folder / "etc/preferences.d/00-us"
        self.status.write_text("")
        stanzas = [self.stanza(package, Filename="x.deb", Size="1") for package in packages]
        (folder / "repo/Packages").write_text("\n".join(stanzas))
        (folder / "etc/sources.list").write_text(f"deb [trusted=yes] file:{folder}/repo ./\n")
        (folder / "apt.conf").write_text(
            f'Dir "{folder}"; Dir::Etc "etc"; Dir::Etc::parts "-"; Dir::Etc::main "-";\n'
            'Dir::Etc::sourceparts "-"; Dir::State "state"; Dir::State::status "status";\n'
            'Dir::Cache "cache"; Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";\n'
            'APT::Architecture "amd64"; APT::Architectures { "amd64"; };\n'
            'APT::Install-Recommends "false"; Debug::NoLocking "true"; APT::Sandbox::User "";\n'
        )
        self.run("apt-get", "update")

    @staticmethod
    def stanza(package: apt_repository.Package, **more: str) -> str:
        fields = {
            "Package": package.name,
            "Version": package.version,
            "Architecture": package.architecture,
            "Maintainer": "x",
            **package.relations,
            **more,
            "Description": "x",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items())

    def install(self, packages: Iterable[apt_repository.Package]) -> None:
        stanzas = [self.stanza(p, Status="install ok installed") for p in packages]
        self.status.write_text("\n".join(stanzas))

    def run(self, *command: str) -> str:
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "APT_CONFIG": ""}
        environment["APT_CONFIG"] = str(self.folder / "apt.conf")
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def simulate(self, *words: str) -> apt.Simulation:
        options = ("--allow-downgrades", "--allow-change-held-packages")
        return apt.parse_simulation(self.run("apt-get", "-s", "-y", *options, *words))


def driver(system: str, version: str) -> list[apt_repository.Package]:
    make = apt_repository.debian_driver if system == "debian" else apt_repository.ubuntu_driver
    return make(f"{version}-{END[system]}")


@pytest.fixture(params=["debian", "ubuntu"])
def host(request: Any, tmp_path: Path) -> tuple[str, Root]:
    system: str = request.param
    end = END[system]
    packages = [
        *driver(system, "580.95.05"),
        *driver(system, "580.105.08"),
        *driver(system, "590.48.01"),
        apt_repository.pinning("590", end),
    ]
    return system, Root(tmp_path, packages)


@pytest.mark.parametrize("version", ["580.95.05", "580.105.08", "590.48.01"])
def test_the_whole_driver_comes_in_one_version(host: tuple[str, Root], version: str) -> None:
    system, root = host
    full, branch = f"{version}-{END[system]}", names.branch_of(version)
    wanted = names.driver_packages(system, branch)
    available = apt.parse_madison(root.run("apt-cache", "madison", *wanted))
    assert apt.choose_version(available, wanted, branch, version) == full
    root.preferences.write_text(files.preferences(full))
    found = root.simulate("install", *(f"{name}={full}" for name in wanted))
    assert apt.unexpected(found, full, []) == []
    assert set(found.install) == {package.name for package in driver(system, version)}
    assert set(found.install.values()) == {full}


def test_without_the_locks_another_version_would_come(host: tuple[str, Root]) -> None:
    system, root = host
    root.install(driver(system, "580.95.05"))
    moved = {n for n, v in root.simulate("dist-upgrade").install.items() if names.is_driver(n, v)}
    assert moved


def test_no_upgrade_moves_a_locked_driver(host: tuple[str, Root]) -> None:
    system, root = host
    root.install(driver(system, "580.95.05"))
    root.preferences.write_text(files.preferences(f"580.95.05-{END[system]}"))
    for word in ("upgrade", "dist-upgrade"):
        assert root.simulate("--ignore-hold", word) == apt.Simulation({}, [])


@pytest.mark.parametrize(("old", "new"), [("580.95.05", "590.48.01"), ("590.48.01", "580.105.08")])
def test_another_branch_leaves_nothing_behind(host: tuple[str, Root], old: str, new: str) -> None:
    system, root = host
    full = f"{new}-{END[system]}"
    pinned = [apt_repository.pinning("590", END[system])] if old.startswith("590") else []
    root.install([*driver(system, old), *pinned])
    root.preferences.write_text(files.preferences(full))
    wanted = names.driver_packages(system, names.branch_of(new))
    there = {package.name for package in driver(system, new)}
    before = {package.name for package in driver(system, old)}
    move = [f"{name}={full}" for name in sorted(before & there) if name not in wanted]
    go = [f"{name}-" for name in sorted(before - there)] + [f"{p.name}-" for p in pinned]
    found = root.simulate("install", *(f"{name}={full}" for name in wanted), *move, *go)
    assert apt.unexpected(found, full, [name.removesuffix("-") for name in go]) == []
    assert set(found.install) == there
    assert set(found.remove) == (before - there) | {p.name for p in pinned}
