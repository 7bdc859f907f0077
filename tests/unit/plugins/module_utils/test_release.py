# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _built, _release
from ansible_collections.sm120.sglang.plugins.module_utils._release import Paths, ReleaseError

FILES = {
    "__init__.py": "__version__ = '0.5.9'\n",
    "srt/models/kimi_k25.py": "class Kimi:\n    pass\n",
    "srt/server_args.py": "x = 1\n",
    "srt/kernel.cu": "",
}


def build(root: Path, release: str) -> Paths:
    """A tree as it is after building and patching."""
    paths = Paths(root, release)
    package = paths.building / "venv/lib/python3.11/site-packages/sglang"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    cache = package / "srt/__pycache__"
    cache.mkdir()
    (cache / "server_args.cpython-311.pyc").write_bytes(b"code")
    return paths


def sealed(root: Path, release: str = "r1") -> Path:
    paths = build(root, release)
    _release.seal(paths)
    return paths.final


def package_of(tree: Path) -> Path:
    return _release.site_packages(tree) / "sglang"


def test_a_sealed_release_has_its_name_and_no_drift(tmp_path: Path) -> None:
    paths = build(tmp_path, "r1")
    _release.seal(paths)
    assert not paths.building.exists()
    assert _release.unfinished(tmp_path) == []
    assert _release.drift(paths.final) == []
    assert _release.drift(paths.final, full=True) == []


@pytest.mark.parametrize(
    ("damage", "file", "what"),
    [
        (lambda tree: (tree / "COMPLETE").unlink(), "COMPLETE", "missing"),
        (lambda tree: (tree / "files.list").unlink(), "tree", "No such file"),
        (
            lambda tree: (tree / "files.list").write_bytes(b""),
            "files.list",
            "does not belong to COMPLETE",
        ),
        (lambda tree: (tree / "SHA256SUMS").unlink(), "tree", "No such file"),
        (lambda tree: shutil.rmtree(tree / "venv"), "tree", "no virtual environment"),
    ],
)
def test_a_damaged_release_is_seen(
    tmp_path: Path, damage: Callable[[Path], None], file: str, what: str
) -> None:
    tree = sealed(tmp_path)
    damage(tree)
    (found,) = _release.drift(tree)
    assert found["file"] == file
    assert what in found["what"]
    assert _release.needs_building([found])


def test_other_sums_are_seen_when_they_are_wanted(tmp_path: Path) -> None:
    tree = sealed(tmp_path)
    (tree / "SHA256SUMS").write_text("")
    assert [change["file"] for change in _release.drift(tree, full=True)] == ["SHA256SUMS"]
    (package_of(tree) / "__init__.py").write_text("edited")
    assert [change["file"] for change in _release.drift(tree)] == ["SHA256SUMS"]


def test_sealing_again_replaces_an_edited_tree(tmp_path: Path) -> None:
    tree = sealed(tmp_path)
    (package_of(tree) / "__init__.py").write_text("edited")
    (tmp_path / "releases/.replaced-r1").mkdir()  # left by an interrupted run
    (tmp_path / "releases/.replaced-r1/old").touch()
    sealed(tmp_path)
    assert _release.drift(tree) == []
    assert (package_of(tree) / "__init__.py").read_text() == FILES["__init__.py"]
    assert sorted(path.name for path in (tmp_path / "releases").iterdir()) == ["r1"]


def test_leftovers_are_named(tmp_path: Path) -> None:
    assert _release.unfinished(tmp_path) == []
    sealed(tmp_path)
    for name in (".replaced-r0", ".building-r2", "r3", ".hidden"):
        (tmp_path / "releases" / name).mkdir()
    assert _release.unfinished(tmp_path) == [".building-r2", ".replaced-r0"]


def test_site_packages_needs_a_venv(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no virtual environment; remove the folder"):
        _release.site_packages(tmp_path)


def state(root: Path) -> tuple[str | None, str | None]:
    return _release.linked(root, "current"), _release.linked(root, "previous")


def test_switching_keeps_the_one_before(tmp_path: Path) -> None:
    for release in ("r1", "r2", "r3"):
        sealed(tmp_path, release)
    states = [state(tmp_path)]
    for release in ("r1", "r2", "r2", "r3", "r2"):
        _release.switch(tmp_path, release)
        states.append(state(tmp_path))
    assert states == [
        (None, None),
        ("r1", None),
        ("r2", "r1"),
        ("r2", "r1"),
        ("r3", "r2"),
        ("r2", "r3"),
    ]
    assert (tmp_path / "current").readlink() == Path("releases/r2")  # relative: root can move
    assert (tmp_path / "current/COMPLETE").is_file()


@pytest.mark.parametrize(
    ("link", "wanted", "expected"),
    [
        ("releases/r2", "r1", "r1"),
        ("releases/gone", "", None),
        ("/tmp", "", None),
        ("releases/r1", "", "r1"),
        (None, "r1", "r1"),
        (None, "", None),
    ],
)
def test_the_link_to_go_back_by_is_put_right_without_a_switch(
    tmp_path: Path, link: str | None, wanted: str, expected: str | None
) -> None:
    for release in ("r1", "r2"):
        sealed(tmp_path, release)
    _release.switch(tmp_path, "r2")
    if link:
        (tmp_path / "previous").symlink_to(link)
    _release.switch(tmp_path, "r2", wanted)
    assert state(tmp_path) == ("r2", expected)
    assert _release.wrong_previous(tmp_path, wanted) == ""


def test_a_link_to_somewhere_else_is_no_release(tmp_path: Path) -> None:
    sealed(tmp_path)
    for target, seen in (
        ("releases/r1", "r1"),
        (tmp_path / "releases/r1", "r1"),
        ("/x/r1", "/x/r1"),
    ):
        (tmp_path / "current").unlink(missing_ok=True)
        (tmp_path / "current").symlink_to(target)
        assert _release.linked(tmp_path, "current") == seen
    copy = shutil.copytree(tmp_path / "releases/r1", tmp_path / "copy")
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(copy)
    _release.switch(tmp_path, "r1")
    # What it was before, complete or not, is nothing that could be gone back to.
    assert state(tmp_path) == ("r1", None)


@pytest.mark.parametrize("release", ["nowhere", "r2"])
def test_only_a_complete_release_becomes_current(tmp_path: Path, release: str) -> None:
    sealed(tmp_path)
    _release.switch(tmp_path, "r1")
    (tmp_path / "releases/r2").mkdir()
    with pytest.raises(ReleaseError, match=f"release {release} is not complete"):
        _release.switch(tmp_path, release)
    assert state(tmp_path) == ("r1", None)


def test_current_is_there_at_every_moment(tmp_path: Path) -> None:
    for release in ("r1", "r2"):
        sealed(tmp_path, release)
    _release.switch(tmp_path, "r1")
    stop, reads, failures = threading.Event(), [0], list[str]()

    def read() -> None:
        while not stop.is_set():
            try:
                (tmp_path / "current/COMPLETE").read_text()
            except OSError as error:
                failures.append(str(error))
            reads[0] += 1

    reader = threading.Thread(target=read)
    reader.start()
    switches = 0
    while switches < 300 or reads[0] < 300:
        _release.switch(tmp_path, ("r2", "r1")[switches % 2])
        switches += 1
    stop.set()
    reader.join()
    assert failures == []


@pytest.mark.parametrize("moment", ["previous", "current"])
def test_a_switch_that_was_killed_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    for release in ("r1", "r2", "r3"):
        sealed(tmp_path, release)
    _release.switch(tmp_path, "r1")
    _release.switch(tmp_path, "r2")
    replace = Path.replace

    def die(self: Path, target: Path) -> Path:
        if target.name == moment:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            _release.switch(tmp_path, "r3")
    assert _release.linked(tmp_path, "current") == "r2"
    _release.switch(tmp_path, "r3")
    assert state(tmp_path) == ("r3", "r2")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".new")]


def test_one_builder_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_release, "LOCK_SECONDS", 0.0)
    with (
        _release.build_lock(tmp_path),
        pytest.raises(ReleaseError, match="another deployment is building"),
        _release.build_lock(tmp_path),
    ):
        pass
    with _release.build_lock(tmp_path):  # free again
        pass


def test_the_next_builder_waits_for_one_that_ends(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with _release.build_lock(tmp_path):
            order.append("second")

    with _release.build_lock(tmp_path):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.5)  # it does not get in
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ReleaseError, match="nowhere: no such folder"),
        _release.build_lock(tmp_path / "nowhere"),
    ):
        pass


def test_a_tool_is_taken_out_of_its_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "uv-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("uv/__init__.py", "")
        archive.writestr("uv-1.data/scripts/uvx", "other")
        archive.writestr("uv-1.data/scripts/uv", "#!/bin/sh\n")
    target = tmp_path / "tools/uv-1"
    _built.extract_tool(wheel, "uv", target)
    assert target.read_text() == "#!/bin/sh\n"
    assert os.access(target, os.X_OK)
    assert [path.name for path in target.parent.iterdir()] == ["uv-1"]
    with pytest.raises(ReleaseError, match=r"uv-1-py3-none-any\.whl holds no binary nope"):
        _built.extract_tool(wheel, "nope", target)


def test_what_is_installed_is_compared_with_the_lock(tmp_path: Path) -> None:
    for name in ("torch-2.13.0+cpu.dist-info", "Sgl_Kernel-0.3.21.dist-info", "torch", "a-b"):
        (tmp_path / name).mkdir()
    found = _built.installed(tmp_path)
    assert found == {"torch": "2.13.0+cpu", "sgl-kernel": "0.3.21"}
    assert _built.compare_installed(found, found) == []
    wanted = {"torch": "2.13.0", "sglang": "0.5.9"}
    assert _built.compare_installed(wanted, found) == [
        "sglang: the lock says 0.5.9, installed is nothing",
        "torch: the lock says 2.13.0, installed is 2.13.0+cpu",
        "sgl-kernel 0.3.21: installed, but not in the lock",
    ]


def test_a_leftover_that_is_still_written_to_loses_its_name_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "releases/.building-r2"
    tree.mkdir(parents=True)
    _release.sweep(tmp_path)
    assert _release.unfinished(tmp_path) == []
    tree.mkdir()
    # Another run's task puts a file into what is being removed.
    monkeypatch.setattr(shutil, "rmtree", lambda *_args, **_options: None)
    _release.sweep(tmp_path)
    assert not tree.exists()
    (left,) = _release.unfinished(tmp_path)
    assert left.startswith(".replaced-")
