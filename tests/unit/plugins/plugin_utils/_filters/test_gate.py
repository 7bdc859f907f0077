# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.action.engine_gate import _KNOWN_ANSWER_SPEC
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import ANSWER_KEYS
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters.gate import gate_problems

from tests.unit.playbooks.plays import REPOSITORY, run

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {"prompt": "capital of France?", "expect": "Paris"}


def test_the_defaults_and_no_question_at_all_are_fit() -> None:
    own = yaml.safe_load((REPOSITORY / "roles/health_gate/defaults/main.yml").read_text())
    limits = (own["health_gate_accept_length_warn"], own["health_gate_accept_length_fail"])
    for answer in (own["health_gate_known_answer"], {}, GOOD):
        assert gate_problems(answer, *limits, own["health_gate_verify_steps"]) == []


@pytest.mark.parametrize(
    ("answer", "limits", "wanted"),
    [
        ({**GOOD, "matches": "x"}, (2.0, 1.2, 40), "known_answer needs either `expect`"),
        ({"expect": "x"}, (2.0, 1.2, 40), "known_answer needs either `prompt`"),
        ({"prompt": "x", "matches": "("}, (2.0, 1.2, 40), "known_answer.matches '('"),
        ({**GOOD, "match": "x"}, (2.0, 1.2, 40), "match is not among prompt, messages"),
        ({**GOOD, "max_tokens": "many"}, (2.0, 1.2, 40), "'many'"),
        (GOOD, (1.2, "1.5", 40), "accept_length_fail (1.5) must be at least 1.0"),
        (GOOD, (2.0, 0.9, 40), "accept_length_fail (0.9) must be at least 1.0"),
        (GOOD, (2.0, 1.2, "0"), "the verify steps must be at least 1: 0"),
    ],
)
def test_what_the_gate_cannot_ask_with_is_named(
    answer: dict[str, Any], limits: tuple[Any, Any, Any], wanted: str
) -> None:
    (said,) = gate_problems(answer, *limits)
    assert said.startswith("health_gate_")
    assert wanted in said


def test_the_gate_takes_what_is_judged() -> None:
    assert set(_KNOWN_ANSWER_SPEC) == set(ANSWER_KEYS)


def test_a_deployment_with_wrong_limits_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    names = ("variables.yml", "check.yml")
    roles = [{"name": "sm120.sglang.preflight", "tasks_from": name} for name in names]
    play = {
        "hosts": "engines",
        "gather_facts": False,
        "vars": {
            "preflight_doctor": True,  # without a model
            "health_gate_accept_length_fail": 2.5,
            "health_gate_known_answer": {**GOOD, "matches": "x"},
        },
        "tasks": [
            {"ansible.builtin.import_role": {**role, "rolespec_validate": False}} for role in roles
        ],
    }
    done = run(tmp_path, {"a": {}}, [play])
    assert done.status == 2, done.output
    assert "accept_length_fail (2.5) must be at least 1.0" in done.output
    assert "known_answer needs either `expect`" in done.output
    assert "Nothing was changed." in done.output
