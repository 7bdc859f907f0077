# SPDX-License-Identifier: Apache-2.0
"""The command on bad input, and on a release that needs a person; real ones: tests/releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils.release_report import main

from tests.unit.plugins.module_utils._patch.small_release import (
    KIMI_FILE,
    SIZES_FILE,
    make_release,
)

ROOT = Path(__file__).parents[4]


def missing(folder: Path) -> Path:
    return folder / "nothing.whl"


def no_wheel(folder: Path) -> Path:
    (folder / "x.whl").write_text("not a zip file")
    return folder / "x.whl"


def wheel_of(folder: Path, package: Path) -> Path:
    with zipfile.ZipFile(folder / "x.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            archive.write(path, path.relative_to(package.parent))
    return folder / "x.whl"


def truncated(folder: Path) -> Path:
    wheel = wheel_of(folder, make_release(folder))
    wheel.write_bytes(wheel.read_bytes()[:-200])
    return wheel


def bomb(folder: Path) -> Path:
    package = make_release(folder)
    (package / SIZES_FILE).write_bytes(bytes(40 * 1024 * 1024))
    return wheel_of(folder, package)


def another_project(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "x.whl", "w") as archive:
        archive.writestr("vllm-1.0.dist-info/METADATA", "Name: vllm\n")
    return folder / "x.whl"


def empty_folder(folder: Path) -> Path:
    return folder


def a_link_that_leads_out(folder: Path) -> Path:
    package = make_release(folder)
    (package / KIMI_FILE).unlink()
    (package / KIMI_FILE).symlink_to("/etc/passwd")
    return package


def not_a_plain_file(folder: Path) -> Path:
    package = make_release(folder)
    (package / KIMI_FILE).unlink()
    (package / KIMI_FILE).mkdir()
    return package


def broken_python(folder: Path) -> Path:
    return make_release(folder, **{KIMI_FILE: "class X(:\n"})


def bad_bytes(folder: Path) -> Path:
    package = make_release(folder)
    (package / SIZES_FILE).write_bytes(b"\xff\xfe\x00")
    return package


BAD: dict[Callable[[Path], Path], str] = {
    missing: "does not exist",
    no_wheel: "is not a wheel",
    truncated: "is not a wheel",
    bomb: "unpacks to more than",
    another_project: "is a wheel of vllm",
    empty_folder: "there is no sglang package",
    a_link_that_leads_out: "leads out of the release",
    not_a_plain_file: "is not a plain file",
    broken_python: "not valid for Python",
    bad_bytes: "byte 0xff is not utf-8",
}


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_bad_input_is_one_clear_line(
    make: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = str(make(tmp_path))
    status = main([named, "--json"])
    out, err = capsys.readouterr()
    assert status == 2
    assert json.loads(out) == []
    assert err.count("\n") == 1
    assert BAD[make] in err
    assert named in err
    assert f"{named}: {named}" not in err


def test_a_release_of_another_shape_needs_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = make_release(tmp_path, **{SIZES_FILE: "TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES = f()\n"})
    assert main([str(package), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["release"] == "0.5.9"
    states = [patch["state"] for patch in found["patches"]]
    assert states == ["needed", "conflict", "needed"]
    assert any(problem.startswith("patch sm120_allreduce_sizes:") for problem in found["problems"])
    assert any(problem.startswith("contract:") for problem in found["problems"])
    assert any(problem.startswith("launch:") for problem in found["problems"])
    assert main([str(package)]) == 1
    assert "NEEDS A PERSON" in capsys.readouterr().out


def test_one_bad_input_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = make_release(tmp_path)
    assert main([str(package), str(tmp_path / "nothing"), "--json"]) == 2
    out, err = capsys.readouterr()
    assert [item["source"] for item in json.loads(out)] == [str(package)]
    assert err.startswith(f"error: {tmp_path}/nothing does not exist")


def test_an_edited_release_is_told_by_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.unit.plugins.module_utils._patch.small_release import go

    package = make_release(tmp_path / "releases" / "one" / "venv/lib/python3.12/site-packages")
    go(package, manifest=str(tmp_path / "releases" / "one" / "patches.json"))
    (package.parents[4] / "other.json").write_text("{}")
    main([str(package), "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert {patch["state"] for patch in found["patches"]} == {"applied"}
    assert not any(patch["edit"] for patch in found["patches"])


def test_unbalanced_quotes_in_the_launch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["x", "--launch", "--a 'b"]) == 2
    assert "No closing quotation" in capsys.readouterr().err


def test_it_runs_as_a_module_with_nothing_but_the_collection_on_the_path(tmp_path: Path) -> None:
    name = "ansible_collections.sm120.sglang.plugins.module_utils.release_report"
    done = subprocess.run(
        [sys.executable, "-m", name, str(tmp_path / "nothing"), "--json"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "[]\n")
    assert "does not exist" in done.stderr
