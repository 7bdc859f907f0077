# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _stack, _wheelhouse
from ansible_collections.sm120.sglang.plugins.modules import wheelhouse

PLAIN = "py3-none-any"
MANYLINUX = "cp311-cp311-manylinux_2_28_x86_64"


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real pip, without any index: wheels come from a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


@pytest.fixture
def index(tmp_path: Path, make_wheel: Any) -> Path:
    folder = tmp_path / "index"
    make_wheel(folder, "alpha", "1.0")
    make_wheel(folder, "beta-x", "2.0", tag=MANYLINUX)
    make_wheel(folder, "gamma", "3.0+lab.cpu")
    return folder


def lock_of(index: Path, unhashed: str = "gamma") -> str:
    lines = ""
    for path in sorted(index.glob("*.whl")):
        name, version, *_ = path.name.split("-")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        joint = "" if name == unhashed else f" \\\n    --hash=sha256:{digest}"
        lines += f"{name.replace('_', '-')}=={version}{joint}\n"
    return lines


@pytest.fixture
def arguments(tmp_path: Path, index: Path) -> dict[str, Any]:
    (tmp_path / "lab-py311.lock").write_text(lock_of(index))
    return {
        "lock": str(tmp_path / "lab-py311.lock"),
        "dest": str(tmp_path / "house"),
        "python": "3.11",
        "glibc": "2.36",
        "unhashed": {"gamma": "gamma is built here"},
        "find_links": [str(index)],
    }


@pytest.fixture
def pip_calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What pip was asked for, one list of requirements a call."""
    calls: list[list[str]] = []
    run = subprocess.run

    def watched(command: list[str], **options: Any) -> Any:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        listing = Path(command[command.index("-r") + 1]).read_text()
        calls.append([line.split("==")[0] for line in listing.splitlines()])
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    return calls


@pytest.fixture
def house(run_module: Any, arguments: dict[str, Any], index: Path) -> Path:
    """A finished wheelhouse, as the module leaves it, without the seconds that pip takes."""
    folder = Path(run_module(wheelhouse, arguments, check=True)["path"])
    folder.mkdir(parents=True)
    for path in index.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    lock = Path(arguments["lock"])
    pins = _stack.parse_lock(lock.read_text(), lock.name)
    wheels, _ = _wheelhouse.match_wheels(pins, names(str(folder)))
    _wheelhouse.write_manifest(folder, _wheelhouse.describe(folder, pins, wheels))
    return folder


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).glob("*.whl"))


def test_a_part_of_a_lock_has_a_wheelhouse_of_its_own(
    run_module: Any, arguments: dict[str, Any], pip_calls: list[list[str]]
) -> None:
    part = run_module(wheelhouse, {**arguments, "packages": ["alpha"]})
    assert pip_calls == [["alpha"]]
    assert names(part["path"]) == ["alpha-1.0-py3-none-any.whl"]
    assert Path(part["path"]).name.startswith("lab-py311-alpha-")
    assert run_module(wheelhouse, arguments, check=True)["path"] != part["path"]
    wrong = run_module(wheelhouse, {**arguments, "packages": ["delta"]})
    assert wrong["failed"]
    assert "the lock has no package delta" in wrong["msg"]


def test_each_run_of_a_download(
    run_module: Any, arguments: dict[str, Any], index: Path, pip_calls: list[list[str]]
) -> None:
    check = run_module(wheelhouse, arguments, check=True)
    assert (check["changed"], check["wheels"], check["requirements"]) == (True, [], "")
    assert not Path(arguments["dest"]).exists()
    assert pip_calls == []

    first = run_module(wheelhouse, arguments)
    assert first["changed"]
    assert first["path"] == check["path"]
    assert Path(first["path"]).name.startswith("lab-py311-")
    assert names(first["path"]) == names(str(index))
    assert pip_calls == [["alpha", "beta-x"], ["gamma"]]
    digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in index.glob("*.whl")}
    assert {wheel["name"]: wheel["sha256"] for wheel in first["wheels"]} == digests
    assert [wheel["package"] for wheel in first["wheels"]] == ["alpha", "beta-x", "gamma"]
    # The requirements allow exactly these wheels, the unhashed one included.
    assert first["requirements"].splitlines() == [
        f"{package}=={version} --hash=sha256:{wheel['sha256']}"
        for (package, version), wheel in zip(
            [("alpha", "1.0"), ("beta-x", "2.0"), ("gamma", "3.0+lab.cpu")],
            first["wheels"],
            strict=True,
        )
    ]

    for mode in (False, True):
        again = run_module(wheelhouse, arguments, check=mode)
        assert {k: v for k, v in again.items() if k != "changed"} == {
            k: v for k, v in first.items() if k != "changed"
        }
        assert not again["changed"]
    assert len(pip_calls) == 2  # nothing was asked again


@pytest.mark.parametrize("change", [{"glibc": "2.40"}, {"python": "3.12"}, {"machine": "aarch64"}])
def test_another_platform_has_a_folder_of_its_own(
    run_module: Any, arguments: dict[str, Any], house: Path, change: dict[str, str]
) -> None:
    assert not run_module(wheelhouse, arguments, check=True)["changed"]
    other = run_module(wheelhouse, {**arguments, **change}, check=True)
    assert other["changed"]
    assert other["path"] != str(house)


def test_a_wheel_that_is_too_new_for_the_node_is_not_taken(
    run_module: Any, arguments: dict[str, Any]
) -> None:
    found = run_module(wheelhouse, {**arguments, "glibc": "2.27"})
    assert found["failed"]
    assert "No matching distribution found for beta-x==2.0" in found["msg"]


def test_a_wrong_digest_stops(run_module: Any, arguments: dict[str, Any], make_wheel: Any) -> None:
    index = Path(arguments["find_links"][0])
    make_wheel(index, "alpha", "1.0", {"alpha/evil.py": ""})
    found = run_module(wheelhouse, arguments)
    assert found["failed"]
    assert "DO NOT MATCH THE HASHES" in found["msg"]
    assert "lab-py311.lock" in found["msg"]
    assert not list(Path(arguments["dest"]).glob("*/wheelhouse.json"))


def test_a_missing_wheel_is_named_with_its_reason(
    run_module: Any, arguments: dict[str, Any], index: Path
) -> None:
    (index / "gamma-3.0+lab.cpu-py3-none-any.whl").unlink()
    found = run_module(wheelhouse, arguments)
    assert found["failed"]
    for part in (
        "No matching distribution found for gamma==3.0+lab.cpu",
        "gamma 3.0+lab.cpu: gamma is built here; name the place in engine_release_extra_index_urls",
        "What was downloaded is kept; run again to go on.",
    ):
        assert part in found["msg"]


@pytest.mark.parametrize(
    "case",
    [
        # A finished folder that was damaged; one whose download was killed, with and without
        # the beginning of a wheel.
        (f"beta_x-2.0-{MANYLINUX}.whl", "manifest and half a wheel"),
        ("gamma-3.0+lab.cpu-py3-none-any.whl", "half a wheel"),
        ("alpha-1.0-py3-none-any.whl", "nothing"),
    ],
)
def test_an_interrupted_download_goes_on(
    run_module: Any,
    arguments: dict[str, Any],
    house: Path,
    pip_calls: list[list[str]],
    case: tuple[str, str],
) -> None:
    name, left = case
    whole = (house / name).read_bytes()
    (house / name).write_bytes(whole[:-20])
    if left == "nothing":
        (house / name).unlink()
    if left != "manifest and half a wheel":
        (house / "wheelhouse.json").unlink()
    for path in Path(arguments["find_links"][0]).iterdir():
        if path.name != name:
            path.unlink()  # what is there is not asked for again
    assert run_module(wheelhouse, arguments, check=True)["changed"]
    assert run_module(wheelhouse, arguments)["changed"]
    assert pip_calls == [[name.partition("-")[0].replace("_", "-")]]
    assert (house / name).read_bytes() == whole
    assert not run_module(wheelhouse, arguments)["changed"]


def test_a_spare_wheel_is_removed(
    run_module: Any,
    arguments: dict[str, Any],
    house: Path,
    make_wheel: Any,
    pip_calls: list[list[str]],
) -> None:
    make_wheel(house, "alpha", "0.9")
    make_wheel(house, "delta", "1")
    (house / "wheelhouse.json").unlink()
    assert run_module(wheelhouse, arguments)["changed"]
    assert names(str(house)) == names(arguments["find_links"][0])
    assert pip_calls == []


def test_two_wheels_of_one_package_are_named(
    run_module: Any, arguments: dict[str, Any], house: Path, index: Path, make_wheel: Any
) -> None:
    # Without a digest in the lock nothing says which of the two is meant.
    make_wheel(house, "gamma", "3.0+lab.cpu", tag="py2.py3-none-any")
    (house / "wheelhouse.json").unlink()
    found = run_module(wheelhouse, arguments)
    assert found["failed"]
    assert f"{house}: two wheels of gamma 3.0+lab.cpu: " in found["msg"]


def test_a_folder_from_another_controller_needs_no_network(
    run_module: Any,
    arguments: dict[str, Any],
    house: Path,
    pip_calls: list[list[str]],
    tmp_path: Path,
) -> None:
    other = tmp_path / "other" / house.name
    other.mkdir(parents=True)
    for path in house.iterdir():
        (other / path.name).write_bytes(path.read_bytes())  # other times, other inodes
    moved = {**arguments, "dest": str(tmp_path / "other"), "find_links": []}
    assert run_module(wheelhouse, moved)["changed"]
    assert pip_calls == []
    assert not run_module(wheelhouse, moved)["changed"]


def test_a_wheel_that_was_built_anew_is_taken(
    run_module: Any, arguments: dict[str, Any], house: Path, index: Path, make_wheel: Any
) -> None:
    first = run_module(wheelhouse, arguments)
    assert not first["changed"]
    make_wheel(index, "gamma", "3.0+lab.cpu", {"gamma/more.py": "x = 1\n"})
    assert run_module(wheelhouse, arguments, check=True)["changed"]
    second = run_module(wheelhouse, arguments)
    assert second["changed"]
    assert first["wheels"][:2] == second["wheels"][:2]
    assert first["wheels"][2]["sha256"] != second["wheels"][2]["sha256"]
    assert not run_module(wheelhouse, arguments)["changed"]


def test_a_second_host_waits_and_finds_it_done(
    run_module: Any, arguments: dict[str, Any], house: Path, pip_calls: list[list[str]]
) -> None:
    manifest = (house / "wheelhouse.json").rename(house / "aside")
    take_lock: Callable[[Any, int], None] = fcntl.flock

    def first_host(guard: Any, operation: int) -> None:
        # The lock is asked for: the other run ends just now.
        manifest.rename(house / "wheelhouse.json")
        take_lock(guard, operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", first_host)
        result = run_module(wheelhouse, arguments)
    assert not manifest.exists()
    assert (len(result["wheels"]), pip_calls) == (3, [])


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        ("alpha>=1\n", "lab-py311.lock:1: not 'name==version': 'alpha>=1'"),
        (None, "No such file or directory"),
    ],
)
def test_a_bad_lock_stops_before_any_work(
    run_module: Any, arguments: dict[str, Any], lock: str | None, message: str
) -> None:
    Path(arguments["lock"]).unlink()
    if lock is not None:
        Path(arguments["lock"]).write_text(lock)
    found = run_module(wheelhouse, arguments)
    assert found["failed"]
    assert message in found["msg"]
    assert not Path(arguments["dest"]).exists()


def test_the_platform_must_be_known(run_module: Any, arguments: dict[str, Any]) -> None:
    found = run_module(wheelhouse, {**arguments, "glibc": "musl"})
    assert "glibc version 'musl' is not of the form 2.N" in found["msg"]
