# SPDX-License-Identifier: Apache-2.0
"""The target: Kimi-K2.5's architecture (KimiK25ForConditionalGeneration) in miniature.

Each token's embedding is carried unchanged along the residual stream; attention and MLPs add a
little noise (they are computed for real, and wrong numbers there are felt); the output layer names
the successor.  `kv_lora_rank` 256 with a rotary part of 32 is one of the two MLA shapes that
SGLang's Triton decode kernel takes on a GPU without speculation; the engine without AMX wants the
three ranks equal.
"""

from __future__ import annotations

from typing import Any

from lab.models.geometry import HIDDEN, next_token_head, token_embeddings
from lab.models.tensors import Tensor, bfloat16, noise, ones, zeros
from lab.models.vocabulary import BOS_ID, EOS_ID, MEDIA_PAD_ID, VOCABULARY_SIZE, vocabulary

CONTEXT = 2048
LOGIT_GAIN = 0.25
"""The right token's logit is then about 31, no other above 7: certain at temperature 1 too."""

_LAYERS = 4
_DENSE_LAYERS = 1
_HEADS = 2
_MLA_RANK = 256
_Q_RANK = 64
_ROPE = 32
_DENSE_WIDTH = 256
_EXPERT_WIDTH = 64
_EXPERTS = 8
_RESIDUAL_NOISE = 0.05
_VISION_HIDDEN = 64
_VISION_WIDTH = 128
_VISION_LAYERS = 2
_PATCH = 14
_VISION_GRID = 8


def config() -> dict[str, Any]:
    """Return `config.json`."""
    text = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": EOS_ID,
        "dtype": "bfloat16",
        "first_k_dense_replace": _DENSE_LAYERS,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": _DENSE_WIDTH,
        "kv_lora_rank": _MLA_RANK,
        "max_position_embeddings": CONTEXT,
        "moe_intermediate_size": _EXPERT_WIDTH,
        "moe_layer_freq": 1,
        "n_group": 1,
        "n_routed_experts": _EXPERTS,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": _HEADS,
        "num_experts_per_tok": 2,
        "num_hidden_layers": _LAYERS,
        "num_key_value_heads": _HEADS,
        "num_nextn_predict_layers": 0,
        "q_lora_rank": _Q_RANK,
        "qk_nope_head_dim": _MLA_RANK,
        "qk_rope_head_dim": _ROPE,
        "rms_norm_eps": 1e-6,
        "rope_interleave": True,
        # `original_max_position_embeddings` says that the factor is already in
        # `max_position_embeddings`: the effective context is CONTEXT, not four times that.
        "rope_scaling": {
            "type": "yarn",
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": CONTEXT // 4,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        "rope_theta": 50000.0,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "use_cache": True,
        "v_head_dim": _MLA_RANK,
        "vocab_size": VOCABULARY_SIZE,
    }
    vision = {
        "vt_hidden_size": _VISION_HIDDEN,
        "vt_intermediate_size": _VISION_WIDTH,
        "vt_num_attention_heads": 2,
        "vt_num_hidden_layers": _VISION_LAYERS,
        "hidden_size": _VISION_HIDDEN,
        "intermediate_size": _VISION_WIDTH,
        "num_attention_heads": 2,
        "num_hidden_layers": _VISION_LAYERS,
        "patch_size": _PATCH,
        "init_pos_emb_height": _VISION_GRID,
        "init_pos_emb_width": _VISION_GRID,
        "init_pos_emb_time": 4,
        "merge_kernel_size": [2, 2],
        "merge_type": "sd2_tpool",
        "mm_hidden_size": _VISION_HIDDEN,
        "mm_projector_type": "patchmerger",
        "pos_emb_type": "divided_fixed",
        "projector_hidden_act": "gelu",
        "projector_ln_eps": 1e-5,
        "text_hidden_size": HIDDEN,
        "video_attn_type": "spatial_temporal",
    }
    return {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": EOS_ID,
        "ignore_index": -100,
        "media_placeholder_token_id": MEDIA_PAD_ID,
        "tie_word_embeddings": False,
        "text_config": text,
        "vision_config": vision,
    }


def _linear(name: str, rows: int, columns: int, deviation: float = 1.0) -> dict[str, Tensor]:
    """Return a noise matrix that maps inputs of unit variance to the given deviation."""
    return {name: noise(name, (rows, columns), deviation / columns**0.5)}


def _mlp(prefix: str, width: int) -> dict[str, Tensor]:
    return {
        **_linear(f"{prefix}.gate_proj.weight", width, HIDDEN),
        **_linear(f"{prefix}.up_proj.weight", width, HIDDEN),
        **_linear(f"{prefix}.down_proj.weight", HIDDEN, width, _RESIDUAL_NOISE),
    }


def _attention(prefix: str) -> dict[str, Tensor]:
    return {
        **_linear(f"{prefix}.q_a_proj.weight", _Q_RANK, HIDDEN),
        f"{prefix}.q_a_layernorm.weight": ones(_Q_RANK),
        **_linear(f"{prefix}.q_b_proj.weight", _HEADS * (_MLA_RANK + _ROPE), _Q_RANK),
        **_linear(f"{prefix}.kv_a_proj_with_mqa.weight", _MLA_RANK + _ROPE, HIDDEN),
        f"{prefix}.kv_a_layernorm.weight": ones(_MLA_RANK),
        **_linear(f"{prefix}.kv_b_proj.weight", _HEADS * 2 * _MLA_RANK, _MLA_RANK),
        **_linear(f"{prefix}.o_proj.weight", HIDDEN, _HEADS * _MLA_RANK, _RESIDUAL_NOISE),
    }


def _decoder_layer(index: int) -> dict[str, Tensor]:
    prefix = f"language_model.model.layers.{index}"
    tensors = {
        f"{prefix}.input_layernorm.weight": ones(HIDDEN),
        f"{prefix}.post_attention_layernorm.weight": ones(HIDDEN),
        **_attention(f"{prefix}.self_attn"),
    }
    if index < _DENSE_LAYERS:
        return tensors | _mlp(f"{prefix}.mlp", _DENSE_WIDTH)
    tensors |= _linear(f"{prefix}.mlp.gate.weight", _EXPERTS, HIDDEN)
    tensors[f"{prefix}.mlp.gate.e_score_correction_bias"] = zeros(_EXPERTS)
    tensors |= _mlp(f"{prefix}.mlp.shared_experts", _EXPERT_WIDTH)
    for expert in range(_EXPERTS):
        tensors |= _mlp(f"{prefix}.mlp.experts.{expert}", _EXPERT_WIDTH)
    return tensors


def _norm(prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}.weight": ones(_VISION_HIDDEN), f"{prefix}.bias": zeros(_VISION_HIDDEN)}


def _biased(prefix: str, rows: int, columns: int) -> dict[str, Tensor]:
    return {**_linear(f"{prefix}.weight", rows, columns), f"{prefix}.bias": zeros(rows)}


def _vision() -> dict[str, Tensor]:
    """Return the vision tower and its projector, under the checkpoint's own names.

    SGLang renames `wqkv`, `wo` and `mm_projector.proj.N` while loading (0.5.9,
    models/kimi_k25.py, `load_weights`).
    """
    merged = 4 * _VISION_HIDDEN
    patch = "vision_tower.patch_embed"
    tensors = {
        f"{patch}.proj.weight": noise(
            f"{patch}.proj.weight", (_VISION_HIDDEN, 3, _PATCH, _PATCH), 0.02
        ),
        f"{patch}.proj.bias": zeros(_VISION_HIDDEN),
        f"{patch}.pos_emb.weight": noise(
            f"{patch}.pos_emb.weight", (_VISION_GRID, _VISION_GRID, _VISION_HIDDEN), 0.02
        ),
        **_norm("vision_tower.encoder.final_layernorm"),
        **_norm("mm_projector.pre_norm"),
        **_biased("mm_projector.proj.0", merged, merged),
        **_biased("mm_projector.proj.2", HIDDEN, merged),
    }
    for block in range(_VISION_LAYERS):
        prefix = f"vision_tower.encoder.blocks.{block}"
        tensors |= _norm(f"{prefix}.norm0") | _norm(f"{prefix}.norm1")
        tensors |= _biased(f"{prefix}.mlp.fc0", _VISION_WIDTH, _VISION_HIDDEN)
        tensors |= _biased(f"{prefix}.mlp.fc1", _VISION_HIDDEN, _VISION_WIDTH)
        tensors |= _biased(f"{prefix}.wqkv", 3 * _VISION_HIDDEN, _VISION_HIDDEN)
        tensors |= _biased(f"{prefix}.wo", _VISION_HIDDEN, _VISION_HIDDEN)
    return tensors


def weights() -> dict[str, Tensor]:
    """Return the checkpoint's tensors by name."""
    vocab = vocabulary()
    tensors = {
        "language_model.model.embed_tokens.weight": bfloat16(token_embeddings(vocab)),
        "language_model.model.norm.weight": ones(HIDDEN),
        "language_model.lm_head.weight": bfloat16(next_token_head(vocab, LOGIT_GAIN)),
    }
    for index in range(_LAYERS):
        tensors |= _decoder_layer(index)
    return tensors | _vision()
