# SPDX-License-Identifier: Apache-2.0
"""How much memory of one GPU a pair needs, and which `mem_fraction_static` fits.

Sizes of weights come from the files' headers, sizes of the KV pools from the configs. What no file
says is an assumption, named with its source in `Assumptions`. All sizes are bytes of one GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._pairing.check import text_config
from ansible_collections.sm120.sglang.plugins.module_utils._stack import version_key

MIB, GIB = 1 << 20, 1 << 30
AUTO = "auto"
_MOST = 0.98  # a fraction is below 1, and something is always needed outside

# Not split over the ranks: ReplicatedLinear, norms, router and vision tower
# (0.5.9 models/deepseek_v2.py, models/kimi_k25.py; llama_eagle3.py has `fc` as a plain Linear).
_WHOLE = re.compile(
    r"norm|\.gate\.|q_a_proj|kv_a_proj|vision_tower|mm_projector|(?:^|\.)fc\.|score_correction"
    r"|weight_shape|rotary"
)
# Shared with the target, or kept on the host (llama_eagle3.py: load_weights).
_NOT_LOADED = re.compile(r"embed_tokens|(?:^|\.)d\*t$|(?:^|\.)t\*d$")
_ABSORBED = re.compile(r"kv_b_proj\.weight$")
_KV_BYTES = {"fp8_e5m2": 1, "fp8_e4m3": 1, "bf16": 2, "bfloat16": 2, "auto": 2}


def fraction_problem(value: object) -> str:
    """What is wrong with a wanted fraction, empty where nothing is.

    Args:
        value: `auto`, or a number above 0 and below 1, as number or text.
    """
    try:
        usable = str(value) == AUTO or 0 < float(str(value)) < 1
    except ValueError:
        usable = False
    return "" if usable else f"{value!r} is neither auto nor a number between 0 and 1, as in 0.85"


@dataclass(frozen=True)
class Assumptions:
    """What no file says, in MiB, with where each is from.

    Attributes:
        driver: Driver and CUDA context. A context on one H200 leaves 142629 of 143771 MiB, and the
            pools of a real engine there (0.5.12.post1, see docs/models.md) leave another 0.4 GiB.
        constant, per_prefill_token, per_graph, per_rank: SGLang's own reserve for activations and
            graphs (0.5.12.post1 server_args.py:1541-1552, the same in 0.5.9 to 0.5.14).
        floor: Its least on cards above 60 GiB (:1573).
        draft_graphs: Graphs of the draft.
        reported: The least that serving on these cards is reported with: 0.94 without a draft,
            which leaves 5.6 GiB beside weights and pool (rtx6kpro wiki, kimi-k25).
        least: With less beside weights and pools a start is refused here.
    """

    driver: float = 1536
    constant: float = 512
    per_prefill_token: float = 1.5
    per_graph: float = 2
    per_rank: float = 128
    floor: float = 10240
    draft_graphs: float = 1024
    reported: float = 5632
    least: float = 2048


@dataclass(frozen=True)
class Need:
    """What a pair needs on one GPU.

    Attributes:
        usable: Memory that the engine sees before it loads.
        weights, draft_weights: Of one rank.
        kv_token, draft_kv_token: Bytes of one token in each KV pool.
        budgeted_token: What the release itself counts a token as when it sizes the pool.
        reserve: Activations and graphs as SGLang reserves them.
        reported, least: Smaller amounts; see `Assumptions`.
    """

    usable: float
    weights: float
    draft_weights: float
    kv_token: float
    draft_kv_token: float
    budgeted_token: float
    reserve: float
    reported: float
    least: float

    def tokens(self, fraction: float) -> int:
        """KV tokens that the release makes room for with a fraction (may be negative)."""
        return math.floor((self.usable * fraction - self.weights) / self.budgeted_token)

    def total(self, tokens: int) -> float:
        """Everything but activations and graphs."""
        pools = tokens * (self.kv_token + self.draft_kv_token)
        return self.weights + self.draft_weights + pools

    def best(self, reserve: float) -> tuple[float, int]:
        """The largest fraction (three digits) that leaves `reserve`, and its tokens."""
        room = self.usable - self.weights - self.draft_weights - reserve
        tokens = math.floor(room / (self.kv_token + self.draft_kv_token))
        fraction = (self.weights + tokens * self.budgeted_token) / self.usable
        fraction = min(math.floor(fraction * 1000) / 1000, _MOST)
        return fraction, self.tokens(fraction)


@dataclass(frozen=True)
class MemoryPlan:
    """The outcome.

    Attributes:
        verdict: `ok`, `warn`, `fail`, or `unknown` when there is nothing to judge by.
        fraction: What `mem-fraction-static` is to be; None leaves it to the release.
        tokens: KV tokens to expect, None when unknown.
        lines: For people: the sum, and what to do.
    """

    verdict: str
    fraction: float | None
    tokens: int | None
    lines: tuple[str, ...] = field(default=())


def rank_bytes(groups: Iterable[Mapping[str, Any]], ranks: int, *, draft: bool = False) -> float:
    """Weights of one rank, from tensor groups (`_safetensors.Group`).

    The two halves of MLA's `kv_b_proj` are kept a second time, transposed, for decoding
    (0.5.9 models/deepseek_v2.py, post_load_weights).
    """
    total = 0.0
    for group in groups:
        name, size = group["name"], group["bytes"]
        if draft and _NOT_LOADED.search(name):
            continue
        total += size if _WHOLE.search(name) else size / ranks
        if _ABSORBED.search(name):
            total += size / ranks
    return total


def kv_bytes(config: Mapping[str, Any], ranks: int, element: int) -> float:
    """Bytes that one token takes in a model's KV pool on one rank.

    MLA keeps one latent vector a layer, whole on every rank (0.5.9 model_runner_kv_cache_mixin.py:
    cell_size); other attention keeps keys and values of the rank's own heads, at least one.
    """
    text = text_config(config)
    layers = int(text.get("num_hidden_layers", 0))
    rank = text.get("kv_lora_rank")
    if isinstance(rank, int) and rank > 0:
        return float((rank + int(text["qk_rope_head_dim"])) * layers * element)
    heads = int(text.get("num_key_value_heads") or text["num_attention_heads"])
    size = int(text.get("head_dim") or int(text["hidden_size"]) // int(text["num_attention_heads"]))
    return float(max(1, heads // ranks) * size * 2 * layers * element)


def reserve_bytes(
    memory: float, ranks: int, arguments: Mapping[str, Any], assumed: Assumptions, *, draft: bool
) -> float:
    """Activations and graphs, as SGLang's own heuristic reserves them.

    Args:
        memory: The card's memory in MiB.
        ranks: Tensor parallel size.
        arguments: The engine's arguments, dashed names.
        assumed: See there.
        draft: Whether a draft runs.
    """
    # Defaults by card size: 0.5.12.post1 server_args.py:1426-1482.
    prefill, graphs = (16384, 512) if memory >= 160 * 1024 else (8192, 256 if ranks < 4 else 512)
    if memory < 60 * 1024:
        prefill, graphs = (4096 if memory >= 35 * 1024 else 2048), (32 if ranks < 4 else 160)
    prefill = int(arguments.get("chunked-prefill-size") or prefill)
    for name in ("cuda-graph-max-bs", "cuda-graph-max-bs-decode"):
        graphs = int(arguments.get(name) or graphs)
    if arguments.get("disable-cuda-graph") is True:
        graphs = 0
    need = assumed.constant + max(prefill, 2048) * assumed.per_prefill_token
    need += graphs * assumed.per_graph + ranks * assumed.per_rank
    if memory > 60 * 1024 and "chunked-prefill-size" not in arguments:
        need = max(need, assumed.floor)
    return (need + (assumed.draft_graphs if draft else 0)) * MIB


def measure(
    target: Mapping[str, Any],
    draft: Mapping[str, Any] | None,
    groups: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
    *,
    memory: float,
    ranks: int,
    release: str,
    arguments: Mapping[str, Any],
    assumed: Assumptions | None = None,
) -> Need:
    """Add up what a pair needs on one GPU.

    Args:
        target: The target's parsed `config.json`.
        draft: The draft's, None without speculation.
        groups: Tensor groups of target and draft.
        memory: Memory of the smallest card in MiB, as nvidia-smi gives it.
        ranks: Tensor parallel size.
        release: The SGLang release.
        arguments: The engine's arguments, dashed names.
        assumed: What no file says.
    """
    assumed = assumed or Assumptions()
    element = _KV_BYTES.get(str(arguments.get("kv-cache-dtype") or AUTO), 2)
    own = kv_bytes(target, ranks, element)
    theirs = kv_bytes(draft, ranks, element) if draft else 0.0
    budgeted = own
    if draft and version_key(release) >= (0, 5, 14):
        # As if each of the draft's layers were one of the target's (0.5.14 pool_configurator.py:
        # 129-146); releases before count no draft at all.
        budgeted *= 1 + int(draft.get("num_hidden_layers", 1)) / max(
            1, int(text_config(target)["num_hidden_layers"])
        )
    return Need(
        usable=(memory - assumed.driver) * MIB,
        weights=rank_bytes(groups[0], ranks),
        draft_weights=rank_bytes(groups[1], ranks, draft=True) if draft else 0.0,
        kv_token=own,
        draft_kv_token=theirs,
        budgeted_token=budgeted,
        reserve=reserve_bytes(memory, ranks, arguments, assumed, draft=draft is not None),
        reported=assumed.reported * MIB,
        least=assumed.least * MIB,
    )


def plan(
    need: Need | None,
    wanted: str | float,
    context: int,
    *,
    cap: int | None = None,
    why: str = "",
) -> MemoryPlan:
    """Decide the fraction, and whether it fits.

    Args:
        need: See `measure`, None when there is nothing to judge by.
        wanted: `auto`, or the operator's fraction.
        context: The effective context length in tokens.
        cap: The operator's `max-total-tokens`.
        why: Why `need` is None.
    """
    explicit = None if str(wanted) == AUTO else float(wanted)
    if need is None:
        return MemoryPlan("unknown", explicit, None, (f"memory: not judged, {why}",))
    if explicit is None:
        fraction, tokens = need.best(need.reserve)
        if tokens < min(context, cap or context) and need.reported < need.reserve:
            # SGLang's reserve is generous: rather room for one whole request, as far as anybody
            # is known to serve.
            fraction, tokens = need.best(need.reported)
    else:
        fraction, tokens = explicit, need.tokens(explicit)
    room = max(0, min(tokens, cap) if cap else tokens)
    left = need.usable - need.total(room)
    lines = [_sum(need, fraction, room, left)]
    if tokens <= 0:
        return MemoryPlan("fail", fraction, 0, (*lines, _no_room(need, explicit)))
    if left < need.least:
        better, more = need.best(min(need.reserve, need.reported))
        hint = f"; {better} fits, with {more} tokens" if more > 0 else ""
        lines.append(f"it does not fit: lower engine_mem_fraction_static{hint}")
        return MemoryPlan("fail", fraction, room, tuple(lines))
    if room < context:
        lines.append(
            f"one request of the whole context ({context} tokens) does not fit into the KV pool: "
            "set engine_context_length"
        )
    if left < need.reserve:
        lines.append(
            f"tight: SGLang itself would reserve {need.reserve / GIB:.1f} GiB for activations and "
            "graphs; a smaller chunked-prefill-size or largest graph makes room"
        )
    return MemoryPlan("warn" if len(lines) > 1 else "ok", fraction, room, tuple(lines))


def _no_room(need: Need, explicit: float | None) -> str:
    if explicit is not None:
        least = math.ceil(need.weights / need.usable * 100) / 100
        if least < 1:
            return (
                "it leaves no room for KV: the weights alone need engine_mem_fraction_static "
                f"above {least}"
            )
    return "the models do not fit: more GPUs (engine_tp_size), smaller weights, or no draft"


def _sum(need: Need, fraction: float, tokens: int, left: float) -> str:
    def gib(size: float) -> str:
        return f"{size / GIB:.1f}"

    pool, draft = tokens * need.kv_token, tokens * need.draft_kv_token
    text = (
        f"memory of each GPU in GiB: {gib(need.usable)} usable = weights {gib(need.weights)} + KV "
        f"{gib(pool)} ({tokens} tokens of {need.kv_token:.0f} B)"
    )
    if need.draft_kv_token:
        text += (
            f" + draft {gib(need.draft_weights)} + its KV {gib(draft)} "
            f"({need.draft_kv_token:.0f} B a token"
            f"{', not counted by this release' if need.budgeted_token == need.kv_token else ''})"
        )
    return f"{text} + {gib(left)} for activations and graphs; mem_fraction_static {fraction}"
