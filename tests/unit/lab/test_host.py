# SPDX-License-Identifier: Apache-2.0
"""What the lab finds out about the machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from lab import host
from lab.state import REPOSITORY, LabError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("identity", "codename"),
    [("debian", "bookworm"), ("debian", "trixie"), ("ubuntu", "jammy"), ("ubuntu", "noble")],
)
def test_supported_suites(identity: str, codename: str) -> None:
    found = host.suite({"ID": identity, "VERSION_CODENAME": codename}, "x86_64")
    assert found == host.Suite(identity, codename, "x86_64")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"ID": "debian", "VERSION_CODENAME": "bullseye"}, "debian bullseye"),
        ({"ID": "linuxmint", "VERSION_CODENAME": "noble", "PRETTY_NAME": "Mint 22"}, "Mint 22"),
        ({"ID": "fedora"}, "fedora"),
        ({}, "unknown"),
    ],
)
def test_other_machines_are_refused_by_name(fields: dict[str, str], named: str) -> None:
    with pytest.raises(LabError) as caught:
        host.suite(fields, "x86_64")
    assert repr(named) in str(caught.value)
    assert "Ubuntu 24.04" in str(caught.value)


def test_missing_packages_are_those_whose_command_is_not_found() -> None:
    there = {"ssh-keygen", "ss", "unshare"}
    missing = host.missing_packages(lambda name: name if name in there else None)
    assert missing == ["mmdebstrap", "systemd-container"]
    assert host.missing_packages(lambda name: name) == []


def test_missing_packages_are_an_error_where_installing_is_forbidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(host.PACKAGES, "no-such-package", "no-such-command")
    with pytest.raises(LabError) as caught:
        host.ensure_packages(pytest.fail, {"LAB_INSTALL_PACKAGES": "0"})
    assert "sudo apt-get update && sudo apt-get install -y no-such-package" in str(caught.value)


def test_nothing_is_installed_when_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "PACKAGES", {"coreutils": "ls"})
    host.ensure_packages(pytest.fail, {"LAB_INSTALL_PACKAGES": "0"})


def test_commands_of_the_administrator_are_found_without_their_folder_in_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert host.find_command("useradd")
    assert host.find_command("no-such-command") is None


def test_sudo_hands_on_the_labs_settings_and_the_command() -> None:
    environ = {"LAB_STATE": "/s t", "http_proxy": "http://p", "HOME": "/h", "PATH": "/bin"}
    command = host.sudo_command(["up", "--nodes", "2"], environ)
    assert command[:4] == ["sudo", "-n", "-E", "env"]
    assert command[-6:] == [sys.executable, "-m", "lab", "up", "--nodes", "2"]
    settings = command[4:-6]
    assert settings == [
        "LAB_STATE=/s t",
        "PATH=/bin",
        "http_proxy=http://p",
        f"PYTHONPATH={REPOSITORY}",
    ]


def test_without_sudo_the_command_to_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(host, "find_command", lambda _: None)
    with pytest.raises(LabError, match=r"Run: sudo -E env PYTHONPATH=.* -m lab down --purge$"):
        host.become_root(["down", "--purge"])


@pytest.fixture
def etc_apt(tmp_path: Path) -> Path:
    folder = tmp_path / "apt"
    for name in ("sources.list.d", "trusted.gpg.d", "auth.conf.d", "keyrings"):
        (folder / name).mkdir(parents=True)
    ring = folder / "keyrings" / "own.gpg"
    (folder / "sources.list.d" / "os.sources").write_text(
        f"Types: deb\nURIs: http://m\nSuites: trixie\nComponents: main\nSigned-By: {ring}\n"
    )
    for name in ("keyrings/own.gpg", "keyrings/vendor.gpg", "trusted.gpg.d/a.asc"):
        (folder / name).touch()
    for name in ("trusted.gpg.d/notes.txt", "auth.conf", "auth.conf.d/m.conf", "auth.conf.d/old"):
        (folder / name).touch()
    return folder


def test_apt_configuration_names_the_files_that_nodes_need(etc_apt: Path) -> None:
    ca = etc_apt / "ca.pem"
    ca.touch()
    dump = f'Acquire::https::CAInfo "{ca}";\nAcquire::https::SslKey "{etc_apt}/missing.pem";\n'
    found = host.read_apt(host.Suite("debian", "trixie", "x86_64"), etc_apt, dump, {})
    assert [source.uri for source in found.sources] == ["http://m"]
    assert [path.removeprefix(f"{etc_apt}/") for path in found.files] == [
        "keyrings/own.gpg",
        "trusted.gpg.d/a.asc",
        "auth.conf",
        "auth.conf.d/m.conf",
        "ca.pem",
    ]


def test_apt_configuration_reads_mirror_lists(etc_apt: Path) -> None:
    mirrors = etc_apt / "mirrors.txt"
    mirrors.write_text("http://near\n")
    file = etc_apt / "sources.list.d" / "os.sources"
    file.write_text(file.read_text().replace("http://m", f"mirror+file:{mirrors}"))
    found = host.read_apt(host.Suite("debian", "trixie", "x86_64"), etc_apt, "", {})
    assert [source.uri for source in found.sources] == ["http://near"]
