# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import TreeError
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_folder


def make_package(folder: Path, version: str = "0.5.9") -> Path:
    package = folder / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "_version.py").write_text(f"__version__ = version = '{version}'\n")
    (package / "srt" / "x.py").write_text("a = 1\n")
    return package


@pytest.mark.parametrize(
    ("below", "named"),
    [
        (".", "sglang"),
        (".", "."),
        ("python", "."),
        ("lib/python3.12/site-packages", "."),
        ("lib/python3.12/site-packages", "lib/python3.12/site-packages"),
    ],
    ids=["the package", "site-packages", "a checkout", "a virtual environment", "its packages"],
)
def test_what_an_operator_may_name(tmp_path: Path, below: str, named: str) -> None:
    package = make_package(tmp_path / below)
    tree = open_folder(str(tmp_path / named))
    assert tree.root == package.resolve()
    assert tree.version() == "0.5.9"
    assert tree.read("srt/x.py") == b"a = 1\n"
    assert tree.read("srt/y.py") is None


def test_the_package_folder_may_have_any_name(tmp_path: Path) -> None:
    package = make_package(tmp_path).rename(tmp_path / "copy")
    assert open_folder(str(package)).root == package


def site_packages(tmp_path: Path) -> Path:
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    return site


def test_an_editable_install_by_its_record(tmp_path: Path) -> None:
    package = make_package(tmp_path / "src with space" / "python")
    record = site_packages(tmp_path) / "sglang-0.5.9.dist-info" / "direct_url.json"
    record.parent.mkdir()
    url = (tmp_path / "src with space" / "python").as_uri()
    record.write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))
    assert open_folder(str(tmp_path / "venv")).root == package
    record.write_text(json.dumps({"url": url, "dir_info": {}}))
    with pytest.raises(TreeError, match=r"there is no sglang package"):
        open_folder(str(tmp_path / "venv"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("__editable__.sglang-0.5.9.pth", "{parent}\n"),
        ("__editable___sglang_0_5_9_finder.py", "MAPPING: dict = {{'sglang': '{package}'}}\n"),
    ],
)
def test_an_editable_install_by_its_hook(tmp_path: Path, name: str, content: str) -> None:
    package = make_package(tmp_path / "src")
    hook = site_packages(tmp_path) / name
    hook.write_text(content.format(parent=package.parent, package=package))
    assert open_folder(str(tmp_path / "venv")).root == package


@pytest.mark.parametrize("content", ["(", "MAPPING = make()\n", "x.y = 1\n", "MAPPING = {}\n"])
def test_a_strange_hook_is_no_package(tmp_path: Path, content: str) -> None:
    (site_packages(tmp_path) / "__editable___sglang_1_finder.py").write_text(content)
    with pytest.raises(TreeError, match=r"there is no sglang package"):
        open_folder(str(tmp_path / "venv"))


def test_what_is_no_release_is_named(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match=r"does not exist"):
        open_folder(str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("")
    with pytest.raises(TreeError, match=r"is not a folder"):
        open_folder(str(tmp_path / "file"))
    (tmp_path / "sglang").mkdir()
    with pytest.raises(TreeError, match=r"there is no sglang package"):
        open_folder(str(tmp_path))
    for version in ("3.11", "3.12"):
        make_package(tmp_path / f"venv/lib/python{version}/site-packages")
    with pytest.raises(TreeError, match=r"holds several packages"):
        open_folder(str(tmp_path / "venv"))


def test_links_are_followed_inside_the_release_only(tmp_path: Path) -> None:
    package = make_package(tmp_path / "release")
    outside = tmp_path / "outside.py"
    outside.write_text("a = 1\n")
    for name, target in {
        "in": "x.py",
        "out": str(outside),
        "gone": "no.py",
        "self": "self.py",
    }.items():
        (package / "srt" / f"{name}.py").symlink_to(target)
    tree = open_folder(str(package))
    assert tree.locate("srt/in.py") == package / "srt" / "x.py"
    with pytest.raises(TreeError, match=r"leads out of the release"):
        tree.read("srt/out.py")
    with pytest.raises(TreeError, match=r"is a link to nothing"):
        tree.read("srt/gone.py")
    with pytest.raises(TreeError, match=r"cannot be followed|link to nothing"):
        tree.read("srt/self.py")
    with pytest.raises(TreeError, match=r"is not a plain file"):
        tree.read("srt")


def test_the_release_itself_may_be_behind_a_link(tmp_path: Path) -> None:
    package = make_package(tmp_path / "releases" / "one")
    (tmp_path / "current").symlink_to("releases/one")
    assert open_folder(str(tmp_path / "current")).root == package


def test_a_tree_without_version(tmp_path: Path) -> None:
    package = make_package(tmp_path)
    (package / "_version.py").unlink()
    assert open_folder(str(package)).version() == ""
    (package / "version.py").write_text('__version__ = "0.4.1"\n')
    assert open_folder(str(package)).version() == "0.4.1"
