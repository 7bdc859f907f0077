# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _release, _verified
from ansible_collections.sm120.sglang.plugins.module_utils._release import Paths, ReleaseError
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda kernel: kernel.unlink(), "kernel.py: missing"),
        (lambda kernel: kernel.write_text("y = 20\n"), "kernel.py: changed by hand"),
        (lambda kernel: shutil.rmtree(kernel.parent), "kernel.py: missing"),
        (lambda kernel: os.link(kernel, kernel.parents[5] / "shared"), ""),
        (lambda kernel: (kernel.parent / "__pycache__").mkdir(), ""),
    ],
)
def test_the_rest_of_the_environment_is_watched_too(
    tmp_path: Path, damage: Callable[[Path], None], expected: str
) -> None:
    paths = build(tmp_path, "r1")
    kernel = _release.site_packages(paths.building) / "sgl_kernel/kernel.py"
    kernel.parent.mkdir()
    kernel.write_text("x = 1\n")
    _release.seal(paths)
    damage(paths.final / kernel.relative_to(paths.building))
    place = "venv/lib/python3.11/site-packages/sgl_kernel/"
    assert _release.drift(paths.final) == ([place + expected] if expected else [])


def test_a_sealed_release_has_its_name_and_no_drift(tmp_path: Path) -> None:
    paths = build(tmp_path, "r1")
    digest = _release.seal(paths)
    assert (paths.final / "COMPLETE").read_text() == digest + "\n"
    assert not paths.building.exists()
    assert _release.unfinished(tmp_path) == []
    assert _release.drift(paths.final) == []


def test_the_digest_is_over_names_and_contents(tmp_path: Path) -> None:
    digests = [_release.seal(build(tmp_path, release)) for release in ("r1", "r2")]
    assert digests[0] == digests[1]  # times and inodes differ
    paths = build(tmp_path, "r3")
    (package_of(paths.building) / "srt/server_args.py").write_text("x = 2\n")
    assert _release.seal(paths) not in digests
    paths = build(tmp_path, "r4")
    package = package_of(paths.building)
    (package / "srt/kernel.cu").rename(package / "srt/kernel.cuh")
    assert _release.seal(paths) not in digests


def edit(path: Path) -> None:
    """Same size, modification time restored."""
    status = path.stat()
    path.write_text(path.read_text().swapcase() or "x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_with_the_same(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def add(path: Path) -> None:
    path.with_name("zz_" + path.name).write_text("added")


def hard_link(path: Path) -> None:
    """Another release shares the file: its ctime changes."""
    tree = next(parent for parent in path.parents if parent.name == "venv").parent
    os.link(path, tree / f"link-{path.name}")


EDITS: dict[Callable[[Path], None], str] = {
    edit: "{name}: changed by hand",
    Path.unlink: "{name}: missing",
    add: "{added}: added by hand",
    replace_with_the_same: "",
    hard_link: "",
    Path.touch: "",
}


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FILES)), st.sampled_from(list(EDITS))))
def test_every_edit_by_hand_is_seen_and_nothing_else(
    plan: dict[str, Callable[[Path], None]],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        tree = sealed(Path(place) / "product")
        probe = tree / "probe"
        probe.touch()
        # Kernel clocks tick: go on when a change is seen in a ctime.
        while probe.stat().st_ctime_ns <= (tree / "COMPLETE").stat().st_ctime_ns:
            probe.touch()
        expected = []
        for name, change in plan.items():
            change(package_of(tree) / name)
            added = str(Path(name).with_name("zz_" + Path(name).name))
            expected.append(EDITS[change].format(name=name, added=added))
        assert _release.drift(tree) == sorted(line for line in expected if line)


def test_bytecode_is_not_drift(tmp_path: Path) -> None:
    tree = sealed(tmp_path)
    cache = package_of(tree) / "srt/__pycache__"
    (cache / "server_args.cpython-311.pyc").write_bytes(b"other")
    (cache / "more.cpython-311.pyc").write_bytes(b"")
    assert _release.drift(tree) == []


def test_unchanged_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = sealed(tmp_path)
    monkeypatch.setattr(_verified, "sha256_file", None)
    assert _release.drift(tree) == []


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda tree: (tree / "COMPLETE").unlink(), "{tree}: not complete"),
        (
            lambda tree: (tree / "COMPLETE").write_text("0" * 64),
            "{tree}/tree.json: does not belong to COMPLETE",
        ),
        (lambda tree: (tree / "tree.json").unlink(), "{tree}/tree.json: does not belong"),
        (lambda tree: (tree / "tree.json").write_text("{}"), "{tree}/tree.json: does not belong"),
        (
            lambda tree: (tree / "tree.json").write_text(
                (tree / "tree.json").read_text().replace("kernel.cu", "kernel.cX")
            ),
            "{tree}/tree.json: does not belong to COMPLETE",
        ),
        (lambda tree: shutil.rmtree(tree / "venv"), "{tree}: no virtual environment"),
    ],
)
def test_a_damaged_release_is_seen(
    tmp_path: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    tree = sealed(tmp_path)
    damage(tree)
    found = _release.drift(tree)
    assert len(found) == 1
    assert found[0].startswith(sentence.format(tree=tree))


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
    _release.extract_tool(wheel, "uv", target)
    assert target.read_text() == "#!/bin/sh\n"
    assert os.access(target, os.X_OK)
    assert [path.name for path in target.parent.iterdir()] == ["uv-1"]
    with pytest.raises(ReleaseError, match=r"uv-1-py3-none-any\.whl holds no binary nope"):
        _release.extract_tool(wheel, "nope", target)


def test_what_is_installed_is_compared_with_the_lock(tmp_path: Path) -> None:
    for name in ("torch-2.13.0+cpu.dist-info", "Sgl_Kernel-0.3.21.dist-info", "torch", "a-b"):
        (tmp_path / name).mkdir()
    found = _release.installed(tmp_path)
    assert found == {"torch": "2.13.0+cpu", "sgl-kernel": "0.3.21"}
    assert _release.compare_installed(found, found) == []
    wanted = {"torch": "2.13.0", "sglang": "0.5.9"}
    assert _release.compare_installed(wanted, found) == [
        "sglang: the lock says 0.5.9, installed is nothing",
        "torch: the lock says 2.13.0, installed is 2.13.0+cpu",
        "sgl-kernel 0.3.21: installed, but not in the lock",
    ]
