# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._command import (
    NOT_ALLOWED,
    NOT_THERE,
    TOO_LONG,
    run,
)


def test_both_streams_and_the_status() -> None:
    code, text = run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (code, sorted(text.split())) == (3, ["err", "out"])


def test_there_is_no_input_and_bad_bytes_are_no_error() -> None:
    assert run(["cat"], 10) == (0, "")
    assert run(["printf", r"\377"]) == (0, "�")


def test_what_is_not_there_or_may_not_be_run_is_an_answer(tmp_path: Path) -> None:
    assert run(["no-such-program-here"]) == (NOT_THERE, "no-such-program-here: not installed")
    (tmp_path / "data").write_text("x")
    assert run([str(tmp_path / "data")]) == (NOT_ALLOWED, "Permission denied")


def test_one_without_end_is_ended_and_what_it_said_is_kept() -> None:
    talk = "import sys, time; print('so far', flush=True); time.sleep(60)"
    code, text = run([sys.executable, "-c", talk], 1.0)
    assert (code, text) == (TOO_LONG, "so far\nno end after 1 s")


def test_how_it_runs_may_be_said(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "ONE": "1"}
    assert run(["sh", "-c", "echo $ONE; pwd"], cwd=tmp_path, env=environment) == (
        0,
        f"1\n{tmp_path.resolve()}\n",
    )
