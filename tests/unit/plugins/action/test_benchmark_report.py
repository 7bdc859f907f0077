# SPDX-License-Identifier: Apache-2.0
"""`benchmark_report` in real plays: results in, files out, on the controller alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import dumps, to_json

from tests import synthetic_benchmark as synthetic

REPOSITORY = Path(__file__).parents[4]
RESULT = synthetic.document(lambda _setting, at: 90.0 * at, concurrencies=(1, 4), repeats=2)


def play(tmp_path: Path, *options: str, **arguments: Any) -> dict[str, Any]:
    """Run the task once; its result, or under `msg` why it failed."""
    task = {
        "sm120.sglang.benchmark_report": arguments,
        "register": "made",
        "ignore_errors": True,
    }
    keep = {
        "ansible.builtin.copy": {"dest": str(tmp_path / "made.json"), "content": "{{ made }}"},
        "check_mode": False,
    }
    book = [{"hosts": "all", "gather_facts": False, "tasks": [task, keep]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(book))
    (tmp_path / "ansible.cfg").touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_REMOTE_TMP": str(tmp_path / "remote"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
    }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "node,", "-c", "local", *options]
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "made.json").read_text())
    return found


def test_a_result_becomes_three_files_once(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(dumps(RESULT))
    arguments: dict[str, Any] = {
        "document": str(tmp_path / "result.json"),
        "stored": [to_json(synthetic.earlier(RESULT, 0.5)), str(tmp_path / "none.json")],
        "output": str(tmp_path / "out"),
    }
    looked = play(tmp_path, "--check", **arguments)
    assert looked["changed"] is True
    assert not (tmp_path / "out").exists()
    made = play(tmp_path, **arguments)
    assert made["changed"] is True
    assert [Path(one).name for one in made["files"]] == ["report.html", "report.md", "report.json"]
    assert all(Path(one).is_file() for one in made["files"])
    assert made["verdicts"][0].startswith("EAGLE-3 3/1/4 pays at no concurrency")
    assert [one["verdict"] for one in made["comparisons"]] == ["ok"]
    assert made["ignored"][0].startswith(f"{tmp_path}/none.json cannot be read")
    assert play(tmp_path, **arguments)["changed"] is False


def test_what_is_no_result_is_refused_with_the_field(tmp_path: Path) -> None:
    bad = {**to_json(RESULT), "finished": "soon"}
    refused = play(tmp_path, document=bad, output=str(tmp_path / "out"))
    assert refused["failed"] is True
    assert "finished: is 'soon', not like 2026-11-30T23:59:59Z" in refused["msg"]
    assert not (tmp_path / "out").exists()
