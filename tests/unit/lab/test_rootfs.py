# SPDX-License-Identifier: Apache-2.0
"""Base file systems: their name, and the command that builds them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lab import host, rootfs
from lab.sources import Source
from lab.state import Lab, LabError, Node

BOOKWORM = host.Suite("debian", "bookworm", "x86_64")
JAMMY = host.Suite("ubuntu", "jammy", "x86_64")
APT = host.AptConfig(
    (Source("http://m", "bookworm", ("main",), (("signed-by", "/k.gpg"),)),),
    (("Acquire::http::Proxy", "http://p:1"),),
    ("/k.gpg", "/etc/apt/auth.conf", "/etc/apt/auth.conf.d/m.conf"),
)


def test_jammy_gets_a_python_that_is_new_enough() -> None:
    assert {"python3.11", "python3.11-venv", "python3.11-dev"} <= set(rootfs.packages("jammy"))
    assert "python3.11" not in rootfs.packages("bookworm")


def test_nodes_bring_no_compiler() -> None:
    assert not [p for p in rootfs.packages("noble") if "g++" in p or "build" in p]


def test_the_name_is_stable_and_says_the_suite() -> None:
    assert rootfs.rootfs_name(BOOKWORM) == rootfs.rootfs_name(BOOKWORM)
    assert rootfs.rootfs_name(BOOKWORM).startswith("bookworm-")
    assert len(rootfs.rootfs_name(BOOKWORM)) == len("bookworm-") + 12


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("PACKAGES", ("systemd",)),
        ("MASKED_UNITS", ()),
        ("FILES", {}),
        ("RECIPE", -1),
        ("_DPKG_OPTIONS", ()),
    ],
)
def test_the_name_changes_with_what_is_in_it(
    what: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rootfs.rootfs_name(BOOKWORM)
    monkeypatch.setattr(rootfs, what, value)
    assert rootfs.rootfs_name(BOOKWORM) != before


def test_the_name_changes_with_the_architecture() -> None:
    other = dataclasses.replace(BOOKWORM, architecture="aarch64")
    assert rootfs.rootfs_name(other) != rootfs.rootfs_name(BOOKWORM)


def test_the_build_uses_the_machines_sources_and_dies_with_its_caller() -> None:
    command = rootfs.build_command(Path("/b/root"), BOOKWORM, APT, Path("/b"))
    assert command[:4] == ["setpriv", "--pdeathsig", "KILL", "--"]
    assert "--kill-child=KILL" in command[: command.index("mmdebstrap")]
    assert command[-3:] == ["bookworm", "/b/root", "deb [signed-by=/k.gpg] http://m bookworm main"]
    assert '--aptopt=Acquire::http::Proxy "http://p:1"' in command
    (hook,) = [word for word in command if word.startswith("--setup-hook=")]
    assert "'/etc/apt/auth.conf' '/etc/apt/auth.conf.d/m.conf' \"$1/etc/apt/auth.conf.d/\"" in hook
    assert not [word for word in command if word.startswith("--keyring")]


def test_keys_that_stood_in_sources_are_handed_over() -> None:
    apt = host.AptConfig((Source("http://m", "jammy", ("main",), (), "KEY"),), (), ())
    command = rootfs.build_command(Path("/b/root"), JAMMY, apt, Path("/b"))
    assert "--keyring=/b/keys" in command
    assert not [word for word in command if word.startswith("--setup-hook")]


def test_a_failed_build_is_not_kept_and_shows_the_end_of_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    script = "echo reading; echo no route >&2; exit 25"
    monkeypatch.setattr(rootfs, "build_command", lambda *_: ["sh", "-c", script])
    source = dataclasses.replace(APT.sources[0], origin="/etc/apt/sources.list:3")
    apt = dataclasses.replace(APT, sources=(source,))
    monkeypatch.setattr(host, "this_apt", lambda _: apt)
    with pytest.raises(LabError) as caught:
        rootfs.ensure(lab, BOOKWORM, lambda _: None)
    message = str(caught.value)
    assert "failed (25)" in message
    assert "/etc/apt/sources.list:3" in message
    assert message.endswith("reading\nno route")
    assert not [path for path in lab.rootfs.iterdir() if path.is_dir()]


def test_a_finished_base_is_used_as_it_is(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    target = lab.rootfs / rootfs.rootfs_name(BOOKWORM)
    target.mkdir(parents=True)
    (lab.rootfs / ".building-old").mkdir()
    told: list[str] = []
    assert rootfs.ensure(lab, BOOKWORM, told.append) == target
    assert told == ["removing an interrupted build: .building-old"]
    assert list(lab.rootfs.iterdir()) == [target]


def test_only_bases_that_no_node_stands_on_are_pruned(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for name in ("bookworm-new", "bookworm-used", "bookworm-old"):
        (lab.rootfs / name).mkdir(parents=True)
    lab.node_dir("lab-1").mkdir(parents=True)
    used = str(lab.rootfs / "bookworm-used")
    lab.save(Node("lab-1", "127.120.0.1", 22120, used, "overlay", "m", "0"))
    assert rootfs.prune(lab, lab.rootfs / "bookworm-new") == ["bookworm-old"]
    assert sorted(path.name for path in lab.rootfs.iterdir()) == ["bookworm-new", "bookworm-used"]
