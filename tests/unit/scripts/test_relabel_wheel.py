# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts/relabel_wheel.py"
NAME = "sgl_kernel-0.3.21+cu130-cp310-abi3-manylinux2014_x86_64.whl"
PLAIN = "sgl_kernel-0.3.21+cu130-py3-none-any.whl"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("relabel_wheel", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(folder: Path, name: str, version: str) -> Path:
    """A wheel whose metadata says a version of its own, with digests as builders write them."""
    info = f"sgl_kernel-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: sgl_kernel\nVersion: {version}\n"
    files = {
        "sgl_kernel/__init__.py": b"x = 1\n",
        "sgl_kernel/a,b.so": os.urandom(3 << 10),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        shown = f'"{path}"' if "," in path else path
        lines.append(f"{shown},sha256={digest},{len(content)}\n")
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return folder / name


def run(*words: object) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    return subprocess.run(
        [sys.executable, "-m", *map(str, words), "sgl-kernel==0.3.21+cu130"],
        env=environment | {"PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_pip_refuses_is_downloaded_and_installed_afterwards(
    script: ModuleType, tmp_path: Path
) -> None:
    source = make(tmp_path / "in", PLAIN, "0.3.21")
    download = ("pip", "download", "--no-index", "--no-deps", "--dest", tmp_path / "got")
    before = run(*download, "--find-links", source.parent)
    assert before.returncode != 0
    assert "inconsistent version" in before.stdout + before.stderr
    made = script.relabel(source, tmp_path / "out")
    after = run(*download, "--find-links", made.parent)
    assert after.returncode == 0, after.stderr
    install = ("uv", "pip", "install", "--offline", "--no-index", "--no-deps", "--no-cache")
    done = run(*install, "--target", tmp_path / "site", "--find-links", tmp_path / "got")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/sgl_kernel/__init__.py").read_text() == "x = 1\n"
    assert (tmp_path / "site/sgl_kernel-0.3.21+cu130.dist-info").is_dir()


def test_everything_else_stays(script: ModuleType, tmp_path: Path) -> None:
    source = make(tmp_path / "in", NAME, "0.3.21")
    made = script.relabel(source, tmp_path / "out")
    assert made.name == NAME
    assert [path.name for path in made.parent.iterdir()] == [NAME]
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(made) as after:
        for name in ("sgl_kernel/__init__.py", "sgl_kernel/a,b.so"):
            assert before.read(name) == after.read(name)
        info = "sgl_kernel-0.3.21+cu130.dist-info"
        record = after.read(f"{info}/RECORD").decode()
        metadata = after.read(f"{info}/METADATA")
        assert "sgl_kernel-0.3.21.dist-info" not in record
        assert b"Version: 0.3.21+cu130\n" in metadata
        digest = base64.urlsafe_b64encode(hashlib.sha256(metadata).digest()).rstrip(b"=").decode()
        assert f"{info}/METADATA,sha256={digest},{len(metadata)}\n" in record
        assert '"sgl_kernel/a,b.so",sha256=' in record


def test_a_wheel_that_agrees_is_copied(script: ModuleType, tmp_path: Path) -> None:
    source = make(tmp_path / "in", NAME, "0.3.21+cu130")
    assert script.relabel(source, tmp_path / "out").read_bytes() == source.read_bytes()


def test_another_version_is_not_papered_over(script: ModuleType, tmp_path: Path) -> None:
    source = make(tmp_path / "in", NAME, "0.3.20")
    with pytest.raises(SystemExit, match=r"its metadata says 0\.3\.20"):
        script.relabel(source, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
