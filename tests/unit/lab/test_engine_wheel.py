# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from lab import engine_wheel
from lab.engine_wheel import EngineWheelError, retag

TAGS = "cp312-cp312-manylinux_2_34_x86_64"


def published(folder: Path) -> Path:
    path = folder / f"sglang-0.5.23-{TAGS}.whl"
    info = "sglang-0.5.23.dist-info"
    files = {
        "sglang/__init__.py": b"x = 1\n",
        "sglang/_core.cpython-312-x86_64-linux-gnu.so": b"\x7fELF",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAGS}\n\n".encode(),
    }
    lines = [f"{name},sha256=x,{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_only_the_tag_changes(tmp_path: Path) -> None:
    source = published(tmp_path)
    made = retag(source, tmp_path / "out")
    (tag,) = parse_wheel_filename(made.name)[3]
    assert str(tag) == "py3-none-any"
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(made) as after:
        assert after.namelist() == before.namelist()
        changed = [n for n in before.namelist() if before.read(n) != after.read(n)]
        head = after.read("sglang-0.5.23.dist-info/WHEEL")
        record = after.read("sglang-0.5.23.dist-info/RECORD").decode()
    assert changed == ["sglang-0.5.23.dist-info/WHEEL", "sglang-0.5.23.dist-info/RECORD"]
    assert head == b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(head).digest()).rstrip(b"=").decode()
    assert record.count("dist-info/WHEEL") == 1
    assert f"sglang-0.5.23.dist-info/WHEEL,sha256={digest},{len(head)}\n" in record


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path) -> None:
    source = published(tmp_path)
    one, two = retag(source, tmp_path / "a"), retag(source, tmp_path / "b")
    assert one.read_bytes() == two.read_bytes()
    assert [path.name for path in one.parent.iterdir()] == [one.name]


def test_what_is_there_is_not_downloaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def download(version: str, folder: Path) -> Path:
        calls.append(version)
        return published(folder)

    monkeypatch.setattr(engine_wheel, "download", download)
    for _ in range(2):
        assert engine_wheel.build("0.5.23", tmp_path).is_file()
    assert calls == ["0.5.23"]


def test_an_archive_that_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / f"sglang-0.5.23-{TAGS}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(EngineWheelError, match=r"sglang-0\.5\.23\.dist-info/WHEEL"):
        retag(path, tmp_path / "out")
