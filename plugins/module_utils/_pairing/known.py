# SPDX-License-Identifier: Apache-2.0
"""Pairs of target and draft that somebody has run, as data, each with its source.

Patterns are searched in "NAME PATH" of each model, in lower case.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD, BAD, NOTE = "good", "bad", "note"


@dataclass(frozen=True)
class Pair:
    """One reported pair; `verdict` is good, bad, or note (works, with something to know)."""

    target: str
    draft: str
    verdict: str
    said: str
    source: str
    remedy: str = ""


_K25 = r"kimi[-_]?k2\.?5"
_K26 = r"kimi[-_]?k2\.?6"
_K25_DRAFT = r"k2\.?5.*eagle|eagle.*k2\.?5"

PAIRS = (
    Pair(
        _K26,
        _K25_DRAFT,
        BAD,
        "a draft of Kimi-K2.5 does not predict Kimi-K2.6",
        "rtx6kpro daily notes 2026-05-11 (an image that shipped them together)",
        remedy="take a draft that was trained for this target",
    ),
    Pair(
        _K25,
        r"k2\.?6.*eagle|eagle.*k2\.?6|kimi[-_]?k26[-_]eagle",
        NOTE,
        "a draft of Kimi-K2.6 does not predict Kimi-K2.5",
        "rtx6kpro daily notes 2026-05-11, the same mismatch the other way round (inferred)",
        remedy="take a draft that was trained for this target",
    ),
    Pair(
        _K25,
        r"nvidia.*k2\.?5[-_]thinking[-_]eagle3",
        NOTE,
        "this draft was trained for a context of 4096: beyond it acceptance may fall",
        "model card of nvidia/Kimi-K2.5-Thinking-Eagle3",
        remedy="cap engine_context_length, or watch the accept length on long prompts",
    ),
    Pair(
        _K25,
        r"k2\.?5[-_]eagle3[-_]mla",
        GOOD,
        "accept length 2.6 to 3.14 reported",
        "model card of lightseekorg/kimi-k2.5-eagle3-mla",
    ),
    Pair(
        _K25,
        r"k2\.?5[-_]eagle3",
        GOOD,
        "accept length 2.30 (C-Eval) to 3.81 (BFCL) reported",
        "model card of lightseekorg/kimi-k2.5-eagle3",
    ),
    Pair(
        _K26,
        r"kimi[-_]?k26[-_]eagle3",
        GOOD,
        "accept length 2.55 to 3.22 reported",
        "model card of AQ-MedAI/Kimi-K26-eagle3",
    ),
    Pair(
        _K26,
        r"k2\.?6[-_]eagle3",
        GOOD,
        "accept length 2.62 (MT-Bench) reported",
        "model card of nvidia/Kimi-K2.6-Eagle3",
    ),
    Pair(
        r"kimi[-_]?k2[-_]instruct",
        r"k2[-_]instruct.*eagle",
        GOOD,
        "accept length 3.17 to 3.49 reported",
        "model card of AQ-MedAI's Kimi-K2-Instruct draft",
    ),
    Pair(
        _K25,
        r"k2[-_]instruct.*eagle",
        NOTE,
        "a draft of Kimi-K2-Instruct was trained on another model",
        "the drafts' model cards name one target each (inferred)",
        remedy="take a draft that was trained for this target",
    ),
)
"""The first that fits counts."""

DRAFTS = {
    # Architecture: algorithm, first release. Read from the wheels' models/*.py, 0.5.9 to 0.5.23.
    "LlamaForCausalLMEagle3": ("EAGLE3", ""),
    "Eagle3DeepseekV2ForCausalLM": ("EAGLE3", "0.5.12"),
    "LlamaForCausalLMEagle": ("EAGLE", ""),
    "Qwen2ForCausalLMEagle": ("EAGLE", ""),
    "MistralLarge3ForCausalLMEagle": ("EAGLE", ""),
    "MistralForCausalLMEagle": ("EAGLE", "0.5.12"),
}
"""Draft architectures that releases know, with the algorithm that each is made for."""
