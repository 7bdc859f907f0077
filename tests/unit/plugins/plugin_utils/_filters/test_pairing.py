# SPDX-License-Identifier: Apache-2.0
"""The filters over a node's reading: what is judged, and what there is nothing to judge by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters.pairing import filters

from tests.unit.playbooks.plays import run

FILTERS = filters()
CONFIG = {"num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "vocab_size": 8}
DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "num_attention_heads": 8,
    "hidden_size": 1024,
    "vocab_size": 8,
}
WEIGHTS = {"groups": [{"name": "x", "bytes": 1 << 30, "shape": [1]}], "problem": ""}
NODE: dict[str, Any] = {
    "models": {"t": {"weights": WEIGHTS}, "d": {"weights": WEIGHTS}},
    "host": {"smi": {"gpus": [{"memory_mib": 97887}, {"memory_mib": 97000}]}},
}


def wanted(**change: Any) -> dict[str, Any]:
    models = [
        {"name": name, "source": {"on": "node", "path": f"/srv/{name}"}, "weights": None}
        for name in ("t", "d")
    ]
    return {
        "models": models,
        "configs": [CONFIG, DRAFT],
        "release": "0.5.12.post1",
        "algorithm": "EAGLE3",
        "ranks": 2,
        "fraction": "auto",
        "arguments": {"context_length": 2048},
        **change,
    }


def memory(node: dict[str, Any] = NODE, **change: Any) -> dict[str, Any]:
    found: dict[str, Any] = FILTERS["memory_plan"](node, wanted(**change))
    return found


def test_the_smallest_card_counts() -> None:
    plan = memory()
    assert plan["verdict"] == "ok"
    assert plan["lines"][0].startswith("memory of each GPU in GiB: 93.2 usable")
    assert 0 < plan["fraction"] < 1


def test_the_other_nodes_cards_count_too() -> None:
    small = {"host": {"smi": {"gpus": [{"memory_mib": 48000}]}}}
    plan = memory(others=[NODE, small], ranks=4)
    assert plan["lines"][0].startswith("memory of each GPU in GiB: 45.")
    assert memory(others=[NODE])["lines"] == memory()["lines"]
    # The weights are shared by all ranks, on whichever node.
    alone, both = (memory(ranks=ranks)["tokens"] for ranks in (2, 4))
    assert both > alone


@pytest.mark.parametrize(
    ("node", "change", "why"),
    [
        ({**NODE, "host": {}}, {}, "no GPU"),
        ({"models": {}}, {}, "no GPU"),
        (NODE, {"arguments": {"device": "cpu"}}, "no GPU"),
        ({**NODE, "models": {}}, {}, "the models' files are not all there (not read)"),
        (NODE, {"arguments": {"pp_size": 2, "dp-size": 1}}, "the sum does not cover pp-size"),
        (
            NODE,
            {"arguments": {"enable-dp-attention": True}},
            "the sum does not cover enable-dp-attention",
        ),
        (NODE, {"configs": [CONFIG, {}]}, "the models' files are not all there (config.json)"),
    ],
)
def test_what_cannot_be_judged_is_left_to_the_release(
    node: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    plan = memory(node, **change)
    assert (plan["verdict"], plan["fraction"]) == ("unknown", None)
    assert plan["lines"] == [f"memory: not judged, {why}"]


def test_the_operators_argument_wins() -> None:
    assert memory(arguments={"mem_fraction_static": 0.5}, fraction="0.7")["fraction"] == 0.5
    assert memory(fraction="0.7")["fraction"] == 0.7


@pytest.mark.parametrize("fraction", ["1.2", "0", "-1", "much", "nan", "", True, [0.8]])
def test_what_is_no_fraction_is_refused(fraction: object) -> None:
    assert "neither auto nor a number between 0 and 1" in FILTERS["fraction_problem"](fraction)
    with pytest.raises(AnsibleFilterError, match=r"mem_fraction_static: .*neither auto nor"):
        memory(fraction=fraction)


@pytest.mark.parametrize("fraction", ["auto", "0.85", 0.85, ".9"])
def test_what_is_a_fraction_is_taken(fraction: object) -> None:
    assert FILTERS["fraction_problem"](fraction) == ""


def test_a_pair_is_judged_and_its_problems_told() -> None:
    verdicts = FILTERS["pairing_verdicts"](NODE, wanted())
    assert [one["id"] for one in verdicts if one["verdict"] == "fail"] == []
    refused = FILTERS["pairing_verdicts"](NODE, wanted(algorithm="EAGLE"))
    (sentence,) = FILTERS["pairing_problems"](refused)
    assert sentence.startswith("pair_algorithm: ")
    assert sentence.endswith("algorithm to EAGLE3, or leave it out")


@pytest.mark.parametrize(
    ("models", "on_node", "algorithm"),
    [
        ([{"name": "d", "config": {"architectures": ["LlamaForCausalLMEagle"]}}], {}, "EAGLE"),
        (
            [{"name": "d", "config": None}],
            {"d": {"config": {"architectures": ["LlamaForCausalLMEagle"]}}},
            "EAGLE",
        ),
        ([{"name": "d", "config": None}], {"d": {"config": None}}, "EAGLE3"),
        ([{"name": "d", "config": None}], {}, "EAGLE3"),
        ([], {}, ""),
    ],
)
def test_the_draft_says_how_it_is_used_wherever_it_lies(
    models: list[dict[str, Any]], on_node: dict[str, Any], algorithm: str
) -> None:
    assert FILTERS["drafting"]({"algorithm": "auto"}, models, on_node) == {"algorithm": algorithm}


@pytest.mark.parametrize(
    ("wanted_algorithm", "models", "on_node", "told"),
    [
        ("auto", [{"name": "d", "config": None}], {}, True),
        ("auto", [{"name": "d", "config": None}], {"d": {"config": None}}, True),
        ("auto", [{"name": "d", "config": None}], {"d": {"config": {"architectures": []}}}, False),
        ("auto", [{"name": "d", "config": {"architectures": []}}], {}, False),
        ("EAGLE", [{"name": "d", "config": None}], {}, False),
        ("auto", [], {}, False),
    ],
)
def test_an_algorithm_that_no_draft_has_told_is_called_assumed(
    wanted_algorithm: str, models: list[dict[str, Any]], on_node: dict[str, Any], told: bool
) -> None:
    said = FILTERS["drafting_remarks"]({"algorithm": wanted_algorithm}, models, on_node)
    start = "speculation: algorithm EAGLE3 is assumed until the draft d is on the node"
    assert [one.startswith(start) for one in said] == [True] * told


def test_without_a_draft_or_before_the_files_are_there_nothing_is_judged() -> None:
    alone = wanted()
    alone["models"] = alone["models"][:1]
    assert FILTERS["pairing_verdicts"](NODE, alone) == []
    assert FILTERS["pairing_verdicts"](NODE, wanted(configs=[CONFIG, {}])) == []


def test_an_odd_config_is_a_message_and_no_traceback() -> None:
    with pytest.raises(AnsibleFilterError, match="unexpected value"):
        memory(configs=[{"num_hidden_layers": "many"}, DRAFT])


def test_the_plan_says_that_the_algorithm_is_assumed(tmp_path: Path) -> None:
    known = {
        "_preflight_launch": {"findings": []},
        "_preflight_stack": {"sglang": "0.5.12"},
        "_preflight_verdicts": [],
        "_preflight_node": {"models": {"d": {"config": None}}},
        "_engine_draft": {"name": "d", "config": None},
        "_engine_overrides": [],
        "_engine_rule_findings": [],
    }
    role = {"name": "sm120.sglang.preflight", "tasks_from": "variables.yml"}
    play = {
        "hosts": "engines",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.import_role": {**role, "rolespec_validate": False}},
            {"ansible.builtin.debug": {"msg": "{{ _preflight_remarks }}"}},
        ],
    }
    read = {"models": {"d": {"config": {"architectures": ["LlamaForCausalLMEagle3"]}}}}
    nodes = {"a": known, "b": {**known, "_preflight_node": read}}
    done = run(tmp_path, nodes, [play])
    assert done.status == 0, done.output
    assert done.output.count("algorithm EAGLE3 is assumed until the draft d is on the node") == 1
