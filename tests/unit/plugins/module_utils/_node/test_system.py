# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import grp
import hashlib
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import system

RECORDINGS = Path(__file__).parents[4] / "recordings/node"


@pytest.mark.parametrize(
    ("recording", "name", "version", "codename"),
    [
        ("debian-12", "debian", "12", "bookworm"),
        ("debian-13", "debian", "13", "trixie"),
        ("ubuntu-22.04", "ubuntu", "22.04", "jammy"),
        ("ubuntu-24.04", "ubuntu", "24.04", "noble"),
    ],
)
def test_supported_systems_are_recognised(
    recording: str, name: str, version: str, codename: str
) -> None:
    found = system.parse_os_release((RECORDINGS / f"os-release/{recording}.txt").read_text())
    assert (found["id"], found["version_id"], found["version_codename"]) == (
        name,
        version,
        codename,
    )


def test_os_release_syntax() -> None:
    text = "# ID=comment\n\nID='quoted'\nNAME=\"two words\"\nEMPTY=\nno separator\nURL=a=b\n"
    assert system.parse_os_release(text) == {
        "id": "quoted",
        "name": "two words",
        "empty": "",
        "url": "a=b",
    }


def test_meminfo_is_read_in_bytes() -> None:
    found = system.parse_meminfo((RECORDINGS / "proc/meminfo.txt").read_text())
    assert found == {"total": 24684092 * 1024, "available": 19455536 * 1024}


@pytest.mark.parametrize("text", ["", "garbage\n", "MemTotal:\n", "MemTotal: many kB\n"])
def test_meminfo_that_does_not_say_counts_as_nothing(text: str) -> None:
    assert system.parse_meminfo(text) == {"total": 0, "available": 0}


def test_installed_packages_are_read() -> None:
    found = system.parse_dpkg((RECORDINGS / "dpkg.txt").read_text())
    assert found["g++"] == "4:12.2.0-3"
    assert found["python3-dev"] == "3.11.2-1+b1"
    assert "g++-multilib" not in found  # known, never installed


def test_only_an_installed_package_counts_and_a_held_one_does() -> None:
    found = system.parse_dpkg((RECORDINGS / "dpkg-states.txt").read_text())
    assert found == {"g++": "4:12.2.0-3"}


def test_this_machines_packages_are_read() -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("not a Debian system")
    found = system.read_packages(["dpkg", "no-such-package", "dpkg"])
    wanted = ["dpkg-query", "-W", "-f=${Version}", "dpkg"]
    version = subprocess.run(wanted, capture_output=True, text=True, check=True).stdout
    assert found == {"dpkg": version, "no-such-package": None}
    assert system.read_packages([]) == {}


def test_a_system_without_dpkg_has_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert system.read_packages(["g++"]) == {"g++": None}


def test_pythons_are_found_by_version() -> None:
    found = system.read_pythons()
    for version, path in found.items():
        assert re.fullmatch(r"3\.1\d", version)
        assert os.access(path, os.X_OK)
        assert Path(path).name == f"python{version}"


def test_space_is_read_where_the_path_will_be(tmp_path: Path) -> None:
    here = system.read_disk(str(tmp_path))
    later = system.read_disk(str(tmp_path / "not/yet/there"))
    assert later["path"] == str(tmp_path / "not/yet/there")
    assert later["device"] == here["device"] == tmp_path.stat().st_dev
    assert later["total"] == here["total"] == shutil.disk_usage(tmp_path).total
    assert 0 < later["free"] <= later["total"]


def test_another_file_system_has_another_device(tmp_path: Path) -> None:
    assert system.read_disk("/proc")["device"] != system.read_disk(str(tmp_path))["device"]


def test_a_file_is_described(tmp_path: Path) -> None:
    path = tmp_path / "engine.env"
    path.write_bytes(b"A=1\n")
    path.chmod(0o640)
    assert system.read_file(str(path)) == {
        "exists": True,
        "kind": "file",
        "sha256": hashlib.sha256(b"A=1\n").hexdigest(),
        "mode": "0640",
        "owner": pwd.getpwuid(os.getuid()).pw_name,
        "group": grp.getgrgid(os.getgid()).gr_name,
        "changed_at": path.stat().st_ctime,
    }
    path.chmod(0o4755)
    assert system.read_file(str(path))["mode"] == "4755"


def test_a_missing_file_does_not_exist(tmp_path: Path) -> None:
    assert system.read_file(str(tmp_path / "none")) == {"exists": False}
    assert system.read_file(str(tmp_path / "none/below")) == {"exists": False}


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_link_does_not_stand_for_its_target(tmp_path: Path, kind: str) -> None:
    target, path = tmp_path / "target", tmp_path / "x"
    target.write_bytes(b"wanted content")
    if kind == "link":
        path.symlink_to(target)
    else:
        path.mkdir()
    found = system.read_file(str(path))
    assert found["exists"]
    assert found["sha256"] != hashlib.sha256(b"wanted content").hexdigest()


def test_an_owner_without_a_name_is_a_number(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    path = tmp_path / "x"
    path.touch()
    os.chown(path, 3_000_001, 3_000_002)
    found = system.read_file(str(path))
    assert (found["owner"], found["group"]) == ("3000001", "3000002")


def test_this_machine_is_read_as_a_whole(tmp_path: Path) -> None:
    found = system.read_system([str(tmp_path), str(tmp_path)], [], ["sh", "no-such-program"])
    assert set(found) == {
        "os",
        "machine",
        "kernel",
        "glibc",
        "pythons",
        "memory",
        "disks",
        "packages",
        "commands",
    }
    assert found["os"]["id"] == platform.freedesktop_os_release()["ID"]
    assert found["machine"] == platform.machine()
    assert re.fullmatch(r"2\.\d+", found["glibc"])
    assert found["memory"]["total"] >= found["memory"]["available"] > 0
    assert list(found["disks"]) == [str(tmp_path)]
    assert found["commands"]["no-such-program"] is None
    assert Path(found["commands"]["sh"]).is_file()


def test_it_runs_on_the_nodes_python_without_anything_else() -> None:
    """The module utilities travel to nodes: only the standard library may be imported."""
    script = (
        "import json, sys\n"
        "from ansible_collections.sm120.sglang.plugins.module_utils._node import system\n"
        "from ansible_collections.sm120.sglang.plugins.module_utils._node import deployment\n"
        "from ansible_collections.sm120.sglang.plugins.module_utils._node import service, account\n"
        "from ansible_collections.sm120.sglang.plugins.module_utils import _decide, _launch\n"
        "from ansible_collections.sm120.sglang.plugins.module_utils import _wheelhouse\n"
        "print(json.dumps(system.read_system(['/'], ['dpkg'], ['sh'])))\n"
    )
    collections = Path(__file__).parents[5] / "collections"
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.append({str(collections)!r})\n{script}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"machine"' in done.stdout
