# SPDX-License-Identifier: Apache-2.0
"""The EAGLE-3 drafts (LlamaForCausalLMEagle3): one that always hits, one that never does.

The draft receives three of the target's hidden states, each the last token's embedding e plus a
little noise, and must name successors for several steps.  `fc` averages the three; the MLP adds
(R - I) e, so that the hidden state, which the engine hands to the next draft step before the final
norm (SGLang 0.5.9, models/llama_eagle3.py), becomes R e: the next token's embedding.  The output
layer is the target's own, with smaller logits.  The draft thus turns the cycle one place per step,
as far as asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lab.models.geometry import CONSTANT, HIDDEN, next_token_head, rotation
from lab.models.tensors import Tensor, bfloat16, noise, ones
from lab.models.vocabulary import BOS_ID, EOS_ID, VOCABULARY_SIZE, vocabulary

if TYPE_CHECKING:
    import numpy.typing as npt

_HEADS = 2
_AUX_LAYERS = (0, 1, 2)
_GATE = 16.0
"""Far in SiLU's linear part, and a power of two: dividing by it is exact in bfloat16."""
_ATTENTION_NOISE = 0.01
_LOGIT_GAIN = 0.08
"""Sure, but not certain: at a probability that rounds to 1 a drafted token scores exactly what its
parent does, and SGLang's choice of the best tokens (topk above 1) may keep it without its parent.
The right token's logit is about 10, no other above 2: a probability of about 0.95."""


def config(context: int) -> dict[str, Any]:
    """Return `config.json`.

    Args:
        context: `max_position_embeddings`, in tokens.
    """
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": EOS_ID,
        "draft_vocab_size": VOCABULARY_SIZE,
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(_AUX_LAYERS),
            "use_aux_hidden_state": True,
        },
        "head_dim": HIDDEN // _HEADS,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": context,
        "num_attention_heads": _HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": _HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY_SIZE,
    }


def _turning_mlp() -> dict[str, npt.NDArray[np.float64]]:
    """Return an MLP that adds (R - I) x: its gate, fed by the constant alone, stands wide open."""
    gate = np.zeros((HIDDEN, HIDDEN))
    gate[:, 0] = _GATE / CONSTANT
    turn = rotation(len(vocabulary().cycle)) - np.eye(HIDDEN)
    return {"gate_proj": gate, "up_proj": turn, "down_proj": np.eye(HIDDEN) / _GATE}


def weights(*, hits: bool) -> dict[str, Tensor]:
    """Return the checkpoint's tensors by name.

    Args:
        hits: whether the draft's first choice is always right.  Otherwise its output layer is
            negated: the right token is always its last choice, so no `topk` below the vocabulary's
            size ever contains it.
    """
    head = next_token_head(vocabulary(), _LOGIT_GAIN if hits else -_LOGIT_GAIN)
    average = np.tile(np.eye(HIDDEN), (1, len(_AUX_LAYERS))) / len(_AUX_LAYERS)
    attention = "midlayer.self_attn"
    tensors = {
        # Draft and target share one vocabulary: every offset of draft id to target id is zero.
        "d2t": Tensor("int64", np.zeros(VOCABULARY_SIZE, dtype="<i8")),
        "t2d": Tensor("bool", np.ones(VOCABULARY_SIZE, dtype=np.bool_)),
        "fc.weight": bfloat16(average),
        "lm_head.weight": bfloat16(head),
        "norm.weight": ones(HIDDEN),
        "midlayer.hidden_norm.weight": ones(HIDDEN),
        "midlayer.input_layernorm.weight": ones(HIDDEN),
        "midlayer.post_attention_layernorm.weight": ones(HIDDEN),
        f"{attention}.o_proj.weight": noise(
            f"{attention}.o_proj.weight", (HIDDEN, HIDDEN), _ATTENTION_NOISE / HIDDEN**0.5
        ),
    }
    for name in ("q_proj", "k_proj", "v_proj"):
        key = f"{attention}.{name}.weight"
        tensors[key] = noise(key, (HIDDEN, 2 * HIDDEN), (2 * HIDDEN) ** -0.5)
    for name, matrix in _turning_mlp().items():
        tensors[f"midlayer.mlp.{name}.weight"] = bfloat16(matrix)
    return tensors
