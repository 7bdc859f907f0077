# SPDX-License-Identifier: Apache-2.0
"""Whether a draft belongs to a target, from their config.json and safetensors headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _launch
from ansible_collections.sm120.sglang.plugins.module_utils._decide import Verdict
from ansible_collections.sm120.sglang.plugins.module_utils._pairing.known import (
    BAD,
    DRAFTS,
    NOTE,
    PAIRS,
)
from ansible_collections.sm120.sglang.plugins.module_utils._stack import version_key

_OK, _WARN, _FAIL = "ok", "warn", "fail"
AUTO, ASSUMED = "auto", "EAGLE3"
"""An algorithm to be derived from the draft, and the one of Kimi's drafts until that is read."""
_AUX_STATES = 3  # an EAGLE-3 draft reads three of the target's layers


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config; a multimodal one keeps it in `text_config`."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return inner
    return config


def aux_layers(draft: Mapping[str, Any]) -> list[int] | None:
    """The target's layers that a draft names, None when it names none."""
    own = draft.get("eagle_config")
    ids = own.get("eagle_aux_hidden_state_layer_ids") if isinstance(own, Mapping) else None
    return [int(one) for one in ids] if isinstance(ids, Sequence) and ids else None


def captured_layers(ids: Sequence[int], release: str) -> list[int]:
    """Before which of the target's layers a release takes the hidden states.

    Up to 0.5.12 a named layer's output is taken, so 1 is added (0.5.9 models/deepseek_v2.py:2975).
    From 0.5.13 that holds only for lists that begin with 1; others are taken as they stand.
    """
    if version_key(release) < (0, 5, 13) or ids[0] == 1:
        return [one + 1 for one in ids]
    return list(ids)


def default_layers(layers: int) -> list[int]:
    """What a target captures when it is not told (0.5.9 models/deepseek_v2.py:2970)."""
    return [2, layers // 2, layers - 3]


def derived(draft: Mapping[str, Any]) -> str:
    """The algorithm that a draft is made for, by its config; empty where that is not known."""
    return DRAFTS.get(_architecture_of(draft), ("", ""))[0]


def assumed(settings: Mapping[str, Any], draft: Mapping[str, Any] | None) -> bool:
    """Whether the algorithm of `with_algorithm`, of the same arguments, is not the draft's word."""
    wanted = settings.get("algorithm") or AUTO
    return wanted == AUTO and draft is not None and not draft


def with_algorithm(settings: Mapping[str, Any], draft: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of speculation with an algorithm in the place of `auto`.

    Args:
        settings: Those of the inventory; without an `algorithm` it is `auto`.
        draft: The draft's parsed `config.json`, empty where it is not read yet, None without a
            draft.

    Returns:
        The settings; without a draft an empty algorithm, until it is read `ASSUMED`.
        What an unknown draft is made for stays `auto`, which `check` and the release's parser
        refuse.
    """
    wanted = settings.get("algorithm") or AUTO
    if wanted == AUTO and draft is None:
        wanted = ""
    elif wanted == AUTO:
        wanted = (derived(draft) or AUTO) if draft else ASSUMED
    return {**settings, "algorithm": wanted}


def check(
    target: Mapping[str, Any],
    draft: Mapping[str, Any],
    *,
    release: str,
    algorithm: str,
    names: tuple[str, str] = ("", ""),
    tensors: Iterable[Mapping[str, Any]] = (),
    arguments: Mapping[str, Any] | None = None,
) -> list[Verdict]:
    """Judge a pair.

    Args:
        target: The target's parsed `config.json`.
        draft: The draft's.
        release: The SGLang release.
        algorithm: The speculative algorithm that is asked for; `auto` for the draft's own.
        names: "NAME PATH" of target and draft, for the table of known pairs.
        tensors: The draft's tensor groups (`_safetensors.Group`), empty when unknown.
        arguments: The engine's arguments, dashed names.

    Returns:
        One verdict a check.
    """
    given = arguments or {}
    inner = text_config(target)
    groups = list(tensors)
    found = [
        _architecture(draft, release),
        _algorithm(draft, algorithm),
        _sizes(inner, draft),
        _vocabulary(inner, draft, groups),
        _layers(inner, draft, release, graphs=given.get("disable-cuda-graph") is not True),
        _context(target, draft, given),
        _quantization(target, draft, given),
        _known(names),
    ]
    return [verdict for verdict in found if verdict is not None]


def _architecture_of(draft: Mapping[str, Any]) -> str:
    return str((draft.get("architectures") or ["?"])[0])


def _verdict(check: str, verdict: str, read: str, remedy: str = "") -> Verdict:
    return {"id": f"pair_{check}", "verdict": verdict, "read": read, "remedy": remedy}


def _architecture(draft: Mapping[str, Any], release: str) -> Verdict:
    name = _architecture_of(draft)
    if name not in DRAFTS:
        return _verdict(
            "architecture",
            _WARN,
            f"the draft's architecture {name} is not one that SGLang's releases are known to have",
            f"known are {', '.join(sorted(DRAFTS))}; correct the draft's config.json",
        )
    _algorithm_of, first = DRAFTS[name]
    if first and version_key(release) < version_key(first):
        return _verdict(
            "architecture",
            _FAIL,
            f"the draft's architecture {name} exists from SGLang {first}, this is {release}",
            f"take a stack with {first} or newer, or a draft of LlamaForCausalLMEagle3",
        )
    return _verdict("architecture", _OK, name)


def _algorithm(draft: Mapping[str, Any], wanted: str) -> Verdict | None:
    name, right = _architecture_of(draft), derived(draft)
    if not right and wanted == AUTO:
        return _verdict(
            "algorithm",
            _FAIL,
            f"which algorithm a draft of {name} is made for is not known",
            "set engine_speculation_settings.algorithm to what its model card says",
        )
    if not right:
        return None
    if right != wanted:
        return _verdict(
            "algorithm",
            _FAIL,
            f"{name} is a draft for {right}, {wanted} is asked for: it would serve with an accept "
            "length of 1.0, slower than without (sgl-project/sglang#21272)",
            f"set engine_speculation_settings.algorithm to {right}, or leave it out",
        )
    return _verdict("algorithm", _OK, right)


def _sizes(target: Mapping[str, Any], draft: Mapping[str, Any]) -> Verdict | None:
    have, read = target.get("hidden_size"), draft.get("hidden_size")
    source = draft.get("target_hidden_size", read)
    if not isinstance(have, int) or not isinstance(read, int):
        return None
    if source != have or read != have:
        return _verdict(
            "hidden_size",
            _FAIL,
            f"the draft's hidden size is {read} (reads {source}), the target's {have}: the draft "
            "shares the target's embedding",
            "this draft belongs to another target",
        )
    return _verdict("hidden_size", _OK, str(have))


def _vocabulary(
    target: Mapping[str, Any], draft: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]
) -> Verdict | None:
    have, read = target.get("vocab_size"), draft.get("vocab_size")
    if not isinstance(have, int) or not isinstance(read, int):
        return None
    remedy = "this draft belongs to another target"
    if have != read:
        return _verdict(
            "vocabulary", _FAIL, f"the draft's vocabulary is {read}, the target's {have}", remedy
        )
    small = draft.get("draft_vocab_size") or read
    if small > have:
        return _verdict(
            "vocabulary", _FAIL, f"the draft's own vocabulary {small} exceeds {have}", remedy
        )
    for name, wanted in (("lm_head.weight", small), ("d*t", small), ("t*d", have)):
        rows = _rows(groups, name)
        if rows is not None and rows != wanted:
            label = name.removesuffix(".weight").replace("*", "2")
            return _verdict(
                "vocabulary",
                _FAIL,
                f"the draft's tensor {label} has {rows} rows, its config.json says {wanted}",
                "config.json and weights of the draft are of two models; copy it again",
            )
    return _verdict("vocabulary", _OK, f"{small} of {have} tokens")


def _rows(groups: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """Rows of the one tensor of a name, whatever stands before it; None without it."""
    for group in groups:
        if group["shape"] and (group["name"] == name or group["name"].endswith(f".{name}")):
            return int(group["shape"][0])
    return None


def _layers(
    target: Mapping[str, Any], draft: Mapping[str, Any], release: str, *, graphs: bool
) -> Verdict | None:
    count, ids = target.get("num_hidden_layers"), aux_layers(draft)
    if not isinstance(count, int) or ids is None:
        return None
    taken = captured_layers(ids, release)
    usual = default_layers(count)
    if len(ids) != _AUX_STATES or min(ids) < 0 or max(taken) >= count:
        return _verdict(
            "layers",
            _FAIL,
            f"the draft reads the target's layers {ids}, which has {count}; SGLang {release} "
            f"takes three states, before layers {taken}",
            "this draft belongs to another target",
        )
    if ids == usual and taken != usual:
        return _verdict(
            "layers",
            _WARN,
            f"the draft names layers {ids}; SGLang {release} adds one to each and reads {taken}, "
            "from 0.5.13 it reads them as they stand",
            "watch the accept length; where it is low, take a newer stack, or a draft that counts "
            f"from 1 ({[one - 1 for one in usual]})",
        )
    if graphs and version_key(release) < (0, 5, 12) and taken != usual:
        return _verdict(
            "layers",
            _WARN,
            f"SGLang {release} captures its graphs with the default layers {usual} and reads "
            f"{taken} elsewhere: a low accept length without an error",
            "take SGLang 0.5.12 or newer, or a draft that names the default layers",
        )
    return _verdict("layers", _OK, f"{ids} of {count}, read before layers {taken}")


def _context(
    target: Mapping[str, Any], draft: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Verdict:
    wanted = arguments.get("context-length")
    try:
        decided = _launch.decide_context(target, draft, int(wanted) if wanted else None)
    except _launch.LaunchError as error:
        return _verdict("context", _FAIL, str(error), "lower engine_context_length")
    return _verdict("context", _OK, decided.reason)


def _quantization(
    target: Mapping[str, Any], draft: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Verdict:
    """One `--quantization` is the draft's too (0.5.9 server_args.py:882; sglang#28196)."""
    given = arguments.get("quantization")
    own = (draft.get("quantization_config") or {}).get("quant_method")
    theirs = target.get("quantization_config") or text_config(target).get("quantization_config")
    if given and "speculative-draft-model-quantization" not in arguments and own != given:
        return _verdict(
            "quantization",
            _FAIL,
            f"quantization {given} is the draft's too, whose weights are {own or 'not quantized'} "
            "(sgl-project/sglang#28196)",
            f"add speculative-draft-model-quantization: {own or 'unquant'} to engine_arguments",
        )
    method = (theirs or {}).get("quant_method", "none")
    return _verdict("quantization", _OK, f"target {given or method}, draft {own or 'none'}")


def _known(names: tuple[str, str]) -> Verdict | None:
    target, draft = (name.lower() for name in names)
    for pair in PAIRS:
        if re.search(pair.target, target) and re.search(pair.draft, draft):
            verdict = {BAD: _FAIL, NOTE: _WARN}.get(pair.verdict, _OK)
            return _verdict("known", verdict, f"{pair.said} ({pair.source})", pair.remedy)
    return None
