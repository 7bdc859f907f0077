# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import proof

FILTERS = proof.filters()
BOTH = {"imports": "auto", "collective": "auto"}


def test_the_modules_that_a_stack_has() -> None:
    engine = ["transformers", "sglang.srt.server_args"]
    assert FILTERS["proof_modules"]({"flashinfer": "0.6.3"}) == [
        "torch",
        "sgl_kernel",
        "flashinfer",
        *engine,
    ]
    assert FILTERS["proof_modules"]({"flashinfer": None}) == ["torch", "sgl_kernel", *engine]


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        ("inactive", ["imports", "collective"]),
        ("failed", ["imports", "collective"]),
        ("active", ["imports"]),
        ("activating", ["imports"]),  # weights are being loaded onto the GPUs
    ],
)
def test_a_serving_engine_keeps_its_gpus(state: str, kinds: list[str]) -> None:
    node: dict[str, Any] = {"unit": {"active_state": state}, "releases": {"proofs": {}}}
    found = FILTERS["proof_differences"](node, "r1", BOTH)
    assert [entry["kind"] for entry in found] == kinds


def test_a_proof_of_another_release_does_not_count() -> None:
    proofs = {"r0": {kind: {"valid": True} for kind in BOTH}}
    node: dict[str, Any] = {"unit": {"active_state": "inactive"}, "releases": {"proofs": proofs}}
    assert len(FILTERS["proof_differences"](node, "r1", BOTH)) == 2
    assert FILTERS["proof_differences"](node, "r0", BOTH) == []


def test_the_toolkit_is_the_releases_own() -> None:
    place = FILTERS["cuda_home"]({"toolkit": "13.0.88"}, "3.12", "/opt/sglang/current")
    assert place == "/opt/sglang/current/venv/lib/python3.12/site-packages/nvidia/cu13"
    assert FILTERS["cuda_home"]({"toolkit": None}, "3.12", "/x") == ""
