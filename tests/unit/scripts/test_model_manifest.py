# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _verified

SCRIPT = Path(__file__).parents[3] / "scripts/model_manifest.py"
FILES = {"config.json": b"{}", "model/a.safetensors": bytes((1 << 22) + 5), "empty": b""}
LEFT_OUT = {".hidden": b"x", ".git/config": b"x", "manifest.json": b"old"}


def run(folder: Path, *, piped: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the script from its file, or from a pipe as over SSH."""
    return subprocess.run(
        [sys.executable, "-I", "-" if piped else str(SCRIPT), str(folder)],
        input=SCRIPT.read_text() if piped else None,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("piped", [False, True])
def test_a_manifest_is_what_the_model_is_verified_by(tmp_path: Path, piped: bool) -> None:
    for name, content in {**FILES, **LEFT_OUT}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link.json").symlink_to("config.json")  # as the Hugging Face cache keeps files
    done = run(tmp_path, piped=piped)
    assert done.returncode == 0, done.stderr
    wanted = _verified.parse_manifest(json.loads(done.stdout), "m")
    assert {entry.name for entry in wanted} == {*FILES, "link.json"}
    assert _verified.verify(tmp_path, wanted, {}, [entry.name for entry in wanted]) == []


def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    for folder, said in ((tmp_path / "none", "no such folder"), (tmp_path, "no file in it")):
        done = run(folder)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stdout == ""
