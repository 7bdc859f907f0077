# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import Edit, apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import ManifestError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import (
    Manifest,
    Step,
    dump,
    load,
    sha256,
    undo,
)
from hypothesis import given
from hypothesis import strategies as st


def chain(data: bytes, edits: list[Edit]) -> list[Step]:
    steps = []
    for index, edit in enumerate(edits):
        new = apply_edits(data, [edit])
        steps.append(Step(f"p{index}", "r", "needed", "why", sha256(data), sha256(new), (edit,)))
        data = new
    return steps


@given(st.binary(max_size=20), st.lists(st.binary(min_size=1, max_size=4), max_size=4))
def test_a_record_survives_the_disk_and_undoes_to_the_byte(data: bytes, texts: list[bytes]) -> None:
    steps = chain(data, [Edit(0, b"", text) for text in texts])
    record = Manifest("0.5.9", {"srt/x.py": steps} if steps else {})
    again = from_bytes(dump(record))
    assert again == record
    last = b"".join(reversed(texts)) + data
    assert undo(last, again.steps.get("srt/x.py", [])) == data


def from_bytes(content: bytes) -> Manifest:
    class Memory:
        def read_text(self, _encoding: str) -> str:
            return content.decode()

    memory: Any = Memory()
    return load(memory)


def test_checksums_tell_which_steps_stand() -> None:
    steps = chain(b"a", [Edit(0, b"", b"1"), Edit(0, b"", b"2")])
    record = Manifest("", {"x": steps})
    assert record.standing("x", b"21a") == steps
    assert record.standing("x", b"1a") == steps[:1]
    assert record.standing("x", b"a") == []
    assert record.standing("x", b"other") == []
    assert record.standing("y", b"21a") == []


def test_a_missing_file_is_an_empty_record(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json") == Manifest()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "is damaged"),
        ("{}", "is damaged"),
        ('{"format": 9, "files": {}}', "has format 9, known is 1"),
        ('{"format": 1, "release": "", "files": {"x": [{}]}}', "is damaged"),
        ('{"format": 1, "release": "", "files": []}', "is damaged"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, content: str, cause: str) -> None:
    path = tmp_path / "patches.json"
    path.write_text(content)
    with pytest.raises(ManifestError, match=cause):
        load(path)


def test_damaged_bytes_in_a_record_are_named(tmp_path: Path) -> None:
    record = Manifest("", {"x": chain(b"a", [Edit(0, b"", b"1")])})
    content = json.loads(dump(record))
    content["files"]["x"][0]["edits"][0]["new"] = "%%%"
    path = tmp_path / "patches.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ManifestError, match="is damaged"):
        load(path)


def test_a_record_that_does_not_fit_is_refused() -> None:
    steps = chain(b"a", [Edit(0, b"", b"1")])
    with pytest.raises(ManifestError, match="does not fit"):
        undo(b"zz", steps)
    with pytest.raises(ManifestError, match="does not give the bytes"):
        undo(b"1zz", steps)
