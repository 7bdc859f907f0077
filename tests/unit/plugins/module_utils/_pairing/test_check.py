# SPDX-License-Identifier: Apache-2.0
"""Which pairs are refused, warned of, and taken."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._pairing.check import (
    captured_layers,
    check,
    default_layers,
    with_algorithm,
)
from ansible_collections.sm120.sglang.plugins.module_utils._pairing.known import DRAFTS, PAIRS

TARGET: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {
        "hidden_size": 7168,
        "vocab_size": 163840,
        "num_hidden_layers": 61,
        "max_position_embeddings": 262144,
        "quantization_config": {"quant_method": "compressed-tensors"},
    },
}
DRAFT: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 7168,
    "vocab_size": 163840,
    "draft_vocab_size": 32000,
    "max_position_embeddings": 262144,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 29, 57]},
}


def judged(
    draft: dict[str, Any] | None = None,
    *,
    release: str = "0.5.12.post1",
    algorithm: str = "EAGLE3",
    **more: Any,
) -> dict[str, tuple[str, str]]:
    """Check to its verdict and text."""
    verdicts = check(
        TARGET, {**DRAFT, **(draft or {})}, release=release, algorithm=algorithm, **more
    )
    for verdict in verdicts:
        assert (verdict["verdict"] == "ok") == (verdict["remedy"] == "")
    return {one["id"]: (one["verdict"], one["read"]) for one in verdicts}


def bad(**arguments: Any) -> dict[str, str]:
    """Checks that are not ok, with their verdict."""
    return {name: one[0] for name, one in judged(**arguments).items() if one[0] != "ok"}


def test_a_right_pair_passes_every_check() -> None:
    for release in ("0.5.9", "0.5.10.post1", "0.5.12.post1", "0.5.23"):
        assert bad(release=release) == {}


@pytest.mark.parametrize(
    ("draft", "refused"),
    [
        ({"hidden_size": 4096}, "pair_hidden_size"),
        ({"target_hidden_size": 4096}, "pair_hidden_size"),
        ({"vocab_size": 128256}, "pair_vocabulary"),
        ({"draft_vocab_size": 200000}, "pair_vocabulary"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 29, 61]}}, "pair_layers"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 29]}}, "pair_layers"),
        ({"architectures": ["LlamaForCausalLMEagle"]}, "pair_algorithm"),
    ],
)
def test_what_does_not_belong_together_is_refused(draft: dict[str, Any], refused: str) -> None:
    assert bad(draft=draft) == {refused: "fail"}


def test_an_mla_draft_needs_0_5_12() -> None:
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"]}
    assert bad(draft=mla, release="0.5.10.post1") == {"pair_architecture": "fail"}
    assert bad(draft=mla, release="0.5.9") == {"pair_architecture": "fail"}
    assert bad(draft=mla, release="0.5.12") == {}


def test_the_algorithm_follows_from_the_draft() -> None:
    assert bad(algorithm="EAGLE") == {"pair_algorithm": "fail"}
    assert "21272" in judged(algorithm="EAGLE")["pair_algorithm"][1]
    for architecture, (algorithm, first) in DRAFTS.items():
        own = {"architectures": [architecture]}
        assert bad(draft=own, algorithm=algorithm, release=first or "0.5.9") == {}


def test_auto_takes_what_the_draft_was_made_for() -> None:
    settings = {"algorithm": "auto", "num_steps": 3}
    for name, (algorithm, _first) in DRAFTS.items():
        draft = {"architectures": [name]}
        assert with_algorithm(settings, draft) == {"algorithm": algorithm, "num_steps": 3}
        assert with_algorithm({"num_steps": 3}, draft)["algorithm"] == algorithm
        other = "EAGLE" if algorithm == "EAGLE3" else "EAGLE3"
        assert with_algorithm({"algorithm": other}, draft)["algorithm"] == other, "and is refused"
    assert with_algorithm(settings, {})["algorithm"] == "EAGLE3", "until the draft is read"
    assert with_algorithm(settings, None)["algorithm"] == "", "nothing speculates"


def test_what_auto_cannot_tell_is_refused() -> None:
    unknown = {"architectures": ["NobodyKnowsEagle"]}
    algorithm = with_algorithm({}, unknown)["algorithm"]
    verdict, said = judged(unknown, algorithm=algorithm)["pair_algorithm"]
    assert verdict == "fail"
    assert "which algorithm a draft of NobodyKnowsEagle is made for is not known" in said


def test_an_unknown_draft_is_warned_of() -> None:
    assert bad(draft={"architectures": ["Other"]}) == {"pair_architecture": "warn"}


def test_layers_that_the_old_graphs_do_not_capture_are_warned_of() -> None:
    """0.5.9 and 0.5.10 capture graphs with the default layers, whatever the draft names."""
    other = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 20, 50]}}
    for release in ("0.5.9", "0.5.10.post1"):
        assert bad(draft=other, release=release) == {"pair_layers": "warn"}
        # Without graphs there is nothing to differ from.
        graphs = {"disable-cuda-graph": True}
        assert bad(draft=other, release=release, arguments=graphs) == {}
    assert bad(draft=other, release="0.5.12.post1") == {}


def test_how_a_release_counts_layers() -> None:
    assert default_layers(61) == [2, 30, 58]
    for release in ("0.5.9", "0.5.12.post1", "0.5.13", "0.5.23"):
        assert captured_layers([1, 29, 57], release) == [2, 30, 58]
    assert captured_layers([2, 30, 58], "0.5.12.post1") == [3, 31, 59]
    assert captured_layers([2, 30, 58], "0.5.13") == [2, 30, 58]
    as_they_stand = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}}
    assert bad(draft=as_they_stand, release="0.5.12.post1") == {"pair_layers": "warn"}
    assert bad(draft=as_they_stand, release="0.5.14") == {}


def test_a_quantization_that_the_draft_inherits_is_refused() -> None:
    given = {"quantization": "modelopt_fp4"}
    assert bad(arguments=given) == {"pair_quantization": "fail"}
    explicit = {**given, "speculative-draft-model-quantization": "unquant"}
    assert bad(arguments=explicit) == {}
    same = {"quantization_config": {"quant_method": "modelopt_fp4"}}
    assert bad(draft=same, arguments=given) == {}


def test_context_lengths_are_told_and_too_long_a_one_is_refused() -> None:
    short = {"max_position_embeddings": 4096}
    verdict, text = judged(draft=short)["pair_context"]
    assert verdict == "ok"
    assert "4096" in text
    assert "262144" in text
    assert bad(arguments={"context-length": 300000}) == {"pair_context": "fail"}


def groups(**rows: int) -> list[dict[str, Any]]:
    names = {"lm_head": "lm_head.weight", "d2t": "d*t", "t2d": "t*d"}
    return [{"name": names[key], "shape": [value], "bytes": 1} for key, value in rows.items()]


def test_tensors_that_do_not_fit_the_drafts_own_config_are_refused() -> None:
    assert bad(tensors=groups(lm_head=32000, d2t=32000, t2d=163840)) == {}
    for wrong in (groups(lm_head=64000), groups(d2t=31999), groups(t2d=32000)):
        assert bad(tensors=wrong) == {"pair_vocabulary": "fail"}


@pytest.mark.parametrize(
    ("target", "draft", "verdict"),
    [
        ("kimi-k2.6 /srv/moonshotai/Kimi-K2.6", "d /srv/lightseekorg/kimi-k2.5-eagle3", "fail"),
        ("kimi /srv/moonshotai/Kimi-K2.5", "d /srv/lightseekorg/kimi-k2.5-eagle3", "ok"),
        ("kimi /srv/moonshotai/Kimi-K2.5", "d /srv/nvidia/Kimi-K2.5-Thinking-Eagle3", "warn"),
        ("kimi /srv/moonshotai/Kimi-K2.5", "d /srv/AQ-MedAI/Kimi-K26-eagle3", "warn"),
        ("kimi /srv/moonshotai/Kimi-K2.6", "d /srv/AQ-MedAI/Kimi-K26-eagle3", "ok"),
    ],
)
def test_known_pairs(target: str, draft: str, verdict: str) -> None:
    found, text = judged(names=(target, draft))["pair_known"]
    assert found == verdict
    assert "(" in text, "the source"


def test_an_unknown_pair_has_no_verdict_of_that_kind() -> None:
    assert "pair_known" not in judged(names=("kimi-lab /x/target", "draft-hit /x/draft-hit"))
    assert all(pair.source and pair.said for pair in PAIRS)
