# SPDX-License-Identifier: Apache-2.0
"""Releases that an earlier version sealed: tree.json, rest.json, one digest in COMPLETE."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _release

PACKAGES = "venv/lib/python3.11/site-packages"
ENGINE = {"__init__.py": "a = 1\n", "srt/server_args.py": "x = 1\n"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What that version left on a node, field by field."""
    root = tmp_path / "releases/r1"
    packages = root / PACKAGES
    for name, text in ENGINE.items():
        (packages / "sglang" / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / "sglang" / name).write_text(text)
    (packages / "sgl_kernel").mkdir()
    (packages / "sgl_kernel/kernel.py").write_text("k = 1\n")
    (packages / "link.py").symlink_to("sgl_kernel/kernel.py")
    (packages / "nowhere.py").symlink_to("nowhere")
    record = {}
    for name in ENGINE:
        path = packages / "sglang" / name
        status = path.stat()
        record[name] = [
            hashlib.sha256(path.read_bytes()).hexdigest(),
            *(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino),
        ]
    (root / "tree.json").write_text(json.dumps(record, sort_keys=True))
    status = (packages / "sgl_kernel/kernel.py").stat()
    seen = [status.st_size, status.st_mtime_ns]
    rest = {f"{PACKAGES}/{name}": seen for name in ("sgl_kernel/kernel.py", "link.py")}
    (root / "rest.json").write_text(json.dumps(rest))
    content = sorted((name, entry[0]) for name, entry in record.items())
    (root / "COMPLETE").write_text(hashlib.sha256(json.dumps(content).encode()).hexdigest() + "\n")
    return root


def told(tree: Path, full: bool = False) -> list[str]:
    return [f"{change['file']}: {change['what']}" for change in _release.drift(tree, full)]


@pytest.mark.parametrize("full", [False, True])
def test_it_stays_as_it_is(tree: Path, full: bool) -> None:
    cache = tree / PACKAGES / "sglang/__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-311.pyc").write_bytes(b"code")
    os.utime(tree / PACKAGES / "sglang/__init__.py", (1, 1))
    assert told(tree, full) == []


def test_one_that_was_sealed_without_the_rest_stays_too(tree: Path) -> None:
    (tree / "rest.json").unlink()
    assert told(tree) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda place: (place / "sglang/x.py").touch(), "sglang/x.py: added by hand"),
        (lambda place: (place / "sglang/__init__.py").unlink(), "sglang/__init__.py: missing"),
        (
            lambda place: (place / "sglang/__init__.py").write_text("b = 1\n"),
            "sglang/__init__.py: changed by hand",
        ),
        (
            lambda place: (place / "link.py").unlink(),
            "link.py: missing",
        ),
        (
            lambda place: shutil.rmtree(place / "sgl_kernel"),
            "link.py: missing",
        ),
    ],
)
def test_what_it_tells(tree: Path, change: Callable[[Path], object], expected: str) -> None:
    change(tree / PACKAGES)
    assert told(tree)[0] == f"{PACKAGES}/{expected}"
    assert _release.needs_building(_release.drift(tree))


def test_a_record_that_belongs_to_another_tree(tree: Path) -> None:
    (tree / "tree.json").write_text("{}")
    assert told(tree) == ["tree.json: does not belong to COMPLETE"]
