# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._arguments import (
    ArgumentsError,
    report,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import (
    Launch,
    judge,
    options_of,
    parse_rules,
)

REPOSITORY = Path(__file__).parents[5]
RAW = yaml.safe_load((REPOSITORY / report.RULES).read_text("utf-8"))
SHIPPED = parse_rules(RAW)


def found(
    release: str, words: str, sm120: bool = True, patches: tuple[str, ...] = (), **env: Any
) -> dict[str, str]:
    """Rule id to the argument that it is about."""
    launch = Launch(release, options_of(words.split()), env, sm120, frozenset(patches))
    return {finding.rule: finding.argument for finding in judge(SHIPPED, launch)}


FUSION = "--enable-flashinfer-allreduce-fusion"
SYMM = "--enable-torch-symm-mem"
PCIE_IPC = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"
V2 = "SGLANG_ENABLE_SPEC_V2"
PATCH = "sm120_allreduce_sizes"


@pytest.mark.parametrize("release", ["0.5.9", "0.5.10.post1", "0.5.12.post1", "0.5.13.post1"])
def test_the_fusion_does_nothing_on_early_releases(release: str) -> None:
    assert found(release, FUSION) == {"allreduce_fusion_does_nothing": FUSION}


@pytest.mark.parametrize("release", ["0.5.14", "0.5.16", "0.5.20", "0.5.23", "0.6.0"])
def test_the_fusion_ends_the_start_of_later_releases(release: str) -> None:
    assert found(release, FUSION) == {"allreduce_fusion_ends_the_start": FUSION}
    assert found(release, f"{FUSION} --enforce-disable-flashinfer-allreduce-fusion") == {}
    assert found(release, "--flashinfer-allreduce-fusion-backend trtllm") != {}


@pytest.mark.parametrize(
    ("release", "words", "patches", "env", "rules"),
    [
        ("0.5.13.post1", SYMM, (), {}, {"torch_symm_mem_without_patch"}),
        ("0.5.13.post1", SYMM, (PATCH,), {}, set()),
        ("0.5.14", SYMM, (), {}, {"torch_symm_mem_without_size"}),
        ("0.5.9", "--attention-backend trtllm_mla", (), {}, {"attention_trtllm_mla"}),
        ("0.5.23", "--prefill-attention-backend fa4", (), {}, {"attention_other_architectures"}),
        ("0.5.23", "--attention-backend triton", (), {}, set()),
        ("0.5.23", "--moe-runner-backend flashinfer_trtllm", (), {}, {"moe_trtllm_gen"}),
        ("0.5.12.post1", "--quantization modelopt_fp4", (), {}, {"nvfp4_needs_cutlass"}),
        ("0.5.13", "--quantization modelopt_fp4", (), {}, set()),
        (
            "0.5.12.post1",
            "--quantization modelopt_fp4 --moe-runner-backend flashinfer_cutlass",
            (), {}, set(),
        ),
        ("0.5.9", "--speculative-eagle-topk 4", (), {}, set()),
        ("0.5.9", "--speculative-eagle-topk 4", (), {V2: "1"}, {"spec_v2_topk"}),
        ("0.5.9", "--speculative-eagle-topk 1", (), {V2: "True"}, set()),
        ("0.5.9", "--speculative-eagle-topk 4", (), {V2: "0"}, set()),
        ("0.5.9", "--speculative-eagle-topk 4 --page-size 16", (), {}, {"topk_with_pages"}),
        ("0.5.9", "--speculative-eagle-topk 4 --page-size 1", (), {}, set()),
        ("0.5.12.post1", "", (), {V2: "1"}, {"spec_v2_is_the_default"}),
        ("0.5.14", "", (), {V2: "0"}, {"spec_v2_was_removed"}),
        ("0.5.20", "", (), {PCIE_IPC: "1"}, {"pcie_ipc_before_it_existed"}),
        ("0.5.21", "", (), {PCIE_IPC: "1"}, {"pcie_ipc_without_kernel"}),
        ("0.5.22", "--tp-size 8", (), {PCIE_IPC: "1"}, set()),
        ("0.5.22", "--tp-size 6", (), {PCIE_IPC: "1"}, {"pcie_ipc_world_size"}),
        ("0.5.9", "--speculative-algorithm EAGLE3", (), {}, {"speculation_without_draft"}),
        ("0.5.9", "--nnodes 2 --dp-size 2", (), {}, {"replicas_across_nodes"}),
        ("0.5.9", "--nnodes 2 --dp-size 2 --enable-dp-attention", (), {}, set()),
        ("0.5.9", "--dp-size 2", (), {"NCCL_IB_DISABLE": "1"}, set()),
        ("0.5.9", "--nnodes 2", (), {"NCCL_IB_DISABLE": "1"}, {"infiniband_off_across_nodes"}),
        ("0.5.9", "--nnodes 2", (), {"NCCL_IB_DISABLE": "0"}, set()),
        ("0.5.9", "", (), {"NCCL_P2P_LEVEL": "4"}, {"nccl_level_by_number"}),
        ("0.5.9", "", (), {"NCCL_P2P_LEVEL": "SYS"}, set()),
    ],
)  # fmt: skip
def test_shipped_rules(
    release: str, words: str, patches: tuple[str, ...], env: dict[str, Any], rules: set[str]
) -> None:
    assert set(found(release, words, patches=patches, **env)) == rules


def test_rules_about_the_hardware_are_for_that_hardware_alone() -> None:
    words = f"{FUSION} {SYMM} --attention-backend trtllm_mla --moe-runner-backend flashinfer_trtllm"
    assert found("0.5.14", words, sm120=False) == {}
    assert len(found("0.5.14", words)) == 4


def test_ranges_do_not_hold_for_a_release_that_is_not_known() -> None:
    assert found("", FUSION) == {}
    assert found("", "--attention-backend fa3") == {
        "attention_other_architectures": "--attention-backend"
    }


def test_each_shipped_rule_has_a_source_that_can_be_looked_up() -> None:
    for rule in SHIPPED:
        assert re.search(r"SGLang 0\.5\.|\w+#\d+|NCCL documentation", rule.source), rule.id
        assert not rule.reason.endswith("."), rule.id


def test_options_are_read_as_they_are_written() -> None:
    assert options_of(["x", "--a", "1", "2", "--b=3", "--c"]) == {
        "a": ("1", "2"),
        "b": ("3",),
        "c": (),
    }


GOOD: dict[str, Any] = {
    "id": "r",
    "argument": "x",
    "verdict": "fatal",
    "reason": "why",
    "source": "where",
    "remedy": "what",
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "bad"}, "verdict is one of"),
        ({"reason": ""}, "reason must be a text"),
        ({"source": None}, "source must be a text"),
        ({"hardware": "sm90"}, "hardware is one of"),
        ({"releases": "=0.5"}, "releases: '=0.5' is not a bound"),
        ({"releases": ">=five"}, "releases: 'five' is not a version"),
        ({"environment": "X"}, "either 'argument' or 'environment'"),
        ({"argument": "--x"}, "is not a name without dashes"),
        ({"argument": "X"}, "is not a name without dashes"),
        ({"values": "a"}, "values must be a list"),
        ({"above": "a"}, "above must be a number"),
        ({"with": ["a"]}, "with: a mapping"),
        ({"unless": {"a": {"bellow": 1}}}, "unless.a: unknown key bellow"),
        ({"extra": 1}, "unknown key extra"),
    ],
)
def test_a_rule_with_a_mistake_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentsError, match=re.escape(message)) as refused:
        parse_rules([{**GOOD, **changes}], "mine.yml")
    assert "mine.yml: rule 1 (r)" in str(refused.value)


def test_a_list_of_rules_is_checked_as_a_whole() -> None:
    assert len(parse_rules([GOOD])) == 1
    with pytest.raises(ArgumentsError, match="two rules have the id r"):
        parse_rules([GOOD, GOOD])
    with pytest.raises(ArgumentsError, match="a list, found dict"):
        parse_rules({"a": 1})
    with pytest.raises(ArgumentsError, match="a mapping, found str"):
        parse_rules(["a"])
