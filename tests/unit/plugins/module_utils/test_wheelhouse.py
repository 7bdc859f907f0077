# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _verified, _wheelhouse
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin, normalise
from ansible_collections.sm120.sglang.plugins.module_utils._wheelhouse import WheelhouseError
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import parse_wheel_filename

TAGS = [
    "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "py3-none-any",
    "cp39-abi3-linux_x86_64",
]
WHEELS = st.tuples(
    st.from_regex(r"[a-z][a-z0-9]{0,4}([-_.][a-z0-9]{1,4}){0,2}", fullmatch=True),
    st.from_regex(
        r"[0-9]{1,2}(\.[0-9]{1,2}){0,2}(rc1|\.post2)?(\+cu130|\+lab\.cpu)?", fullmatch=True
    ),
    st.sampled_from(["", "-1", "-2local"]),
    st.sampled_from(TAGS),
)


@settings(max_examples=60)
@given(WHEELS)
def test_a_wheel_is_found_by_its_pin(wheel: tuple[str, str, str, str]) -> None:
    name, version, build, tag = wheel
    file_name = f"{re.sub('[-.]', '_', name)}-{version}{build}-{tag}.whl"
    # The packaging library agrees that this file is that package.
    assert parse_wheel_filename(file_name)[0] == normalise(name)
    pins = [Pin(normalise(name), version), Pin("other", "1")]
    assert _wheelhouse.match_wheels(pins, [file_name]) == ({normalise(name): file_name}, [])


@pytest.mark.parametrize(
    "name",
    [
        "a-1.0.tar.gz",
        "a-1.0-py3-none-any.whl.metadata",
        "a-2.0-py3-none-any.whl",
        "b-1.0-py3-none-any.whl",
        "a-1.0-py3-none.whl",
        "a-1.0-x-py3-none-any.whl",
        "not a wheel",
    ],
)
def test_other_files_are_spare(name: str) -> None:
    assert _wheelhouse.match_wheels([Pin("a", "1.0")], [name]) == ({}, [name])


def test_two_wheels_of_a_pin_are_refused() -> None:
    names = ["a_b-1.0-py3-none-any.whl", "A.B-1.0-cp311-cp311-linux_x86_64.whl"]
    with pytest.raises(WheelhouseError, match=r"two wheels of a-b 1\.0: .*remove both"):
        _wheelhouse.match_wheels([Pin("a-b", "1.0")], names)


def test_a_folder_belongs_to_lock_and_platform() -> None:
    name = _wheelhouse.folder_name("lab-py311", "0" * 64, ["--abi", "cp311"])
    assert re.fullmatch(r"lab-py311-[0-9a-f]{12}", name)
    assert name == _wheelhouse.folder_name("lab-py311", "0" * 64, ["--abi", "cp311"])
    assert name != _wheelhouse.folder_name("lab-py311", "1" * 64, ["--abi", "cp311"])
    assert name != _wheelhouse.folder_name("lab-py311", "0" * 64, ["--abi", "cp312"])


def test_requirements_allow_one_digest_each() -> None:
    pins = [Pin("a", "1", ("x", "y")), Pin("b", "2")]
    assert _wheelhouse.requirements(pins) == ("a==1 --hash=sha256:x --hash=sha256:y\nb==2\n")
    assert _wheelhouse.requirements(pins, {"a": "y", "b": "z"}) == (
        "a==1 --hash=sha256:y\nb==2 --hash=sha256:z\n"
    )


@pytest.fixture
def house(tmp_path: Path, make_wheel: object) -> Path:
    assert callable(make_wheel)
    make_wheel(tmp_path, "a", "1")
    make_wheel(tmp_path, "b", "2")
    return tmp_path


A, B = "a-1-py3-none-any.whl", "b-2-py3-none-any.whl"


def pins_of(house: Path) -> list[Pin]:
    return [Pin("a", "1", ("f" * 64, _verified.sha256_file(house / A))), Pin("b", "2")]


def test_wheels_are_described(house: Path) -> None:
    described = _wheelhouse.describe(house, pins_of(house), {"a": A, "b": B})
    assert described == [
        {
            "package": package,
            "name": name,
            "sha256": _verified.sha256_file(house / name),
            "size": (house / name).stat().st_size,
        }
        for package, name in (("a", A), ("b", B))
    ]


def test_a_wrong_digest_names_wheel_and_remedy(house: Path) -> None:
    with pytest.raises(
        WheelhouseError,
        match=rf"^{A}: sha256 [0-9a-f]{{64}} is not in the lock.*"
        rf"remove {re.escape(str(house / A))}",
    ):
        _wheelhouse.describe(house, [Pin("a", "1", ("f" * 64,))], {"a": A})


def test_missing_wheels_are_named(house: Path) -> None:
    with pytest.raises(WheelhouseError, match=r"no wheel for b==2, c==3"):
        _wheelhouse.describe(house, [*pins_of(house), Pin("c", "3")], {"a": A})


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def test_whole_wheels_are_usable(house: Path) -> None:
    assert _wheelhouse.unusable(house, pins_of(house), {}) == []


@pytest.mark.parametrize("name", [A, B])
def test_a_cut_off_wheel_is_not_usable(house: Path, name: str) -> None:
    pins = pins_of(house)
    cut(house / name)
    assert _wheelhouse.unusable(house, pins, {}) == [name]


def test_a_damaged_member_is_seen_without_a_digest(house: Path) -> None:
    content = bytearray((house / B).read_bytes())
    content[content.index(b"__init__.py") + len(b"__init__.py") + 2] ^= 0xFF
    (house / B).write_bytes(content)
    assert _wheelhouse.unusable(house, pins_of(house), {}) == [B]


def test_local_wheels_are_known_by_digest(house: Path, tmp_path: Path) -> None:
    local = _wheelhouse.local_digests(
        pins_of(house), [str(house), "https://example.org/", str(tmp_path / "nowhere")]
    )
    assert local == {B: {_verified.sha256_file(house / B)}}
    assert _wheelhouse.unusable(house, pins_of(house), local) == []
    assert _wheelhouse.unusable(house, pins_of(house), {B: {"0" * 64}}) == [B]


def finish(house: Path) -> list[dict[str, object]]:
    wheels = _wheelhouse.describe(house, pins_of(house), {"a": A, "b": B})
    _wheelhouse.write_manifest(house, wheels)
    return wheels


def test_a_finished_wheelhouse_is_not_read(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = finish(house)
    local = {B: {_verified.sha256_file(house / B)}}
    monkeypatch.setattr(_verified, "sha256_file", None)
    assert _wheelhouse.read_manifest(house, {}) == wheels
    assert _wheelhouse.read_manifest(house, local) == wheels


@pytest.mark.parametrize("change", ["no manifest", "damaged manifest", "gone", "cut", "rebuilt"])
def test_a_touched_wheelhouse_is_not_finished(house: Path, change: str) -> None:
    finish(house)
    local = {B: {"0" * 64}} if change == "rebuilt" else {}
    if change == "no manifest":
        (house / _wheelhouse.MANIFEST).unlink()
    if change == "damaged manifest":
        cut(house / _wheelhouse.MANIFEST)
    if change == "gone":
        (house / A).unlink()
    if change == "cut":
        cut(house / A)
    assert _wheelhouse.read_manifest(house, local) is None


def test_a_part_of_a_lock_can_be_asked_for() -> None:
    pins = [Pin("sglang", "1.0"), Pin("sgl-kernel", "2.0")]
    assert _wheelhouse.only(pins, []) == pins
    assert _wheelhouse.only(pins, ["SGL_kernel"]) == pins[1:]
    with pytest.raises(WheelhouseError, match="the lock has no package torch"):
        _wheelhouse.only(pins, ["torch"])
