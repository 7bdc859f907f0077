# SPDX-License-Identifier: Apache-2.0
"""What a new release may take over from a complete one."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _release,
    _sealed,
    _takeover,
)
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin

PACKAGES = "venv/lib/python3.11/site-packages"
A, B, C = "a" * 64, "b" * 64, "c" * 64
TORCH, NUMPY = Pin("torch", "2", (A,)), Pin("numpy", "1", (B,))
ENGINE = Pin("sglang", "0.5.9", (C,))


def inside(name: str) -> str:
    return f"{PACKAGES}/{name}"


FILES = {
    "torch": {inside("torch/__init__.py"): A, inside("torch-2.dist-info/RECORD"): ""},
    "numpy": {inside("numpy/__init__.py"): B, inside("numpy-1.dist-info/RECORD"): ""},
    "sglang": {inside("sglang/__init__.py"): C},
}
CODE = inside("torch/__pycache__/__init__.cpython-311.pyc")


def entry(kind: str) -> _sealed.Entry:
    return _sealed.Entry(kind, "644", "0:0", ("1", "2"))


def donor(**changes: Any) -> _takeover.Donor:
    names = {name: digest for files in FILES.values() for name, digest in files.items()}
    entries = {name: entry("p" if "/sglang/" in name else "f") for name in names}
    entries[inside("torch/__pycache__")] = entry("c")
    whole = _takeover.Donor(
        tree=Path("/opt/sglang/releases/r1"),
        pins=frozenset({TORCH, NUMPY, ENGINE}),
        packages=PACKAGES,
        entries=entries,
        sums={**{name: digest or C for name, digest in names.items()}, CODE: C},
        sealed_at=10**18,
        tag="cpython-311",
    )
    return dataclasses.replace(whole, **changes)


def test_the_same_wheels_are_taken_and_the_engine_never() -> None:
    assert _takeover.packages(donor(), [TORCH, NUMPY, ENGINE], FILES) == {"torch", "numpy"}


@pytest.mark.parametrize(
    "pin",
    [
        Pin("torch", "2", (B,)),
        Pin("torch", "3", (A,)),
        Pin("torch", "2"),
        Pin("torch", "2", (A, B)),
    ],
    ids=["another wheel", "another version", "no digest", "any of two wheels"],
)
def test_another_wheel_is_not_taken(pin: Pin) -> None:
    both = donor(pins=frozenset({pin, NUMPY})) if len(pin.hashes) != 1 else donor()
    assert _takeover.packages(both, [pin, NUMPY], FILES) == {"numpy"}


def without(found: _takeover.Donor, name: str) -> _takeover.Donor:
    entries = {key: value for key, value in found.entries.items() if key != name}
    return dataclasses.replace(found, entries=entries)


FILE = inside("torch/__init__.py")


@pytest.mark.parametrize(
    ("change", "files"),
    [
        (lambda found: without(found, FILE), FILES),
        (lambda found: dataclasses.replace(found, sums={**found.sums, FILE: B}), FILES),
        (
            lambda found: dataclasses.replace(found, entries={**found.entries, FILE: entry("l")}),
            FILES,
        ),
        (
            lambda found: dataclasses.replace(found, entries={**found.entries, FILE: entry("p")}),
            FILES,
        ),
        (lambda found: found, {**FILES, "torch": {}}),
        (lambda found: found, {**FILES, "torch": {FILE: ""}}),
        (lambda found: found, {**FILES, "other": {FILE: A}}),
    ],
    ids=[
        "changed since",
        "sealed with other content",
        "a link",
        "in the engine's package",
        "no RECORD",
        "a file without digest",
        "a file that another package has too",
    ],
)
def test_a_package_that_is_not_certainly_its_wheel_is_not_taken(
    change: Callable[[_takeover.Donor], _takeover.Donor], files: dict[str, dict[str, str]]
) -> None:
    assert _takeover.packages(change(donor()), [TORCH, NUMPY], files) == {"numpy"}


def test_what_is_left_out_leaves_out_what_it_shares_files_with() -> None:
    shared = inside("nvidia/__init__.py")
    files = {
        "a": {inside("a.py"): A, shared: A},
        "b": {shared: A, inside("b.py"): B},
        "c": {inside("b.py"): B, inside("c.py"): C},
    }
    pins = [Pin(name, "1", (A,)) for name in files]
    names = {name: digest for one in files.values() for name, digest in one.items()}
    found = donor(pins=frozenset(pins), sums=names, entries={name: entry("f") for name in names})
    assert _takeover.packages(found, pins, files) == set(files)
    assert _takeover.packages(found, pins[:2], files) == set()


def test_the_release_that_shares_most_comes_first_and_only_of_the_same_python() -> None:
    def candidate(name: str, *pins: Pin, python: str = "3.11.2") -> _takeover.Candidate:
        return _takeover.Candidate(Path(name), _release.Reading([]), frozenset(pins), python)

    less, most = candidate("r1", NUMPY, ENGINE), candidate("r2", TORCH, NUMPY)
    other = candidate("r3", TORCH, NUMPY, ENGINE, python="3.11.3")
    only_engine = candidate("r4", ENGINE)
    lock = [TORCH, NUMPY, ENGINE]
    assert _takeover.rank([less, most, other, only_engine], "3.11.2", lock) == [most, less]
    assert _takeover.rank([other, only_engine], "3.11.2", lock) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (donor(), CODE),
        (without(donor(), FILE), None),
        (without(donor(), inside("torch/__pycache__")), None),
        (donor(sums={FILE: A}), None),
        (donor(tag="cpython-312"), None),
    ],
    ids=["as sealed", "source changed", "folder written to", "none sealed", "another Python"],
)
def test_which_bytecode_is_taken(found: _takeover.Donor, expected: str | None) -> None:
    assert found.bytecode_of(FILE) == expected
    assert found.bytecode_of(inside("torch/data.txt")) is None


def test_bytecode_that_was_written_in_place_is_told_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "x.pyc"
    path.touch()
    sealed = donor(sealed_at=path.stat().st_mtime_ns)
    assert sealed.unwritten(path.lstat())
    os.utime(path, ns=(0, sealed.sealed_at + 1))
    assert not sealed.unwritten(path.lstat())
    path.unlink()
    path.symlink_to("elsewhere")
    os.utime(path, ns=(0, 0), follow_symlinks=False)
    assert not sealed.unwritten(path.lstat())


@pytest.mark.parametrize(
    "line",
    ["../../../../../etc/passwd,,", "x.py,md5=abc,1", "x.py", "x.py,sha256=%%%,1,2"],
)
def test_a_record_that_leaves_the_environment_or_is_none(line: str) -> None:
    with pytest.raises(ValueError, match="RECORD"):
        _built.wheel_files(f"{line}\n", PACKAGES)


def test_a_record_with_scripts_and_commas() -> None:
    text = '../../../bin/x,sha256=ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs,1\n"a,b.py",,\n'
    assert _built.wheel_files(text, PACKAGES) == {
        "venv/bin/x": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
        inside("a,b.py"): "",
    }


def test_where_there_are_no_more_links_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    monkeypatch.setattr(os, "link", refuse)
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("x")
    os.utime(source, (1, 1))
    _takeover.link(str(source), str(target))
    assert (target.read_text(), target.stat().st_mtime) == ("x", 1.0)


def test_a_full_disk_is_not_taken_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    (tmp_path / "a").touch()
    with pytest.raises(OSError, match="No space"):
        _takeover.link(str(tmp_path / "a"), str(tmp_path / "b"))
