# SPDX-License-Identifier: Apache-2.0
"""What the inventory says of speculation, with and without results."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import choice, plan

CONFIGURED = {"algorithm": "EAGLE3", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
KNOWN: dict[str, Any] = {
    "node": "n1",
    "profile": "latency",
    "margin": 0.03,
    "accept_meaningless": False,
    "fingerprint": "0" * 12,
    "results": [],
}


@pytest.mark.parametrize("wanted", ["on", True, "True", "yes"])
def test_on(wanted: object) -> None:
    found = choice.choose(wanted, CONFIGURED, KNOWN)
    assert (found["on"], found["draft"], found["measured"]) == (True, CONFIGURED, False)


@pytest.mark.parametrize("wanted", ["off", False, "False"])
def test_off(wanted: object) -> None:
    found = choice.choose(wanted, CONFIGURED, KNOWN)
    assert (found["on"], found["draft"]) == (False, {})


@pytest.mark.parametrize("wanted", ["on", "auto", "off"])
def test_without_a_draft_model_it_is_off(wanted: str) -> None:
    found = choice.choose(wanted, None, KNOWN)
    assert found["on"] is False
    assert "no draft model" in found["reason"]


@pytest.mark.parametrize("known", [{}, {"fingerprint": ""}, {"results": [{"schema": 99}, {}]}])
def test_auto_stays_as_configured_without_a_result_and_says_so(known: dict[str, Any]) -> None:
    found = choice.choose("auto", CONFIGURED, {**KNOWN, **known})
    assert (found["on"], found["draft"], found["measured"]) == (True, CONFIGURED, False)
    assert "on" in found["reason"]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(plan.PlanError, match="below 1"):
        choice.choose("on", {**CONFIGURED, "num_steps": 0}, KNOWN)
