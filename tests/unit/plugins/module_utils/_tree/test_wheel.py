# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import TreeError
from ansible_collections.sm120.sglang.plugins.module_utils._tree import (
    Folder,
    Metadata,
    Wheel,
    open_tree,
)

FILES = {
    "sglang/__init__.py": b"",
    "sglang/_version.py": b"__version__ = version = '0.5.9'\n",
    "sglang/srt/server_args.py": b"a = 1\n",
    "sglang/srt/models/kimi.py": b"b = 2\n",
    "sglang/srt/models/__pycache__/kimi.cpython-312.pyc": b"\x00",
    "sglang-0.5.9.dist-info/METADATA": (
        b"Name: sglang\nVersion: 0.5.9\nRequires-Dist: torch==2.9.1\n"
    ),
    "sglang-0.5.9.dist-info/WHEEL": b"Tag: py3-none-any\n",
}


def make_wheel(path: Path, files: Mapping[str, bytes] = FILES) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_wheel_and_its_install_read_alike(tmp_path: Path) -> None:
    wheel = open_tree(str(make_wheel(tmp_path / "sglang-0.5.9-py3-none-any.whl")))
    zipfile.ZipFile(wheel.where).extractall(tmp_path / "site-packages")
    folder = open_tree(str(tmp_path / "site-packages"))
    assert isinstance(wheel, Wheel)
    assert isinstance(folder, Folder)
    for tree in (wheel, folder):
        assert tree.version() == "0.5.9"
        assert tree.read("srt/server_args.py") == b"a = 1\n"
        assert tree.read("srt/nothing.py") is None
        assert tree.names("srt/") == ["srt/models/kimi.py", "srt/server_args.py"]
        assert tree.names("srt/mod") == ["srt/models/kimi.py"]
        assert tree.names("srt/nothing/") == tree.names("srt/server_args.py/") == []
        assert len(tree.names()) == 4
        assert tree.metadata().tags == ("py3-none-any",)
        assert [(r.name, r.pin) for r in tree.metadata().requires] == [("torch", "2.9.1")]


def test_a_version_from_metadata_alone(tmp_path: Path) -> None:
    files = {name: data for name, data in FILES.items() if name != "sglang/_version.py"}
    assert open_tree(str(make_wheel(tmp_path / "x.whl", files))).version() == "0.5.9"


def test_an_older_install_s_leftover_is_not_asked(tmp_path: Path) -> None:
    old = tmp_path / "sglang-0.5.8.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Name: sglang\nVersion: 0.5.8\n")
    zipfile.ZipFile(make_wheel(tmp_path / "x.whl")).extractall(tmp_path)
    assert open_tree(str(tmp_path)).metadata().version == "0.5.9"
    (tmp_path / "sglang" / "_version.py").unlink()
    assert open_tree(str(tmp_path)).metadata().version == "0.5.8"


def test_a_tree_without_metadata(tmp_path: Path) -> None:
    files = {name: data for name, data in FILES.items() if name.startswith("sglang/")}
    assert open_tree(str(make_wheel(tmp_path / "x.whl", files))).metadata() == Metadata()
    zipfile.ZipFile(tmp_path / "x.whl").extractall(tmp_path)
    assert open_tree(str(tmp_path)).metadata() == Metadata()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("sglang-0.5.9-py3-none-any.whl", b"no zip", "is not a wheel: .*pip download"),
        ("empty.whl", b"", "is not a wheel"),
        ("sglang-0.5.9.tar.gz", b"\x1f\x8b", "is not a wheel: .*unpack the source archive"),
    ],
)
def test_a_file_that_is_no_wheel(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TreeError, match=message):
        open_tree(str(tmp_path / name))


def test_a_wheel_cut_short_anywhere(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path / "whole.whl").read_bytes()
    cut = tmp_path / "cut.whl"
    for length in range(0, len(whole), 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(TreeError, match="is not a wheel"):
            open_tree(str(cut))


def test_a_wheel_with_damaged_bytes_reads_right_or_is_refused(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path / "whole.whl").read_bytes()
    damaged = tmp_path / "damaged.whl"
    for position in range(0, len(whole), 3):
        damaged.write_bytes(
            whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :]
        )
        try:
            tree = open_tree(str(damaged))
            texts = [tree.read(name) for name in tree.names()]
            tree.metadata()
        except TreeError:
            continue
        assert None not in texts


def test_a_wheel_of_another_project(tmp_path: Path) -> None:
    other = make_wheel(
        tmp_path / "x.whl", {"vllm/a.py": b"", "vllm-1.dist-info/METADATA": b"Name: vllm\n"}
    )
    with pytest.raises(TreeError, match="is a wheel of vllm: there is no sglang/srt in it"):
        open_tree(str(other))
    with pytest.raises(TreeError, match="no wheel of a project"):
        open_tree(str(make_wheel(tmp_path / "y.whl", {"a.py": b""})))


def test_a_member_that_unpacks_to_far_too_much(tmp_path: Path) -> None:
    bomb = make_wheel(tmp_path / "x.whl", {**FILES, "sglang/srt/b.py": bytes(33 * 1024 * 1024)})
    assert bomb.stat().st_size < 100_000
    with pytest.raises(TreeError, match=r"srt/b\.py unpacks to more than"):
        open_tree(str(bomb)).read("srt/b.py")


def test_an_encrypted_member(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "x.whl")
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            struct.pack_into("<H", data, at + flags, 1)
            at = data.find(mark, at + 4)
    path.write_bytes(data)
    with pytest.raises(TreeError, match="encrypted"):
        open_tree(str(path)).read("srt/server_args.py")


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="does not exist"):
        open_tree(str(tmp_path / "missing.whl"))
    pipe = tmp_path / "pipe.whl"
    os.mkfifo(pipe)
    with pytest.raises(TreeError, match="is not a folder"):
        open_tree(str(pipe))
    assert stat.S_ISFIFO(pipe.stat().st_mode)
