# SPDX-License-Identifier: Apache-2.0
"""GPU memory as a command named nvidia-smi tells it, which runs, fails, hangs, or is not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.action import engine_gate
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import Check
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gpu_memory import (
    judge_gpu_memory,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import LocalNode

RECORDINGS = Path(__file__).parents[4] / "recordings"
HELD = RECORDINGS / "node/nvidia-smi/gpus-held.txt"
NO_LIBRARY = RECORDINGS / "host/h200/no-library.txt"
UNKNOWN = "0, GPU-1, [N/A], [N/A], [N/A]"


Judge = Callable[..., Check]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Makes the check where nvidia-smi is a script, or is not there."""

    def judge(script: str, floor: int = 512) -> Check:
        if script:
            (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "nvidia-smi").chmod(0o755)
            monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return judge_gpu_memory(engine_gate.gpus(LocalNode()), floor)

    return judge


@pytest.mark.parametrize(
    ("script", "verdict", "value", "evidence"),
    [
        (f"cat {HELD}", "ok", "35610 MiB free", "GPU 0 has least: 107547 of 143771"),
        ("", "skipped", None, "there is no nvidia-smi"),
        (f"cat {NO_LIBRARY}; exit 12", "warn", "unknown", "status 12 and says: NVIDIA-SMI"),
        ("echo 'No devices were found'; exit 6", "warn", "unknown", "No devices were found"),
        ("echo 'Unable to determine' >&2; exit 15", "warn", "unknown", "Unable to determine"),
        ("kill -9 $$", "warn", "unknown", "status -9"),
        ("exit 0", "warn", "unknown", "status 0 and says: nothing"),
        (f"echo '{UNKNOWN}'", "warn", "unknown", "says: 0, GPU-1, [N/A]"),
    ],
    ids=["read", "none", "no library", "no devices", "lost", "killed", "nothing", "not told"],
)
def test_what_nvidia_smi_says(
    check: Judge, script: str, verdict: str, value: str | None, evidence: str
) -> None:
    found = check(script)
    assert (found.verdict, found.value) == (verdict, value)
    assert evidence in found.evidence
    assert bool(found.remedy) == (verdict == "warn")


def test_little_memory_warns(check: Judge) -> None:
    found = check(f"cat {HELD}", floor=40_000)
    assert (found.verdict, found.limit) == ("warn", 40_000)
    assert "mem-fraction-static" in found.remedy


def test_a_driver_that_hangs_is_no_lost_connection(
    check: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_gate, "_SMI_SECONDS", 0.5)
    begun = time.monotonic()
    found = check("exec sleep 60")
    assert time.monotonic() - begun < 20
    assert (found.verdict, found.evidence) == ("warn", "nvidia-smi does not end")
