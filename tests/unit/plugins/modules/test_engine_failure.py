# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _launches
from ansible_collections.sm120.sglang.plugins.modules import engine_failure
from ansible_collections.sm120.sglang.plugins.modules.engine_failure import compare

SERVED, FAILED = "a" * 16, "b" * 16
SECRET = "s3cret-of-site"


def unit(value: str) -> str:
    return f"[Service]\nExecStart=python -m sglang.launch_server \\\n  --tp-size {value}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = _launches.File("/etc/systemd/system/x.service", "0644", "root", "root", unit("8"))
    _launches.save(tmp_path, _launches.Launch(SERVED, "r1"), [file])
    _launches.mark_serving(tmp_path, SERVED)
    return tmp_path


def test_a_failed_launch_is_compared_with_the_one_that_served(config: Path) -> None:
    found = compare(config, FAILED, "r2", {"x.service": unit(f"4{SECRET}")}, [SECRET])
    assert found == ["release r1 -> r2", "--tp-size 8 -> 4<hidden>"]


def test_the_launch_that_served_differs_in_nothing(config: Path) -> None:
    assert compare(config, SERVED, "r1", {"x.service": unit("4")}, []) == []


@pytest.mark.parametrize("damage", ["", "{", f'{{"launch": "{SERVED}", "release": "r1"}}'])
def test_a_damaged_record_is_no_error(config: Path, damage: str) -> None:
    (config / "launches" / SERVED / "record.json").write_text(damage)
    assert compare(config, FAILED, "r2", {}, []) == []


def test_without_a_record_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert compare(tmp_path, FAILED, "r2", {"x.service": unit("4")}, []) == []


def test_a_journal_that_hangs_keeps_what_it_gave_and_lets_the_rollback_go_on(
    run_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, said in (("journalctl", "Scheduler hit an exception"), ("systemctl", "")):
        (programs / name).write_text(f"#!/bin/sh\necho {said}\nexec sleep 600\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(engine_failure, "_SECONDS", 1.0)
    asked = {"unit": "x.service", "launch": FAILED, "release": "r2", "message": "it died"}
    done = run_module(engine_failure, {**asked, "folder": str(tmp_path / "failures")})
    kept = (Path(done["folder"]) / "journal.log").read_text()
    assert kept.splitlines() == ["Scheduler hit an exception", "no end after 1 s"]
