# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import launch

REPOSITORY = Path(__file__).parents[5]
FILTERS = launch.filters()
RULES = yaml.safe_load((REPOSITORY / "roles/engine/files/launch_rules.yml").read_text("utf-8"))
STACK = {"sglang": "0.5.23", "cuda": 13}
WANTED: dict[str, Any] = {
    "tp_size": "8",
    "allreduce": "auto",
    "symm_mem": "auto",
    "patches": [],
    "arguments": {"enable_torch_symm_mem": False},
    "environment": {},
}


def host(capability: str) -> dict[str, Any]:
    return {"host": {"smi": {"gpus": [{"capability": capability}]}}}


def test_the_decision_is_a_mapping_with_a_reason() -> None:
    found = launch.allreduce_decision({}, STACK, WANTED)
    assert found["mode"] == "nccl"
    assert "it is switched off" in found["reason"]
    assert (found["arguments"], found["environment"]) == ({}, {})


def test_a_contradiction_is_an_error_of_the_play() -> None:
    with pytest.raises(AnsibleFilterError, match="set one of the two to auto"):
        launch.allreduce_decision({}, STACK, {**WANTED, "allreduce": "nccl", "symm_mem": "on"})


WORDS = ["--attention-backend", "trtllm_mla", "--enable-flashinfer-allreduce-fusion"]


@pytest.mark.parametrize(
    ("node", "cuda", "count"),
    [
        (host("12.0"), 13, 2),
        ({}, 13, 2),  # before the driver is there, these are the cards that the product is for
        (host("9.0"), 13, 0),
        (host("12.0"), None, 0),
        ({}, None, 0),
    ],
)
def test_rules_about_the_cards_hold_where_the_cards_are(
    node: dict[str, Any], cuda: int | None, count: int
) -> None:
    seen: dict[str, Any] = {"release": "0.5.23", "environment": {}, "patches": [], "cuda": cuda}
    assert len(launch.rule_findings(WORDS, RULES, seen, node)) == count


def test_rules_with_a_mistake_are_an_error_of_the_play() -> None:
    seen = {"release": "0.5.23", "environment": {}, "patches": [], "cuda": 13}
    with pytest.raises(AnsibleFilterError, match="rule 1"):
        launch.rule_findings(WORDS, [{"id": "x"}], seen, {})


FINDINGS = [
    {
        "argument": "--page-size", "kind": "bad_value", "reason": "not a number",
        "where": "srt/server_args.py:7", "remedy": "", "rule": "", "severity": "error",
    },
    {
        "argument": "--tp-size", "kind": "fatal", "reason": "no", "where": "a#1",
        "remedy": "remove it", "rule": "some_rule", "severity": "error",
    },
    {
        "argument": "SGLANG_X=1", "kind": "no_op", "reason": "nothing reads it", "where": "",
        "remedy": "remove it", "rule": "", "severity": "warn",
    },
]  # fmt: skip


def test_lines_name_variable_cause_evidence_and_remedy() -> None:
    given = {"page_size": "x"}
    assert launch.launch_lines(FINDINGS, "error", "0.5.9", given) == [
        "engine_arguments.page-size: bad value: not a number (SGLang 0.5.9 srt/server_args.py:7)",
        "engine_tp_size: fatal: no (a#1). Remedy: remove it",
    ]
    assert launch.launch_lines(FINDINGS, "warn", "0.5.9", given) == [
        "engine_environment.SGLANG_X: no op: nothing reads it. Remedy: remove it"
    ]


@pytest.mark.parametrize("accept", [["page-size", "tp-size"], ["page-size", "some_rule"]])
def test_what_the_operator_accepts_is_shown_and_does_not_refuse(accept: list[str]) -> None:
    assert launch.launch_lines(FINDINGS, "error", "0.5.9", {}, accept) == []
    assert len(launch.launch_lines(FINDINGS, "warn", "0.5.9", {}, accept)) == 3


def test_what_an_exact_argument_replaces_is_said_with_both_values() -> None:
    own = {
        "tp-size": 1, "port": 30000, "attention-backend": "triton", "trust-remote-code": True,
        "context-length": None,
    }  # fmt: skip
    given = {
        "tp-size": 2, "port": "30000", "attention-backend": "fa3", "trust-remote-code": False,
        "context-length": 4096, "page-size": 64,
    }  # fmt: skip
    role = "the role's own argument"
    assert FILTERS["launch_overrides"](given, own) == [
        f"engine_arguments.attention-backend fa3 wins over {role} --attention-backend triton",
        "engine_arguments.tp-size 2 wins over engine_tp_size 1",
        f"engine_arguments.trust-remote-code leaves out {role} --trust-remote-code True",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("api-key", "api-key"),
        ("api_key", "api_key"),
        ("--api-k", "--api-k"),
        ("admin-api-key", "admin-api-key"),
        ("admin", "admin"),
        ("API_KEY", "API_KEY"),
        ("api-key=abc", "api-key"),
    ],
)
def test_a_key_among_the_arguments_is_named_and_never_shown(name: str, shown: str) -> None:
    assert FILTERS["secret_arguments"]({"tp-size": 1, name: "abc"}) == [shown]


def test_other_arguments_give_no_key() -> None:
    given = {"a": 1, "attention-backend": 1, "ssl-keyfile": "/k", "tokenizer-path": 1}
    assert FILTERS["secret_arguments"](given) == []


def test_the_plan_says_what_the_patches_will_do_and_their_limits() -> None:
    path = REPOSITORY / "roles/source_patches/files/catalogue.yml"
    catalogue = [*yaml.safe_load(path.read_text("utf-8")), {"id": "mine", "title": "Mine"}]
    limit = "Its limit: It speeds nothing up on PCIe cards"

    def line(forecast: list[dict[str, Any]]) -> str:
        found = launch.patch_plan(catalogue, forecast)
        assert len(found) == len(catalogue)
        assert found[-1] == "patch mine: Mine"
        return next(text for text in found if "sm120_allreduce_sizes" in text)

    one = {"id": "sm120_allreduce_sizes", "state": "needed", "changed": True, "reason": "no key"}
    assert line([]).endswith(limit)
    assert line([one]) == f"patch sm120_allreduce_sizes: needed (edited): no key. {limit}"
    there = {**one, "state": "upstream", "changed": False, "reason": "it is there"}
    assert line([there]) == "patch sm120_allreduce_sizes: upstream: it is there"


def test_the_plan_says_what_is_left_out_and_needed() -> None:
    lacking = {"id": "a", "state": "needed", "changed": True, "reason": "three methods are missing"}
    forecast = [lacking, {**lacking, "id": "b", "state": "upstream"}]
    need = (
        "patch a is left out (source_patches_ids), and SGLang 0.5.9 needs it: "
        "three methods are missing"
    )
    assert launch.left_out_patches(forecast, ["c"], "0.5.9") == [need]
    assert launch.left_out_patches(forecast, [], "0.5.9") == [launch.NOTHING_PATCHED, need]
    # Nobody could look: the empty list is told all the same.
    assert launch.left_out_patches([], [], "0.5.9") == [launch.NOTHING_PATCHED]
