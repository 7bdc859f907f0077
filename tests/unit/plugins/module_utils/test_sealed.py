# SPDX-License-Identifier: Apache-2.0
"""Trees in which everything that can be changed by hand is changed by hand."""

from __future__ import annotations

import os
import py_compile
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _sealed
from hypothesis import given, settings
from hypothesis import strategies as st

OWN = "venv/lib/python3.11/site-packages/sglang"
REST = "venv/lib/python3.11/site-packages/torch"
FILES = (f"{OWN}/__init__.py", f"{OWN}/srt/x.py", f"{REST}/__init__.py", f"{REST}/a file.txt")
LEFT_OUT = ("COMPLETE", "SUMS")


class Tree:
    """A tree with its listing, as it is after sealing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in FILES:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"name = {name!r}\n")
            if name.endswith(".py"):
                py_compile.compile(str(root / name))
        (root / "patches.json").write_text("{}")
        (root / "venv/lib64").symlink_to("lib")
        (root / "venv/a link").symlink_to("a target -> of it")
        self.listing = _sealed.scan(root, OWN, LEFT_OUT)
        _sealed.write_sums(root, _sealed.parse(self.listing.split(b"\0")), root / "SUMS", {})
        # Kernel clocks tick: what changes from now on has another ctime.
        probe = root / "COMPLETE"
        probe.touch()
        start = probe.stat().st_ctime_ns
        while probe.stat().st_ctime_ns == start:
            probe.touch()

    def changes(self) -> list[_sealed.Change]:
        now = _sealed.scan(self.root, OWN, LEFT_OUT)
        return _sealed.compare(self.root, self.listing, now, self.root / "SUMS")

    def told(self) -> list[str]:
        return [f"{change['file']}: {change['what']}" for change in self.changes()]

    def read_all(self) -> list[str]:
        found = _sealed.read_all(self.root, self.listing, self.root / "SUMS")
        return [f"{change['file']}: {change['what']}" for change in found]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


def write(path: Path) -> None:
    path.write_text("other = 1  # longer than it was before, whatever it was before\n")


def swap(path: Path) -> None:
    """Same size, and the time restored."""
    status = path.stat()
    path.write_text(path.read_text().swapcase())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


def replace_with_the_same(path: Path) -> None:
    copy = path.parents[len(path.parents) - 2] / "copy"
    copy = Path(f"{path}.copy")
    shutil.copy(path, copy)
    copy.replace(path)


def share(path: Path) -> None:
    """Another tree gets the file by a hard link."""
    outside = Path(tempfile.mkdtemp(dir=path.anchor + "tmp"))
    try:
        os.link(path, outside / "shared")
    except OSError:
        pytest.skip("the temporary folders are on several file systems")
    finally:
        shutil.rmtree(outside)


def add(path: Path) -> None:
    Path(f"{path}.added").write_text("added")


def to_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


EDITS: dict[Callable[[Path], None], str] = {
    write: "{name}: changed by hand",
    Path.unlink: "{name}: missing",
    add: "{name}.added: added by hand",
    to_link: "{name}: replaced by something else",
    to_folder: "{name}: replaced by something else",
    lambda path: path.chmod(0o600): "{name}: mode is 600, not 644",
    touch: "",
    replace_with_the_same: "",
    share: "",
}


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(FILES), st.sampled_from(list(EDITS))))
def test_every_edit_by_hand_is_seen_and_nothing_else(
    plan: dict[str, Callable[[Path], None]],
) -> None:
    before = os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory() as place:
            tree = Tree(Path(place) / "tree")
            for name, change in plan.items():
                change(tree.root / name)
            expected = (EDITS[change].format(name=name) for name, change in plan.items())
            assert tree.told() == sorted(line for line in expected if line)
    finally:
        os.umask(before)


def test_of_the_engine_an_edit_cannot_hide_behind_its_time(tree: Tree) -> None:
    """Its files are shared with no other tree, so the ctime counts; for the rest one reads all."""
    for name in FILES:
        swap(tree.root / name)
    assert tree.told() == [f"{name}: changed by hand" for name in FILES if name.startswith(OWN)]
    assert tree.read_all() == [f"{name}: changed by hand" for name in sorted(FILES)]


def test_unchanged_files_are_not_read(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sealed, "_sum", None)
    assert tree.changes() == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda root: shutil.rmtree(root / REST), [f"{REST}: missing"]),
        (lambda root: (root / REST).chmod(0o777), [f"{REST}: mode is 777, not 755"]),
        (lambda root: root.chmod(0o700), [".: mode is 700, not 755"]),
        (
            lambda root: shutil.copytree(root / REST, root / f"{REST}2"),
            [f"{REST}2: added by hand"],
        ),
        (
            lambda root: (root / REST / "../sitecustomize.py").write_text("x"),
            [f"{REST.removesuffix('torch')}sitecustomize.py: added by hand"],
        ),
        (
            lambda root: (root / "patches.json").write_text("[]\n"),
            ["patches.json: changed by hand"],
        ),
        (
            lambda root: ((root / "venv/lib64").unlink(), (root / "venv/lib64").symlink_to("/usr")),
            ["venv/lib64: points to /usr, not lib"],
        ),
        (lambda root: (root / "venv/lib64").unlink(), ["venv/lib64: missing"]),
    ],
)
def test_folders_and_links(
    tree: Tree, change: Callable[[Path], object], expected: list[str]
) -> None:
    tree.root.chmod(0o755)
    (tree.root / REST).chmod(0o755)
    tree.listing = _sealed.scan(tree.root, OWN, LEFT_OUT)
    change(tree.root)
    assert tree.told() == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners_are_seen_and_put_back(tree: Tree) -> None:
    for name in (FILES[0], "venv/lib64"):
        os.chown(tree.root / name, 65534, 65534, follow_symlinks=False)
    expected = [
        f"{name}: owner is 65534:65534, not 0:0" for name in sorted([FILES[0], "venv/lib64"])
    ]
    assert tree.told() == expected
    _sealed.mend(tree.root, tree.listing, tree.changes())
    assert tree.changes() == []


def test_what_was_added_says_since_when(tree: Tree) -> None:
    before = time.time() - 1
    (tree.root / f"{REST}/x.pth").touch()
    (added,) = tree.changes()
    assert before < added["since"] < time.time() + 1
    assert added["mend"] == _sealed.HERE


def test_mending_in_place_leaves_what_was_sealed(tree: Tree) -> None:
    (tree.root / FILES[0]).chmod(0o4711)
    (tree.root / REST).chmod(0o700)
    shutil.copytree(tree.root / REST, tree.root / f"{REST}2")
    (tree.root / f"{REST}/link").symlink_to("nowhere")
    (tree.root / f"{REST}/folder link").symlink_to(tree.root / OWN)
    changes = tree.changes()
    assert {change["mend"] for change in changes} == {_sealed.HERE}
    _sealed.mend(tree.root, tree.listing, changes)
    assert tree.changes() == []
    assert (tree.root / FILES[0]).is_file()  # what a link led to is not what was added
    _sealed.mend(tree.root, tree.listing, changes)  # somebody else was faster
    assert tree.changes() == []


def bytecode(tree: Tree, name: str = FILES[1]) -> Path:
    (found,) = (tree.root / name).parent.glob("__pycache__/x*.pyc")
    return found


def renew(path: Path, content: bytes) -> None:
    """As Python writes bytecode: a new file under the old name."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: shutil.rmtree(path.parent),
        lambda path: renew(path, path.read_bytes()),
        lambda path: (path.parent / "gone.cpython-311.pyc").write_bytes(b"without a source"),
        lambda path: (path.parent / f"{path.stem}.opt-1.pyc").write_bytes(path.read_bytes()),
        # Compared with the source's hash whenever it is loaded.
        lambda path: renew(path, path.read_bytes()[:4] + b"\3\0\0\0" + bytes(8)),
    ],
    ids=["gone", "folder gone", "written anew", "without source", "optimised", "checked hash"],
)
def test_bytecode_that_python_writes_is_no_drift(
    tree: Tree, change: Callable[[Path], object]
) -> None:
    change(bytecode(tree))
    assert tree.told() == []


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 16, b"\0\0\0\0\1\0\0\0" + b"\0" * 8],
    ids=["empty", "another time", "unchecked hash"],
)
def test_bytecode_of_another_source_is_seen_and_removed(tree: Tree, content: bytes) -> None:
    path = bytecode(tree)
    renew(path, content)
    name = path.relative_to(tree.root)
    assert tree.told() == [f"{name}: bytecode that does not belong to its source"]
    _sealed.mend(tree.root, tree.listing, tree.changes())
    assert tree.told() == []
    assert not path.exists()


def test_bytecode_with_other_code_is_found_by_reading_all(tree: Tree) -> None:
    path = bytecode(tree)
    renew(path, path.read_bytes()[:16] + b"other code")
    assert tree.told() == []
    name = path.relative_to(tree.root)
    assert tree.read_all() == [f"{name}: not the bytecode that was sealed"]


def test_names_that_find_could_take_for_something_else(tmp_path: Path) -> None:
    names = ["-delete", "[a]", "a\\b", "new\nline", "umlaut \u00e4", " blank", "\udcff"]
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in names:
        (tree / os.fsdecode(os.fsencode(name))).write_text("x")
    listing = _sealed.scan(tree, OWN, ())
    assert set(_sealed.parse(listing.split(b"\0"))) == {*names, "."}
    _sealed.write_sums(tree, _sealed.parse(listing.split(b"\0")), tmp_path / "sums", {})
    for name in names:
        (tree / name).write_text("xx")
    now = _sealed.scan(tree, OWN, ())
    found = _sealed.compare(tree, listing, now, tmp_path / "sums")
    assert [change["file"] for change in found] == sorted(names)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_not_missing(tree: Tree) -> None:
    (tree.root / REST).chmod(0)
    with pytest.raises(PermissionError):
        tree.changes()
    (tree.root / REST).chmod(0o755)


def test_another_order_of_the_file_system_is_no_change(tree: Tree) -> None:
    records = tree.listing.split(b"\0")[:-1]
    tree.listing = b"".join(record + b"\0" for record in reversed(records))
    assert tree.changes() == []
