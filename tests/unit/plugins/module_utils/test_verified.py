# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _verified
from ansible_collections.sm120.sglang.plugins.module_utils._verified import Wanted
from hypothesis import given, settings
from hypothesis import strategies as st

DIGEST = "0" * 64


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wanted_of(files: dict[str, bytes]) -> list[Wanted]:
    return [Wanted(name, sha(content), len(content)) for name, content in sorted(files.items())]


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def wait_for_a_new_ctime(path: Path) -> None:
    """Return when a change made from now on is seen in the file's ctime (kernel clock ticks)."""
    probe = path.with_name(".probe")
    probe.touch()
    while probe.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        probe.touch()
    probe.unlink()


def test_descriptions_are_sorted_by_name() -> None:
    raw = [
        {"name": "b/c.bin", "sha256": DIGEST, "size": 0},
        {"name": "a.json", "sha256": "f" * 64, "size": 7},
    ]
    assert _verified.parse_wanted(raw) == [
        Wanted("a.json", "f" * 64, 7),
        Wanted("b/c.bin", DIGEST, 0),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../x"}, "'../x' must be relative and stay"),
        ({"name": "a/../../x"}, "must be relative and stay"),
        ({"name": "/etc/passwd"}, "must be relative and stay"),
        ({"name": ""}, "must be relative and stay"),
        ({"name": "."}, "must be relative and stay"),
        ({"sha256": "F" * 64}, "is not a sha256 in lower case"),
        ({"sha256": "0" * 63}, "is not a sha256"),
        ({"sha256": None}, "'None' is not a sha256"),
        ({"size": -1}, "size -1 is not a number of bytes"),
        ({"size": "7"}, "size '7' is not a number of bytes"),
        ({"size": True}, "size True is not a number of bytes"),
    ],
)
def test_a_bad_description_is_named(change: dict[str, Any], message: str) -> None:
    entry = {"name": "a", "sha256": DIGEST, "size": 1}
    with pytest.raises(_verified.VerifyError, match=re.escape(message)):
        _verified.parse_wanted([{**entry, **change}])


@pytest.mark.parametrize("key", ["name", "sha256", "size"])
def test_a_description_without_a_key_is_refused(key: str) -> None:
    entry = {"name": "a", "sha256": DIGEST, "size": 1}
    with pytest.raises(_verified.VerifyError, match="needs name, sha256 and size"):
        _verified.parse_wanted([{k: v for k, v in entry.items() if k != key}])


def test_a_file_is_described_once() -> None:
    entry = {"name": "a", "sha256": DIGEST, "size": 1}
    with pytest.raises(_verified.VerifyError, match="a: described twice"):
        _verified.parse_wanted([entry, entry])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "m.json: a manifest maps"),
        ({}, "m.json: a manifest maps"),
        ("text", "m.json: a manifest maps"),
        ({"a": "digest"}, "m.json: a needs sha256 and size"),
        ({"a": {"sha256": DIGEST}}, "m.json: a needs sha256 and size"),
        ({"../a": {"sha256": DIGEST, "size": 1}}, "stay in its folder"),
    ],
)
def test_a_bad_manifest_is_named(raw: object, message: str) -> None:
    with pytest.raises(_verified.VerifyError, match=re.escape(message)):
        _verified.parse_manifest(raw, "m.json")


FILES = {"config.json": b"{}", "model/a.safetensors": bytes(1000), "empty": b""}


def test_large_files_are_read_to_the_end(tmp_path: Path) -> None:
    content = bytes(_verified._BLOCK) + b"tail"
    (tmp_path / "a").write_bytes(content)
    assert _verified.sha256_file(tmp_path / "a") == sha(content)


@pytest.mark.parametrize("kind", ["nothing", "folder", "dangling", "device"])
def test_only_a_regular_file_has_a_fingerprint(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    if kind == "folder":
        path.mkdir()
    if kind == "dangling":
        path.symlink_to("nowhere")
    if kind == "device":
        path = Path("/dev/null")
    assert _verified.fingerprint(path) is None


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\x00"])
def test_an_unreadable_record_counts_as_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "r").write_text(content)
    assert _verified.load_record(tmp_path / "r") == {}
    assert _verified.load_record(tmp_path / "none") == {}


def test_a_record_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "r"
    _verified.save_record(path, {"a": 1, "b": [2]})
    _verified.save_record(path, {"b": [3]})
    assert _verified.load_record(path) == {"b": [3]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, FILES)
    wanted, record = wanted_of(FILES), dict[str, Any]()
    seen = _verified.inspect(tmp_path, wanted, record)
    assert (seen.missing, seen.verified, seen.complete) == ((), (), False)
    assert set(seen.unverified) == set(FILES)
    assert _verified.verify(tmp_path, wanted, record, seen.unverified) == []
    record = json.loads(json.dumps(record))  # as it comes back from disk
    monkeypatch.setattr(_verified, "sha256_file", None)  # reading again would fail
    seen = _verified.inspect(tmp_path, wanted, record)
    assert seen.complete
    assert set(seen.verified) == set(FILES)


# What can happen to a verified file behind our back, and how it has to be seen:
# missing, unverified and then right or wrong, or still verified.
def _remove(path: Path) -> None:
    path.unlink()


def _become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    """The hard one: same size, modification time restored."""
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=times)


def _replace_wrong(path: Path) -> None:
    other = path.with_name(".other")
    other.write_bytes(bytes(byte ^ 255 for byte in path.read_bytes()))
    other.replace(path)


def _touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


def _hard_link(path: Path) -> None:
    os.link(path, path.with_name(path.name + ".link"))


def _copy(path: Path) -> None:
    shutil.copy(path, path.with_name(".copy"))
    path.with_name(".copy").replace(path)


def _nothing(path: Path) -> None:
    assert path.is_file()


MUTATIONS: dict[Callable[[Path], None], str] = {
    _remove: "missing",
    _become_folder: "missing",
    _append: "missing",
    _truncate: "missing",
    _flip: "wrong",
    _replace_wrong: "wrong",
    _touch: "right",
    _hard_link: "right",
    _copy: "right",
    _nothing: "verified",
}


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.from_regex(r"(d/)?[a-z]{1,3}\.bin", fullmatch=True),
        st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from(list(MUTATIONS))),
        min_size=1,
        max_size=5,
    )
)
def test_whatever_happens_to_files_is_seen(
    plan: dict[str, tuple[bytes, Callable[[Path], None]]],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = {name: content for name, (content, _) in plan.items()}
        write(folder, files)
        wanted, record = wanted_of(files), dict[str, Any]()
        assert _verified.verify(folder, wanted, record, files) == []
        wait_for_a_new_ctime(folder / next(reversed(files)))
        for name, (_, mutate) in plan.items():
            mutate(folder / name)

        def names(*outcomes: str) -> set[str]:
            return {name for name, (_, mutate) in plan.items() if MUTATIONS[mutate] in outcomes}

        seen = _verified.inspect(folder, wanted, record)
        assert set(seen.missing) == names("missing")
        assert set(seen.unverified) == names("wrong", "right")
        assert set(seen.verified) == names("verified")
        wrong = _verified.verify(folder, wanted, record, seen.unverified)
        assert {line.partition(": sha256 is ")[0] for line in wrong} == {
            str(folder / name) for name in names("wrong")
        }
        after = _verified.inspect(folder, wanted, record)
        assert set(after.verified) == names("verified", "right")
        assert set(after.unverified) == names("wrong")  # never entered in the record


def test_a_record_for_another_digest_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, {"a": b"old"})
    record: dict[str, Any] = {}
    _verified.verify(tmp_path, wanted_of({"a": b"old"}), record, ["a"])
    seen = _verified.inspect(tmp_path, wanted_of({"a": b"new"}), record)
    assert seen.unverified == ("a",)


def test_a_file_that_changes_while_it_is_read_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a": b"text"})
    wait_for_a_new_ctime(tmp_path / "a")
    read = _verified.sha256_file

    def read_while_written(path: Path) -> str:
        digest = read(path)
        path.write_bytes(b"TEXT")
        return digest

    monkeypatch.setattr(_verified, "sha256_file", read_while_written)
    record: dict[str, Any] = {"a": "stale"}
    wrong = _verified.verify(tmp_path, wanted_of({"a": b"text"}), record, ["a"])
    assert wrong == [f"{tmp_path / 'a'}: changed while it was read"]
    assert record == {}


def test_a_right_file_is_adopted(tmp_path: Path) -> None:
    arrived, folder = tmp_path / "part0", tmp_path / "models" / "x"
    arrived.write_bytes(b"weights")
    entry = Wanted("d/model.bin", sha(b"weights"), 7)
    record: dict[str, Any] = {}
    folder.mkdir(parents=True)
    assert _verified.adopt(arrived, folder, entry, 0o640, record) is None
    target = folder / "d/model.bin"
    assert target.read_bytes() == b"weights"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["model.bin"]
    assert _verified.inspect(folder, [entry], record).complete  # known without reading it again


def test_a_wrong_file_never_has_the_wanted_name(tmp_path: Path) -> None:
    arrived = tmp_path / "part0"
    arrived.write_bytes(b"wXights")
    record: dict[str, Any] = {}
    entry = Wanted("model.bin", sha(b"weights"), 7)
    folder = tmp_path / "m"
    problem = _verified.adopt(arrived, folder, entry, 0o644, record)
    assert problem is not None
    assert sha(b"wXights") in problem
    assert sha(b"weights") in problem
    assert (list(folder.iterdir()), record) == ([], {})


def test_a_wrong_file_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"old")
    (tmp_path / "part0").write_bytes(b"wrong")
    # What an earlier, interrupted transfer left is written over.
    (tmp_path / ".model.bin.partial").write_bytes(b"half of something longer")
    entry = Wanted("model.bin", sha(b"weights"), 7)
    assert _verified.adopt(tmp_path / "part0", tmp_path, entry, 0o644, {}) is not None
    assert (tmp_path / "model.bin").read_bytes() == b"old"
    (tmp_path / "part0").write_bytes(b"weights")
    (tmp_path / ".model.bin.partial").write_bytes(b"half of something longer")
    assert _verified.adopt(tmp_path / "part0", tmp_path, entry, 0o644, {}) is None
    assert (tmp_path / "model.bin").read_bytes() == b"weights"


def test_a_file_that_arrived_beside_its_folder_is_moved_and_known(tmp_path: Path) -> None:
    part, folder = tmp_path / "part", tmp_path / "folder"
    part.write_bytes(b"abc")
    part.chmod(0o600)
    digest = hashlib.sha256(b"abc").hexdigest()
    inode = part.stat().st_ino
    record: dict[str, Any] = {}
    entry = _verified.Wanted("sub/a", digest, 3)
    assert _verified.settle(part, folder, entry, 0o644, record) is None
    assert not part.exists()
    target = folder / "sub/a"
    assert (target.stat().st_ino, stat.S_IMODE(target.stat().st_mode)) == (inode, 0o644)
    assert _verified.inspect(folder, [entry], record).complete


def test_a_wrong_file_that_arrived_is_removed_and_never_in_place(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(b"abd")
    entry = _verified.Wanted("a", hashlib.sha256(b"abc").hexdigest(), 3)
    problem = _verified.settle(part, tmp_path / "folder", entry, 0o644, {})
    assert problem is not None
    assert "arrived with sha256" in problem
    assert not part.exists()
    assert not (tmp_path / "folder/a").exists()


def test_a_link_in_place_of_an_arrived_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"abc")
    (tmp_path / "part").symlink_to(tmp_path / "other")
    entry = _verified.Wanted("a", hashlib.sha256(b"abc").hexdigest(), 3)
    with pytest.raises(OSError, match="symbolic links"):
        _verified.settle(tmp_path / "part", tmp_path / "folder", entry, 0o644, {})
