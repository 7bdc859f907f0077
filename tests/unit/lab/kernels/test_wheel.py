# SPDX-License-Identifier: Apache-2.0
"""The wheel: the same bytes each time, the right contents, and nothing heavy at start-up."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab import kernel_wheel
from lab.kernel_wheel import KernelWheelError, build_wheel, main


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_name_says_which_release_it_stands_in_for_and_that_it_is_ours(wheel: Path) -> None:
    assert wheel.name == "sgl_kernel-0.3.21+lab.cpu-py3-none-any.whl"


def test_a_later_release_gets_the_same_kernels_under_the_name_that_it_pins(tmp_path: Path) -> None:
    later = build_wheel(tmp_path, "sglang-kernel==0.4.10+lab.cpu")
    assert later.name == "sglang_kernel-0.4.10+lab.cpu-py3-none-any.whl"
    with zipfile.ZipFile(later) as archive:
        source = archive.read("sgl_kernel/__init__.py").decode()
        metadata = archive.read("sglang_kernel-0.4.10+lab.cpu.dist-info/METADATA").decode()
    assert '__version__ = "0.4.10+lab.cpu"' in source
    assert "Name: sglang-kernel\nVersion: 0.4.10+lab.cpu\n" in metadata
    assert [path.name for path in tmp_path.iterdir()] == [later.name]


def test_two_builds_are_equal_to_the_byte(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    again = build_wheel(tmp_path / "new" / "folder")
    assert again.read_bytes() == wheel.read_bytes()
    assert [path.name for path in again.parent.iterdir()] == [again.name]


def test_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = archive.read("sgl_kernel-0.3.21+lab.cpu.dist-info/METADATA").decode()
    assert names == {
        "sgl_kernel/__init__.py",
        "sgl_kernel/_cache_locations.py",
        "sgl_kernel/_eagle_tree.py",
        "sgl_kernel/_placeholder.py",
        "sgl_kernel_lab.pth",
        "sgl_kernel_lab_hooks.py",
    }
    assert "Requires-Dist" not in metadata


def test_version_is_the_same_in_the_package_and_in_its_metadata(wheel: Path) -> None:
    source = (kernel_wheel.SOURCE / "src" / "sgl_kernel" / "__init__.py").read_text()
    version = wheel.name.split("-")[1]
    assert f'__version__ = "{version}"' in source


def test_an_interpreter_with_the_wheel_starts_with_hooks_and_without_torch(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = f"""
import site, sys
site.addsitedir({str(tmp_path)!r})
site.addsitedir({str(tmp_path)!r})
print([type(finder).__name__ for finder in sys.meta_path].count("HookFinder"))
print([name for name in sys.modules if name.partition(".")[0] in ("torch", "sgl_kernel")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.split("\n")[:2] == ["1", "[]"]
    assert not done.stderr


def test_a_failed_build_says_what_was_run_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "source"
    broken.mkdir()
    (broken / "pyproject.toml").write_text("not toml at all")
    monkeypatch.setattr(kernel_wheel, "SOURCE", broken)
    out = tmp_path / "out"
    with pytest.raises(KernelWheelError, match=r"hatchling build.*ended with [1-9]"):
        build_wheel(out)
    assert list(out.iterdir()) == []


def test_command_line_prints_the_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()
