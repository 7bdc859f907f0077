# SPDX-License-Identifier: Apache-2.0
"""The program that runs a release's load generator, with a small package in the release's place."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import drive

# What a release's load generator does as far as the program sees it.
GENERATOR = """
import json, sys
if __name__ == "__main__":
    place = sys.argv[sys.argv.index("--output-file") + 1]
    assert "--output-details" in sys.argv
    figures = {{"id": "r1", "spec_verify_ct": 4, "spec_accept_token_num": 12}}
    for meta in ({{"id": "r1", "spec_verify_ct": 1}}, figures, {{"id": "r2", "prompt_tokens": 3}}):
        json.loads(json.dumps({{"meta_info": meta}}))
    json.loads("[1]")
    {ending}
    line = {{"duration": 1.5, "request_rate": float("inf")}}
    line |= {{"server_info": {{"api_key": "sesame"}}, "generated_texts": ["private"]}}
    with open(place, "a") as file:
        file.write(json.dumps(line) + "\\n")
"""


def run(tmp_path: Path, module: str, *, ending: str = "") -> dict[str, Any]:
    path = tmp_path / Path(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "sglang/__init__.py").touch()
    path.write_text(GENERATOR.format(ending=ending))
    program = tmp_path / "program.py"
    program.write_text(inspect.getsource(drive))
    done = subprocess.run(
        [sys.executable, "-B", str(program), json.dumps(["--seed", "1"])],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(drive.MARKER), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(last.removeprefix(drive.MARKER))
    return found


@pytest.mark.parametrize("module", ["sglang.bench_serving", "sglang.benchmark.serving"])
def test_it_runs_what_the_release_has_and_listens(tmp_path: Path, module: str) -> None:
    began = time.time()
    found = run(tmp_path, module)
    assert (found["module"], found["status"]) == (module, 0)
    assert found["requests"] == [{"spec_verify_ct": 4, "spec_accept_token_num": 12}, {}]
    first, last_answer = found["window"]
    assert began <= first <= last_answer <= time.time()
    assert found["raw"] == {"duration": 1.5, "request_rate": float("inf")}


def test_a_package_for_other_data_sets_may_be_missing(tmp_path: Path) -> None:
    # As 0.5.9 imports it; the name is one that nobody has.
    source = inspect.getsource(drive).replace('("datasets",)', '("no_such_datasets",)')
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, "drive", "exec"), namespace)  # noqa: S102
    try:
        namespace["spare_imports"]()
        found = __import__("no_such_datasets")
        assert found.load_dataset is None
    finally:
        sys.modules.pop("no_such_datasets", None)


@pytest.mark.parametrize(
    ("ending", "status"),
    [("raise OSError('refused')", 1), ("sys.exit(3)", 3), ("sys.exit('usage')", 1)],
)
def test_a_failure_is_told(tmp_path: Path, ending: str, status: int) -> None:
    found = run(tmp_path, "sglang.bench_serving", ending=ending)
    assert found["status"] == status
    assert found["raw"] == {}
    assert len(found["window"]) == 2
    assert ("refused" in found.get("error", "")) is ("OSError" in ending)


def test_a_release_without_one(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    found = run(tmp_path, "sglang.something_else")
    assert found["status"] == 1
    assert "has none of sglang.benchmark.serving, sglang.bench_serving" in found["error"]
