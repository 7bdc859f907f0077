# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import cuda

RECORDINGS = Path(__file__).parents[4] / "recordings/cuda"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("open", {"version": "580.159.04", "open": True}),
        ("proprietary", {"version": "535.54.03", "open": False}),
    ],
)
def test_the_running_module(name: str, expected: dict[str, object]) -> None:
    text = (RECORDINGS / f"proc-version-{name}.txt").read_text()
    assert cuda.parse_module_version(text) == expected


def test_no_module() -> None:
    assert cuda.parse_module_version("") == {"version": "", "open": False}


def test_packages_with_locks_and_half_done_ones() -> None:
    found = cuda.parse_packages(
        "hi \tlibcuda1\t580.95.05-1\n"
        "ii \tnvidia-driver-cuda\t580.95.05-1\n"
        "iU \tnvidia-modprobe\t580.95.05-1\n"
        "iF \topenssh-server\t1:9.2\n"
        "rc \tnvidia-kernel-dkms\t535.1.1-1\n"
        "ii \tnvidia-driver-pinning-590\t590-1\n"
        "ii \tnvidia-container-toolkit\t1.19.1-1\n"
        "ii \tcuda-toolkit-13-0\t13.0.2-1\n"
        "ii \tlinux-headers-6.1.0-1-amd64\t6.1\n"
    )
    assert found["driver"] == {
        "libcuda1": "580.95.05-1",
        "nvidia-driver-cuda": "580.95.05-1",
        "nvidia-modprobe": "580.95.05-1",
    }
    assert found["held"] == ["libcuda1"]
    assert found["broken"] == ["nvidia-modprobe", "openssh-server"]
    assert found["pinning"] == ["nvidia-driver-pinning-590"]
    assert found["toolkits"] == {"cuda-toolkit-13-0": "13.0.2-1"}


def test_a_client_library_is_no_driver() -> None:
    found = cuda.parse_packages((RECORDINGS / "dpkg-without-driver.txt").read_text())
    assert found["driver"] == {}
    assert found["toolkits"] == {"cuda-nvcc-13-0": "13.0.88-1"}


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "/x.sources",
            "Types: deb\nURIs: http://a/b/ http://c\nSuites: /\nSigned-By: /k.asc\n",
            [("http://a/b", "/k.asc"), ("http://c", "/k.asc")],
        ),
        ("/x.sources", "Types: deb\nURIs: http://a\nEnabled: no\n", []),
        ("/x.list", "# deb http://no /\ndeb [arch=amd64 signed-by=/k.gpg] http://a/ /\n",
         [("http://a", "/k.gpg")]),
        ("/x.list", "deb http://a bookworm main\n", [("http://a", "")]),
    ],
)  # fmt: skip
def test_package_sources(path: str, text: str, expected: list[tuple[str, str]]) -> None:
    found = cuda.parse_source(text, path)
    assert [(entry["uri"], entry["signed_by"]) for entry in found] == expected
    assert all(entry["path"] == path for entry in found)


def test_a_bare_node_reads_as_bare(tmp_path: Path) -> None:
    found = cuda.read_cuda({"keyring": "/etc/apt/keyrings/k.asc"}, tmp_path)
    assert found["module"] == {"version": "", "open": None, "loaded": False, "nouveau": False}
    assert found["library"] == ""
    assert found["secure_boot"] == {"enabled": False, "enrolled": False}
    assert found["sources"] == []
    assert found["keyring"] == []
    assert found["links"] == {}
    assert found["dpkg"] == {"interrupted": False}
    assert found["kernel"]["headers"] is False


def test_module_library_and_links_are_read(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    text = (RECORDINGS / "proc-version-open.txt").read_text()
    (tmp_path / "proc/driver/nvidia/version").write_text(text)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nouveau").mkdir()
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.590.48.01")
    (tmp_path / "usr/local").mkdir()
    (tmp_path / "usr/local/cuda").symlink_to("/etc/alternatives/cuda")
    (tmp_path / "var/lib/dpkg/updates").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/updates/0000").write_text("")
    found = cuda.read_cuda({"keyring": "/k"}, tmp_path)
    assert found["module"] == {
        "version": "580.159.04",
        "open": True,
        "loaded": True,
        "nouveau": True,
    }
    assert found["library"] == "590.48.01"
    assert found["links"] == {"/usr/local/cuda": "/etc/alternatives/cuda"}
    assert found["dpkg"] == {"interrupted": True}


def test_a_module_that_only_sys_knows(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.95.05\n")
    found = cuda.read_module(tmp_path)
    assert (found["version"], found["open"]) == ("580.95.05", None)


@pytest.mark.parametrize(
    ("value", "mok", "enabled", "enrolled"),
    [
        (b"\x06\0\0\0\x01", b"head-CERTIFICATE-tail", True, True),
        (b"\x06\0\0\0\x01", b"another", True, False),
        (b"\x06\0\0\0\x00", b"", False, False),
    ],
)
def test_secure_boot(
    tmp_path: Path, value: bytes, mok: bytes, enabled: bool, enrolled: bool
) -> None:
    efi = tmp_path / "sys/firmware/efi/efivars"
    efi.mkdir(parents=True)
    (efi / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(value)
    (efi / "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23").write_bytes(mok)
    (tmp_path / "var/lib/dkms").mkdir(parents=True)
    (tmp_path / "var/lib/dkms/mok.pub").write_bytes(b"CERTIFICATE")
    assert cuda.read_secure_boot(tmp_path) == {"enabled": enabled, "enrolled": enrolled}
