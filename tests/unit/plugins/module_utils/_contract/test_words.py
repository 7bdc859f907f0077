# SPDX-License-Identifier: Apache-2.0
"""What an operator reads of an audit."""

from __future__ import annotations

from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._contract import audit
from ansible_collections.sm120.sglang.plugins.module_utils._contract.words import (
    refusals,
    remarks,
)

from tests.unit.plugins.module_utils._contract.small_release import INNER, release

PLAIN = "PlainForConditionalGeneration"


def made(files: dict[str, str | bytes | None] | None = None, name: str = PLAIN) -> dict[str, Any]:
    return audit(release(files), "EAGLE3", name).as_dict()


def test_a_refusal_names_cause_call_site_and_entry() -> None:
    (text,) = refusals(made())
    assert f"{PLAIN} (srt/models/plain.py:5)" in text
    assert "get_embed_and_head, asked for at srt/speculative/worker.py:8." in text
    assert "self.language_model" in text
    assert "- id: plain_eagle3_delegation" in text
    assert "source_patches_catalogue, and its id into source_patches_ids" in text


def test_a_shipped_patch_is_named_and_not_pasted() -> None:
    (text,) = refusals(made(), ["plain_eagle3_delegation"])
    assert "Add plain_eagle3_delegation to source_patches_ids." in text
    assert "methods:" not in text


def test_a_patch_that_is_not_enough_says_so() -> None:
    half = INNER.replace("set_eagle3_layers_to_capture", "something_else")
    (text,) = refusals(made({"srt/models/inner.py": half}))
    assert "which supplies a part of it" in text
    nothing = half.replace("get_embed_and_head", "other")
    (text,) = refusals(made({"srt/models/inner.py": nothing}))
    assert "No patch can be derived" in text


def test_nothing_missing_is_no_refusal() -> None:
    assert refusals(made(name="InnerForCausalLM")) == []
    assert remarks(made(name="InnerForCausalLM")) == [
        "InnerForCausalLM, EAGLE3: has get_embed_and_head, set_eagle3_layers_to_capture"
    ]


def test_an_audit_that_could_not_be_made_refuses_nothing_and_says_so() -> None:
    failed = {"failed": True, "msg": "this release has no speculative algorithm X"}
    assert refusals(failed) == []
    assert "could not be audited: this release has no" in remarks(failed)[0]


def test_remarks_name_gaps_and_doubts() -> None:
    assert remarks(made()) == [
        f"{PLAIN}, EAGLE3: lacks get_embed_and_head, set_eagle3_layers_to_capture"
    ]
    doubtful = "from x import B\nclass W(B):\n    pass\n\nEntryClass = W\n"
    (line,) = remarks(made({"srt/models/w.py": doubtful}, "W"))
    assert "not certain whether it has get_embed_and_head (base x.B" in line
