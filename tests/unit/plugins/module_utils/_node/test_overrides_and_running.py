# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import overrides, running

UNIT = "sglang.service"


def test_what_overrides_a_unit_is_found_wherever_it_lies(tmp_path: Path) -> None:
    made = [
        "etc/systemd/system/sglang.service.d/a.conf",
        "run/systemd/system/sglang.service.d/override.conf",
        "etc/systemd/system.control/sglang.service.d/50-MemoryMax.conf",
        "run/systemd/transient/sglang.service",
    ]
    ignored = [
        "etc/systemd/system/sglang.service",  # ours
        "etc/systemd/system/sglang.service.d/a.conf.disabled",
        "etc/systemd/system/other.service.d/a.conf",
        "usr/lib/systemd/system/service.d/10-all.conf",  # a package's
    ]
    for name in [*made, *ignored]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = overrides.read(UNIT, [f"/{made[0]}"], tmp_path)
    assert sorted(entry["path"] for entry in found) == sorted(f"/{name}" for name in made)
    assert [entry["path"] for entry in found if entry["loaded"]] == [f"/{made[0]}"]
    for name in made:
        overrides.set_aside(tmp_path / name)
        overrides.set_aside(tmp_path / name)  # somebody else was faster
        assert (tmp_path / f"{name}.disabled").exists()
    assert overrides.read(UNIT, [], tmp_path) == []


def test_a_masking_link_is_one_too(tmp_path: Path) -> None:
    place = tmp_path / "run/systemd/system"
    place.mkdir(parents=True)
    (place / UNIT).symlink_to("/dev/null")
    assert [entry["path"] for entry in overrides.read(UNIT, [], tmp_path)] == [
        f"/run/systemd/system/{UNIT}"
    ]


def test_a_process_is_read_as_it_was_started(tmp_path: Path) -> None:
    program = "print('up', flush=True); input()"
    words = [sys.executable, "-c", program, "-m", running.PROGRAM, "--port", "1", "--bare"]
    with subprocess.Popen(
        words, env={"A": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = running.read(process.pid, tmp_path)
        process.communicate(b"\n")
    assert found["arguments"] == ["--port", "1", "--bare"]
    assert found["environment"]["A"] == running.digest("1")
    assert found["release"] == ""
    # It is gone now.
    gone = running.read(process.pid, tmp_path)
    assert gone == {"arguments": None, "environment": {}, "release": ""}


@pytest.mark.parametrize("ahead", [0, 1, 65_500, 200_000])
def test_the_release_is_where_its_libraries_are(tmp_path: Path, ahead: int) -> None:
    """As /proc/PID/maps: the real path, wherever in the file it stands."""
    place = tmp_path / "7"
    place.mkdir()
    (place / "cmdline").write_bytes(b"sglang::scheduler\0")
    (place / "environ").write_bytes(b"")
    line = "7f00-7f01 r-xp 00000000 00:2d 7 /opt/sglang/releases/r1/venv/lib/libtorch.so\n"
    (place / "maps").write_text("x" * ahead + "\n/usr/lib/libc.so.6\n" + line)
    found = running.read(7, Path("/opt/sglang"), tmp_path)
    assert (found["release"], found["arguments"]) == ("r1", None)
