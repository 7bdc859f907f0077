# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import importlib.util
import os
import py_compile
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.files import (
    locked,
    replace_all,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_other_hard_links_keep_the_old_bytes(tmp_path: Path) -> None:
    cached, installed = tmp_path / "cached.py", tmp_path / "installed.py"
    cached.write_bytes(b"old")
    installed.hardlink_to(cached)
    replace_all({installed: b"new"})
    assert (cached.read_bytes(), installed.read_bytes()) == (b"old", b"new")
    assert installed.stat().st_nlink == cached.stat().st_nlink == 1


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o444, 0o600])
def test_mode_and_owner_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    path.chmod(mode)
    before = path.stat()
    replace_all({path: b"new"})
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert names(tmp_path) == ["x.py"]


def test_extended_attributes_stay(tmp_path: Path) -> None:
    """An SELinux label is one; the user namespace has the same interface and needs no SELinux."""
    path = tmp_path / "x.py"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.label", b"sglang_code_t")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    replace_all({path: b"new"})
    assert os.getxattr(path, "user.label") == b"sglang_code_t"


def test_all_or_none(tmp_path: Path) -> None:
    """A folder in the place of the second file makes its replacement fail."""
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_bytes(b"old")
    first.chmod(0o640)
    second.mkdir()
    (second / "inside").write_bytes(b"")
    with pytest.raises(PatchError, match=r"cannot be written: .*nothing was changed"):
        replace_all({first: b"new", tmp_path / "new.json": b"{}", second: b"new"})
    assert first.read_bytes() == b"old"
    assert first.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["a.py", "b.py"]


def test_a_file_that_is_put_back_after_the_first_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{index}.py" for index in range(3)]
    for path in paths[:2]:
        path.write_bytes(b"old")
    real = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target == paths[2]:
            raise OSError(28, "No space left on device", str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(PatchError, match=r"No space left.*free some space"):
        replace_all(dict.fromkeys(paths, b"new"))
    assert [path.read_bytes() for path in paths[:2]] == [b"old", b"old"]
    assert names(tmp_path) == ["0.py", "1.py"]


def test_a_killed_run_leaves_nothing_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"old")
    (tmp_path / ".x.py.sm120-patch-abc").write_bytes(b"half")
    (tmp_path / ".y.py.sm120-patch-abc").write_bytes(b"half")
    replace_all({path: b"new"})
    assert names(tmp_path) == [".y.py.sm120-patch-abc", "x.py"]


def test_no_old_bytecode_survives(tmp_path: Path) -> None:
    path = tmp_path / "mod.py"
    path.write_text("value = 1\n")
    for name in ("mod.py", "mode.py"):
        (tmp_path / name).write_text("value = 1\n")
        py_compile.compile(
            str(tmp_path / name), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    replace_all({path: b"value = 2\n"})
    code = "import mod, mode; print(mod.value, mode.value)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "1"]
    other = Path(importlib.util.cache_from_source(str(tmp_path / "mode.py")))
    assert other.exists()


def test_a_second_run_waits_for_the_first(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path):
            order.append("second")

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)  # long enough for the other to get in, were there no lock
        order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "second"]
    assert names(tmp_path) == []


def test_a_lock_that_is_never_given_up_is_named(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with (
            pytest.raises(PatchError, match=r"another run has held"),
            locked(tmp_path, seconds=0.1),
        ):
            pass
    finally:
        os.close(descriptor)
    with locked(tmp_path, seconds=0.1):
        pass
