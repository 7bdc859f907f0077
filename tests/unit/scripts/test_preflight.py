# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
OLD = {"exit_code": 0, "written": "yesterday"}

# Stands for ansible-playbook: writes the report that it is told to, and ends as it is told to.
PLAY = """#!/bin/sh
echo "$@" > {folder}/words
{write}
exit {status}
"""


def run(folder: Path, status: int, report: dict[str, Any] | str | None, *words: str) -> int:
    target = folder / "found.json"
    write = ":"
    if report is not None:
        text = report if isinstance(report, str) else json.dumps(report)
        write = f"cat > {target} <<'END'\n{text}\nEND"
    play = folder / "ansible-playbook"
    play.write_text(PLAY.format(folder=folder, write=write, status=status))
    play.chmod(0o755)
    done = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/preflight.py", "--report", target, *words],
        env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.endswith(f"preflight: exit status {done.returncode}\n")
    return done.returncode


@pytest.mark.parametrize(
    ("status", "code", "exit_status"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (2, 2, 2),
        # The play failed for another reason than its verdicts.
        (2, 0, 2),
        (4, 1, 2),
        (250, 0, 2),
    ],
)
def test_the_report_decides_unless_the_play_broke(
    tmp_path: Path, status: int, code: int, exit_status: int
) -> None:
    assert run(tmp_path, status, {"exit_code": code, "written": "now"}) == exit_status


@pytest.mark.parametrize("report", [None, "half of a", "[]", "{}"])
def test_without_a_report_it_is_a_failure(tmp_path: Path, report: str | None) -> None:
    assert run(tmp_path, 0, report) == 2


def test_a_report_of_an_earlier_run_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(json.dumps(OLD))
    assert run(tmp_path, 0, None) == 2
    assert json.loads((tmp_path / "found.json").read_text()) == OLD


def test_other_options_go_to_the_play(tmp_path: Path) -> None:
    report = {"exit_code": 0, "written": "now"}
    assert run(tmp_path, 0, report, "-i", "some/where", "--limit", "node-1") == 0
    words = (tmp_path / "words").read_text().split()
    assert words[0] == str(REPOSITORY / "playbooks/preflight.yml")
    assert words[-4:] == ["-i", "some/where", "--limit", "node-1"]
    assert str(tmp_path / "found.json") in words[3]
