# SPDX-License-Identifier: Apache-2.0
"""The sum of a GPU's memory, against figures of real engines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._pairing import memory
from ansible_collections.sm120.sglang.plugins.module_utils._pairing.memory import GIB
from hypothesis import given
from hypothesis import strategies as st

RECORDINGS = Path(__file__).parents[4] / "recordings"
CARD = 97887  # MiB of an RTX PRO 6000 Blackwell, as nvidia-smi gives it


def group(name: str, shape: list[int], count: int = 1, bits: int = 16) -> dict[str, Any]:
    size = math.prod(shape) * count * bits // 8
    return {"name": name, "dtype": "-", "shape": shape, "count": count, "bytes": size}


def kimi() -> list[dict[str, Any]]:
    """Kimi-K2.5's tensors by its config.json: 61 layers, 384 experts packed to 4 bits."""
    attention, moe = 61, 60
    experts = moe * 384
    own = [
        group("model.layers.*.self_attn.q_a_proj.weight", [1536, 7168], attention),
        group("model.layers.*.self_attn.q_b_proj.weight", [12288, 1536], attention),
        group("model.layers.*.self_attn.kv_a_proj_with_mqa.weight", [576, 7168], attention),
        group("model.layers.*.self_attn.kv_b_proj.weight", [16384, 512], attention),
        group("model.layers.*.self_attn.o_proj.weight", [7168, 8192], attention),
        group("model.layers.*.mlp.gate.weight", [384, 7168], moe),
        group("model.layers.*.mlp.shared_experts.gate_proj.weight", [2048, 7168], moe * 3),
        group("model.layers.*.mlp.gate_proj.weight", [18432, 7168], 3),
        group("model.embed_tokens.weight", [163840, 7168]),
        group("lm_head.weight", [163840, 7168]),
        group("vision_tower.encoder.weight", [1000, 425000]),
    ]
    for part, rows, packed in (("gate", 2048, 896), ("up", 2048, 896), ("down", 7168, 256)):
        name = f"model.layers.*.mlp.experts.*.{part}_proj"
        own.append(group(f"{name}.weight_packed", [rows, packed], experts, 32))
        own.append(group(f"{name}.weight_scale", [rows, packed // 4], experts))
    return own


KIMI = {
    "text_config": {
        "num_hidden_layers": 61,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 262144,
    }
}
DRAFT = {
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
    "hidden_size": 7168,
}


def kimi_need(
    draft: dict[str, Any] | None = DRAFT,
    release: str = "0.5.12.post1",
    arguments: dict[str, Any] | None = None,
) -> memory.Need:
    weights = [group("midlayer.mlp.gate_proj.weight", [18432, 7168], 3)]
    return memory.measure(
        KIMI,
        draft,
        (kimi(), weights if draft else []),
        memory=CARD,
        ranks=8,
        release=release,
        arguments=arguments or {},
    )


def test_the_weights_of_kimi_on_one_of_eight_cards() -> None:
    """magik6k's public start shows 72.33 GB (of 2**30 bytes) for each GPU at tensor parallel 8."""
    assert sum(one["bytes"] for one in kimi()) == pytest.approx(595e9, rel=0.002)
    assert memory.rank_bytes(kimi(), 8) / GIB == pytest.approx(72.33, rel=0.01)


def test_a_token_of_kimi_takes_69_kib_on_every_rank() -> None:
    assert memory.kv_bytes(KIMI, 8, 2) == 61 * 1152
    # The draft's keys and values are split over the ranks.
    assert memory.kv_bytes(DRAFT, 8, 2) == 8 * 128 * 2 * 2
    assert memory.kv_bytes({**DRAFT, "num_key_value_heads": 4}, 8, 2) == 1 * 128 * 2 * 2


def test_the_fraction_that_is_reported_to_serve_kimi_is_not_refused() -> None:
    """0.94 without a draft is reported with 170 to 232 thousand tokens (rtx6kpro wiki)."""
    plan = memory.plan(kimi_need(None), 0.94, 131072)
    assert plan.verdict == "warn"
    assert plan.tokens == pytest.approx(232_000, rel=0.12)


SMALL = {"num_hidden_layers": 12, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
SMALL_DRAFT = {
    "num_hidden_layers": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "hidden_size": 2048,
}


def small_need() -> memory.Need:
    return memory.measure(
        SMALL,
        SMALL_DRAFT,
        ([{"name": "x", "bytes": 7.4e9}], []),
        memory=143771,
        ranks=1,
        release="0.5.12.post1",
        arguments={},
    )


def test_the_pools_that_a_real_engine_printed() -> None:
    """0.5.12.post1 on one H200, default fraction 0.876: 8.9 million tokens, 115 GB, then it ran
    out of memory at 34 GiB, the keys of the draft's pool; docs/models.md."""
    need = small_need()
    tokens = need.tokens(0.876)
    assert tokens == pytest.approx(8.9e6, rel=0.01)
    assert tokens * need.kv_token / GIB == pytest.approx(115, abs=1)
    assert tokens * need.draft_kv_token / 2 / GIB == pytest.approx(34, abs=0.2)
    refused = memory.plan(need, 0.876, 2048)
    assert refused.verdict == "fail"
    assert "not counted by this release" in refused.lines[0]
    assert "it does not fit" in refused.lines[-1]
    # With 0.5 it served, with 40 GB outside of the fraction.
    served = memory.plan(need, 0.5, 2048)
    assert served.verdict == "ok"
    assert need.tokens(0.5) * need.draft_kv_token == pytest.approx(40e9, rel=0.02)


def test_the_pool_of_the_lab() -> None:
    """The recorded start: 4096 tokens in float32, "KV size: 0.02 GB"."""
    log = (RECORDINGS / "sglang-0.5.9-cpu/start.log").read_text()
    assert "#tokens: 4096, KV size: 0.02 GB" in log
    lab = {"num_hidden_layers": 4, "kv_lora_rank": 256, "qk_rope_head_dim": 32}
    assert round(4096 * memory.kv_bytes(lab, 1, 4) / GIB, 2) == 0.02


def test_auto_leaves_room_and_says_what_to_expect() -> None:
    need = small_need()
    plan = memory.plan(need, "auto", 2048)
    assert plan.verdict == "ok"
    assert plan.fraction is not None
    assert plan.tokens is not None
    assert need.usable - need.total(plan.tokens) >= need.reserve
    assert f"({plan.tokens} tokens of 13824 B)" in plan.lines[0]


def test_auto_never_goes_below_what_is_reported_to_serve() -> None:
    need = kimi_need()
    plan = memory.plan(need, "auto", 262144)
    assert plan.verdict == "warn"
    assert plan.tokens is not None
    assert need.usable - need.total(plan.tokens) >= need.reported
    assert any("whole context (262144 tokens)" in line for line in plan.lines)
    assert any(line.startswith("tight") for line in plan.lines)
    # With a context that fits, SGLang's own reserve is kept.
    roomy = memory.plan(need, "auto", 32768)
    assert roomy.verdict == "ok"
    assert roomy.tokens is not None
    assert need.usable - need.total(roomy.tokens) >= need.reserve


def test_a_fraction_below_the_weights_is_refused_with_the_least_one() -> None:
    plan = memory.plan(kimi_need(), 0.7, 131072)
    assert (plan.verdict, plan.tokens) == ("fail", 0)
    assert "weights alone need engine_mem_fraction_static above 0.77" in plan.lines[-1]


def test_models_that_cannot_fit_are_refused() -> None:
    need = memory.measure(
        KIMI, None, (kimi(), []), memory=CARD, ranks=4, release="0.5.9", arguments={}
    )
    for wanted in ("auto", 0.95):
        plan = memory.plan(need, wanted, 131072)
        assert plan.verdict == "fail"
        assert "more GPUs" in plan.lines[-1]


def test_a_release_that_counts_the_draft_makes_fewer_tokens_of_a_fraction() -> None:
    old, new = kimi_need(release="0.5.13.post1"), kimi_need(release="0.5.14")
    assert old.budgeted_token == old.kv_token
    assert new.budgeted_token == pytest.approx(new.kv_token * 62 / 61)
    assert new.tokens(0.9) < old.tokens(0.9)


def test_an_eight_bit_cache_holds_twice_as_much() -> None:
    half = kimi_need(arguments={"kv-cache-dtype": "fp8_e4m3"})
    assert half.kv_token == kimi_need().kv_token / 2


def test_the_operators_cap_counts() -> None:
    plan = memory.plan(small_need(), 0.876, 2048, cap=65536)
    assert (plan.verdict, plan.tokens) == ("ok", 65536)


def test_without_anything_to_judge_by_nothing_is_decided() -> None:
    plan = memory.plan(None, "auto", 0, why="no GPU")
    assert (plan.verdict, plan.fraction, plan.tokens) == ("unknown", None, None)
    assert plan.lines == ("memory: not judged, no GPU",)
    assert memory.plan(None, "0.8", 0, why="no GPU").fraction == 0.8


def test_the_reserve_is_sglangs_own() -> None:
    """0.5.12.post1 on this card at tensor parallel 8: 512 + 8192 * 1.5 + 512 * 2 + 1024 MiB."""
    assumed = memory.Assumptions()
    assert memory.reserve_bytes(CARD, 8, {}, assumed, draft=False) == 14848 << 20
    small = {"chunked-prefill-size": 2048, "cuda-graph-max-bs": 16}
    assert memory.reserve_bytes(CARD, 8, small, assumed, draft=False) == 4640 << 20


@given(
    st.floats(20_000, 200_000),
    st.integers(1, 120_000),
    st.floats(1000, 80_000),
    st.floats(500, 40_000),
    st.sampled_from(["0.5.9", "0.5.23"]),
)
def test_what_auto_picks_fits(
    card: float, weights: int, token: float, draft: float, release: str
) -> None:
    counted = token * (1.1 if release == "0.5.23" else 1)
    need = memory.Need(
        usable=card * memory.MIB,
        weights=weights * memory.MIB,
        draft_weights=100 * memory.MIB,
        kv_token=token,
        draft_kv_token=draft,
        budgeted_token=counted,
        reserve=12000.0 * memory.MIB,
        reported=5632.0 * memory.MIB,
        least=2048.0 * memory.MIB,
    )
    plan = memory.plan(need, "auto", 131072)
    if plan.verdict != "fail":
        assert plan.fraction is not None
        assert 0 < plan.fraction < 1
        assert need.usable - need.total(need.tokens(plan.fraction)) >= need.reported
