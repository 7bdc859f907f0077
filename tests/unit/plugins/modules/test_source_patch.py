# SPDX-License-Identifier: Apache-2.0
"""The module through Ansible itself, its action plugin included."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils import _release
from ansible_collections.sm120.sglang.plugins.modules import source_patch

ROOT = Path(__file__).parents[4]
BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PAGER": "cat"}

KIMI = "kimi_k25_eagle3_delegation"
MODEL = (
    "class KimiK25ForConditionalGeneration:\n"
    "    def __init__(self):\n        self.language_model = make()\n"
)
# Written as text: the lines and the types of an operator's own file are what is tested.
PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    own:
      - id: own
        title: Own
        file: srt/models/own.py
        rule:
          kind: ensure_dict_entry
          table: T
          key: 12
          value: {2: [4], 8: [8]}
    bad:
      - id: own
        title: Own
        file: srt/models/own.py
        rule:
          kind: ensure_dict_entry
          table: T
          ky: 12
    root: FOLDER/sglang
  tasks:
    - sm120.sglang.source_patch: {root: "{{ root }}", patches: [KIMI], catalog: "{{ own }}"}
      check_mode: true
      register: looked
    - ansible.builtin.slurp: {src: "{{ root }}/srt/models/kimi_k25.py"}
      register: untouched
    - sm120.sglang.source_patch: {root: "{{ root }}", patches: [KIMI, own], catalog: "{{ own }}"}
      register: made
      diff: true
    - sm120.sglang.source_patch: {root: "{{ root }}", patches: [KIMI, own], catalog: "{{ own }}"}
      register: again
    - ansible.builtin.slurp: {src: "{{ root }}/srt/models/own.py"}
      register: own_file
    - sm120.sglang.source_patch: {root: "{{ root }}", state: absent}
      register: back
    - sm120.sglang.source_patch: {root: "{{ root }}", catalog: "{{ bad }}"}
      register: bad_entry
      ignore_errors: true
    - sm120.sglang.source_patch: {root: FOLDER/other}
      register: conflict
      ignore_errors: true
    - sm120.sglang.source_patch: {root: /nonexistent}
      register: wrong_root
      ignore_errors: true
    - ansible.builtin.copy:
        dest: FOLDER/results.json
        mode: "0644"
        content: >-
          {{ dict(looked=looked, untouched=untouched, made=made, again=again, own_file=own_file,
                  back=back, bad_entry=bad_entry, conflict=conflict, wrong_root=wrong_root)
             | to_json }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source_patch")
    for name, model in {"sglang": MODEL, "other/sglang": "x = (\n"}.items():
        models = folder / name / "srt" / "models"
        models.mkdir(parents=True)
        (models / "kimi_k25.py").write_text(model)
        (models / "own.py").write_text("T = {10: {2: [6, 8]}}\n")
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, Any]:
    """One playbook, so that Ansible starts once; each test looks at its own task."""
    play = folder / "play.yml"
    play.write_text(PLAY.replace("FOLDER", str(folder)).replace("KIMI", KIMI))
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", str(play)]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    content: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return content


def content(result: dict[str, Any]) -> str:
    return base64.b64decode(result["content"]).decode()


def states(result: dict[str, Any]) -> list[str]:
    return [item["state"] for item in result["patches"]]


def test_check_mode_says_what_will_happen(results: dict[str, Any]) -> None:
    looked, made = results["looked"], results["made"]
    assert looked["changed"]
    assert content(results["untouched"]) == MODEL
    assert looked["patches"][0] == made["patches"][0]


def test_twice_is_once_and_back_is_back(results: dict[str, Any], folder: Path) -> None:
    assert results["made"]["changed"]
    assert states(results["made"]) == ["needed", "needed"]
    assert results["made"]["patches"][0]["proof"]["ok"]
    assert not results["again"]["changed"]
    assert states(results["again"]) == ["applied", "applied"]
    assert results["back"]["changed"]
    assert (folder / "sglang/srt/models/kimi_k25.py").read_text() == MODEL


def test_the_diff_is_what_was_written(results: dict[str, Any]) -> None:
    kimi, own = results["made"]["diff"]
    assert kimi["before"] == MODEL
    assert own["after"] == content(results["own_file"])


def test_data_in_an_own_entry_keeps_its_types_on_the_way(results: dict[str, Any]) -> None:
    """JSON would make text of the number keys of a mapping."""
    assert "12: {2: [4], 8: [8]}" in content(results["own_file"])


def test_a_bad_entry_is_named_with_its_line(results: dict[str, Any]) -> None:
    failed = results["bad_entry"]
    assert failed["failed"]
    assert "entry[0].rule.ky: unknown; known here: kind, table, key" in failed["msg"]
    line = PLAY.splitlines().index("          ky: 12") + 1
    assert f"play.yml:{line}: " in failed["msg"] or f"play.yml:{line - 2}: " in failed["msg"]


def test_a_conflict_fails_with_all_findings(results: dict[str, Any]) -> None:
    failed = results["conflict"]
    assert failed["failed"]
    assert "nothing was changed" in failed["msg"]
    assert states(failed) == ["conflict", "absent", "absent"]


def test_a_wrong_root_is_named(results: dict[str, Any]) -> None:
    assert "does not exist" in results["wrong_root"]["msg"]


def test_the_documentation_fits_the_code() -> None:
    documented = yaml.safe_load(source_patch.DOCUMENTATION)["options"]
    spec = source_patch.arguments()
    assert set(documented) == set(spec)
    for name, option in spec.items():
        for key in ("type", "default", "choices", "required"):
            assert documented[name].get(key) == option.get(key), (name, key)
    returned = yaml.safe_load(source_patch.RETURN)["patches"]["contains"]
    wanted = [
        "id",
        "file",
        "state",
        "reason",
        "evidence",
        "changed",
        "sha256_before",
        "sha256_after",
        "proof",
    ]
    assert sorted(returned) == sorted(wanted)
    for task in yaml.safe_load(source_patch.EXAMPLES):
        assert set(task["sm120.sglang.source_patch"]) <= set(spec)


def test_the_documentation_renders_and_is_honest() -> None:
    done = subprocess.run(
        [str(BIN / "ansible-doc"), "-t", "module", "sm120.sglang.source_patch"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=True,
    )
    text = " ".join(done.stdout.split())
    assert "bring no speed on PCIe cards" in text
    assert "check_mode" in text


@pytest.mark.parametrize("whose", ["own", "another's", "gone", "none"])
def test_the_tree_that_another_run_fills_is_not_patched(
    run_module: Any, tmp_path: Path, whose: str
) -> None:
    paths = _release.Paths(tmp_path, "r1")
    package = paths.building / "sglang"
    (package / "srt").mkdir(parents=True)
    own = package / "srt/own.py"
    own.write_text("T = {10: {2: [6, 8]}}\n")
    builder = _release.claim(paths)
    if whose == "another's":
        _release.claim(paths)
    elif whose == "gone":
        paths.building.rename(paths.final)
    rule = {"kind": "ensure_dict_entry", "table": "T", "key": 12, "value": "{2: [4]}"}
    entry = {"id": "own", "title": "Own", "file": "srt/own.py", "rule": rule}
    asked = {"root": str(package), "patches": ["own"], "catalog": [entry]}
    done = run_module(source_patch, {**asked, "builder": "" if whose == "none" else builder})
    if whose in ("own", "none"):
        assert done["changed"]
        assert "12" in own.read_text()
        return
    assert done["failed"]
    assert done["msg"].startswith("another deployment has begun to build r1 on this node")
    assert whose == "gone" or "12" not in own.read_text()


def test_a_builder_of_a_tree_that_nobody_builds_is_refused(run_module: Any, tmp_path: Path) -> None:
    done = run_module(source_patch, {"root": str(tmp_path), "builder": "abc"})
    assert done["msg"] == f"{tmp_path}: no release is built there. Remedy: leave out `builder`"
