# SPDX-License-Identifier: Apache-2.0
"""The construction itself, computed in numpy from the very bits that are written to disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lab.models import draft, target
from lab.models.geometry import (
    HIDDEN,
    PAIRS,
    correlation,
    cycle_embeddings,
    frequencies,
    rotation,
)
from lab.models.tensors import Tensor, from_bfloat16
from lab.models.vocabulary import SPECIAL_TOKENS, VOCABULARY_SIZE, vocabulary

Floats = npt.NDArray[np.float64]
CYCLE = list(vocabulary().cycle)
NEXT = dict(zip(CYCLE, [*CYCLE[1:], CYCLE[0]], strict=True))


def values(tensors: dict[str, Tensor], name: str) -> Floats:
    return from_bfloat16(tensors[name].values).astype(np.float64)


def normalized(hidden: Floats) -> Floats:
    """RMSNorm with a weight of ones, over the last axis."""
    result: Floats = hidden / np.sqrt((hidden**2).mean(axis=-1, keepdims=True))
    return result


def silu(numbers: Floats) -> Floats:
    result: Floats = numbers / (1 + np.exp(-numbers))
    return result


@pytest.fixture(scope="module")
def target_weights() -> dict[str, Tensor]:
    return target.weights()


@pytest.fixture(scope="module", params=[True, False], ids=["hit", "miss"])
def drafted(request: pytest.FixtureRequest) -> tuple[bool, dict[str, Tensor]]:
    return request.param, draft.weights(hits=request.param)


def test_embeddings_have_one_length_and_turn_into_each_other() -> None:
    embeddings = cycle_embeddings(len(CYCLE))
    assert np.allclose((embeddings**2).mean(axis=1), 1.0)
    assert np.allclose(embeddings @ rotation(len(CYCLE)).T, np.roll(embeddings, -1, axis=0))


def test_frequencies_are_distinct_and_keep_tokens_apart() -> None:
    chosen = frequencies(len(CYCLE))
    assert len(set(chosen)) == PAIRS
    assert correlation(chosen, len(CYCLE))[0] == 1.0
    assert correlation(chosen, len(CYCLE))[1:].max() < 0.25


def test_every_token_says_its_successor_with_a_margin(target_weights: dict[str, Tensor]) -> None:
    embeddings = values(target_weights, "language_model.model.embed_tokens.weight")
    head = values(target_weights, "language_model.lm_head.weight")
    noise = np.random.default_rng(0).normal(scale=0.2, size=(len(CYCLE), HIDDEN))
    logits = normalized(embeddings[CYCLE] + noise) @ head.T
    ranked = np.sort(logits, axis=1)
    assert logits.argmax(axis=1).tolist() == [NEXT[token] for token in CYCLE]
    # e**-15 per token: sampling at temperature 1 says the same.
    assert (ranked[:, -1] - ranked[:, -2]).min() > 15


def test_special_tokens_are_answered_like_the_start_and_never_said(
    target_weights: dict[str, Tensor],
) -> None:
    embeddings = values(target_weights, "language_model.model.embed_tokens.weight")
    head = values(target_weights, "language_model.lm_head.weight")
    unused = [*range(len(SPECIAL_TOKENS)), *range(len(vocabulary().tokens), VOCABULARY_SIZE)]
    assert np.array_equal(embeddings[unused], np.tile(embeddings[CYCLE[0]], (len(unused), 1)))
    assert not head[unused].any()


@pytest.mark.parametrize("steps", [3, 16])
def test_drafts_hit_at_every_step_or_never(
    target_weights: dict[str, Tensor], drafted: tuple[bool, dict[str, Tensor]], steps: int
) -> None:
    hits, weights = drafted
    embeddings = values(target_weights, "language_model.model.embed_tokens.weight")[CYCLE]
    rng = np.random.default_rng(1)
    aux = [embeddings + rng.normal(scale=0.1, size=embeddings.shape) for _ in range(3)]
    hidden = np.concatenate(aux, axis=1) @ values(weights, "fc.weight").T
    gate, up, down = (
        values(weights, f"midlayer.mlp.{name}_proj.weight") for name in ("gate", "up", "down")
    )
    head = values(weights, "lm_head.weight")
    successor = CYCLE
    successor = [NEXT[token] for token in successor]  # what the target itself adds
    for _ in range(steps):
        successor = [NEXT[token] for token in successor]
        attention = rng.normal(scale=0.01, size=hidden.shape)
        hidden = hidden + attention
        inner = normalized(hidden)
        hidden = hidden + (silu(inner @ gate.T) * (inner @ up.T)) @ down.T
        logits = normalized(hidden) @ head.T
        if hits:
            assert logits.argmax(axis=1).tolist() == successor
            weight = np.exp(logits)
            sureness = (weight.max(axis=1) / weight.sum(axis=1)).astype(np.float32)
            assert sureness.min() > 0.5
            assert sureness.max() < 0.999  # a 1 would tie a token with its parent
        else:
            right = logits[np.arange(len(CYCLE)), successor]
            assert (right[:, None] <= logits).all()  # the right one is the last choice


def test_the_draft_adds_little_by_attention(drafted: tuple[bool, dict[str, Tensor]]) -> None:
    _, weights = drafted
    out = values(weights, "midlayer.self_attn.o_proj.weight")
    assert np.sqrt((out**2).sum(axis=1)).max() < 0.02
    assert out.any()


def test_target_computes_attention_and_experts_for_real(
    target_weights: dict[str, Tensor],
) -> None:
    names = [n for n in target_weights if n.endswith(("o_proj.weight", "down_proj.weight"))]
    experts = [n for n in names if ".experts." in n]
    assert len(experts) == 3 * 8
    for name in names:
        assert values(target_weights, name).any(), name


def test_contexts_differ_on_purpose() -> None:
    text: dict[str, Any] = target.config()["text_config"]
    assert text["max_position_embeddings"] == 2048
    # With this key SGLang does not multiply by the factor (0.5.9, hf_transformers_utils.py).
    assert text["rope_scaling"]["original_max_position_embeddings"] == 512
    assert draft.config(1024)["max_position_embeddings"] == 1024


def test_mla_shape_is_one_that_every_backend_takes() -> None:
    text: dict[str, Any] = target.config()["text_config"]
    assert text["kv_lora_rank"] + text["qk_rope_head_dim"] == 288
    assert text["kv_lora_rank"] == text["qk_nope_head_dim"] == text["v_head_dim"]


def test_weights_match_the_configuration(target_weights: dict[str, Tensor]) -> None:
    text: dict[str, Any] = target.config()["text_config"]
    prefix = "language_model.model.layers."
    layers = {int(n.split(".")[3]) for n in target_weights if n.startswith(prefix)}
    assert layers == set(range(text["num_hidden_layers"]))
    shape = target_weights[f"{prefix}0.self_attn.kv_b_proj.weight"].values.shape
    heads = text["num_attention_heads"]
    assert shape == (
        heads * (text["qk_nope_head_dim"] + text["v_head_dim"]),
        text["kv_lora_rank"],
    )
    vision = [n for n in target_weights if n.startswith(("vision_tower.", "mm_projector."))]
    assert len(vision) == 35
