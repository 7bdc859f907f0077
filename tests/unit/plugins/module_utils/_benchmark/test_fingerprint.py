# SPDX-License-Identifier: Apache-2.0
"""What names a stack, and what does not change its name."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import fingerprint

SPEED: dict[str, Any] = {
    "release": "r1",
    "driver": "580.95.05",
    "gpus": ["RTX PRO 6000"] * 8,
    "models": ["m1", "m2"],
    "arguments": {"tp-size": 8, "mem-fraction-static": "auto", "disable-cuda-graph": None},
    "environment": {"NCCL_P2P_LEVEL": "SYS", "SGLANG_ENABLE_JIT_DEEPGEMM": False},
}


def changed(**change: Any) -> str:
    arguments = {**SPEED["arguments"], **change.pop("arguments", {})}
    environment = {**SPEED["environment"], **change.pop("environment", {})}
    return fingerprint.fingerprint(
        {**SPEED, **change, "arguments": arguments, "environment": environment}
    )


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"speculative-num-steps": 3, "speculative-algorithm": "EAGLE3"}},
        {"arguments": {"port": 30001, "host": "::", "served-model-name": "k", "api-key": "s"}},
        {"arguments": {"enable-metrics": False}},
        {"environment": {"HF_TOKEN": "s", "SGLANG_API_KEY": "s", "LANG": "C"}},
        {"environment": {"TRITON_CACHE_DIR": "/x", "CUDA_HOME": "/y"}},
        {"environment": {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}},
        {"environment": {"SGLANG_ENABLE_JIT_DEEPGEMM": "0"}},
    ],
)
def test_the_same_stack(change: dict[str, Any]) -> None:
    assert changed(**change) == changed()


@pytest.mark.parametrize(
    "change",
    [
        {"release": "r2"},
        {"driver": "590.1"},
        {"gpus": ["RTX PRO 6000"] * 4},
        {"models": ["m1", "m3"]},
        {"arguments": {"tp-size": 4}},
        {"arguments": {"enable-metrics": True}},
        {"environment": {"NCCL_P2P_LEVEL": "PHB"}},
    ],
)
def test_another_stack(change: dict[str, Any]) -> None:
    assert changed(**change) != changed()


def test_nothing_secret_is_kept() -> None:
    kept = fingerprint.environment_of({"SGLANG_ADMIN_API_KEY": "s", "NCCL_DEBUG": "INFO"})
    assert kept == {"NCCL_DEBUG": "INFO"}
    assert fingerprint.arguments_of({"api-key": "s", "tp-size": 8}) == {"tp-size": 8}
