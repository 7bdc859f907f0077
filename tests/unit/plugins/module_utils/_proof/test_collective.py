# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._proof import collective
from ansible_collections.sm120.sglang.plugins.module_utils._proof.collective import (
    LEVEL_FAR,
    LEVEL_NEAR,
    P2P_OFF,
    Floors,
    Run,
)
from ansible_collections.sm120.sglang.plugins.module_utils._proof.probe_collective import MARKER

FLOORS = Floors(bandwidth=10.0, latency=500.0)
ONE = Run(1, latency=20.0)
FAST = Run(8, latency=40.0, bandwidth=25.0)
HANG = Run(8, outcome="hang", detail="rank 0 in phase 'small'")
SLOW = Run(8, latency=90.0, bandwidth=2.7)


def lines(answers: list[dict[str, Any]], ranks: int = 2) -> str:
    return "NCCL version 2.27\n" + "".join(
        f"{MARKER}{json.dumps({'ranks': ranks, **answer})}\n" for answer in answers
    )


def rank(number: int, seconds: float = 0.01, right: bool = True) -> list[dict[str, Any]]:
    small = {"bytes": 32768, "seconds": seconds / 100, "right": True}
    large = {"bytes": 64 << 20, "seconds": seconds, "right": right}
    return [
        {"rank": number, "phase": "connect"},
        {"rank": number, "phase": "large"},
        {"rank": number, "phase": "done", "small": small, "large": large},
    ]


START: dict[str, Any] = {"phase": "start"}
END: dict[str, Any] = {"phase": "end"}


def test_the_slowest_rank_counts() -> None:
    text = lines([START, *rank(0, 0.005), *rank(1, 0.01), END])
    (run,) = collective.read_runs(text, [2, 4], {}, "")
    assert (run.outcome, run.ranks) == ("ok", 2)
    assert run.latency == pytest.approx(100.0)
    # 64 MiB in 10 ms is 6.71 GB/s, and two ranks send half of it each, there and back
    assert run.bandwidth == pytest.approx(6.71, abs=0.01)


@pytest.mark.parametrize(
    ("answers", "outcome", "detail"),
    [
        (
            [START, *rank(0), *rank(1)[:1], {"rank": 1, "stopped": 7}],
            "hang",
            "rank 1 in phase 'con",
        ),
        ([START], "hang", "rank 0 in phase 'start'; rank 1 in phase 'start'"),
        ([START, *rank(0), *rank(1)], "hang", "while closing"),
        ([START, *rank(0), *rank(1, right=False), END], "wrong", "wrong sum on rank(s) 1"),
        (
            [START, *rank(1)[:2], {"rank": 1, "died": -11}, {"rank": 0, "stopped": 3}],
            "died",
            "rank 1 ended with -11 in phase 'large'",
        ),
        (
            [START, {"rank": 0, "error": "DistBackendError: unhandled"}, {"rank": 0, "died": 1}],
            "died",
            "rank 0: DistBackendError: unhandled",
        ),
    ],
)
def test_how_a_set_ends(answers: list[dict[str, Any]], outcome: str, detail: str) -> None:
    (run,) = collective.read_runs(lines(answers), [2], {}, "")
    assert run.outcome == outcome
    assert detail in run.detail


def test_a_program_that_did_not_start() -> None:
    (run,) = collective.read_runs("", [1, 2], {}, "ModuleNotFoundError: No module named 'torch'")
    assert (run.outcome, run.ranks) == ("error", 1)
    assert "torch" in run.detail


def test_sets_of_one_call_are_told_apart() -> None:
    one = lines([START, *rank(0), END], ranks=1)
    two = lines([START, *rank(0)[:1]], ranks=2)
    runs = collective.read_runs(one + two, [1, 2, 4], {}, "")
    assert [(run.ranks, run.outcome) for run in runs] == [(1, "ok"), (2, "hang")]


@pytest.mark.parametrize(
    ("devices", "counts"), [(8, [1, 2, 4, 8]), (6, [1, 2, 4, 6]), (2, [1, 2]), (1, [1]), (0, [])]
)
def test_one_two_four_and_all(devices: int, counts: list[int]) -> None:
    assert collective.rank_counts(devices) == counts


def with_settings(run: Run, settings: dict[str, str]) -> Run:
    return Run(run.ranks, settings, run.outcome, run.detail, run.latency, run.bandwidth)


@pytest.mark.parametrize(
    ("engine", "others", "cause"),
    [
        (FAST, {}, ""),
        # nccl#1999: hangs, and works over host memory, at whatever level
        (HANG, {"off": FAST, "near": HANG}, "iommu_acs"),
        (HANG, {"off": SLOW, "near": HANG}, "iommu_acs"),
        (Run(8, outcome="wrong"), {"off": FAST, "near": Run(8, outcome="wrong")}, "iommu_acs"),
        (Run(8, outcome="died"), {"off": FAST, "near": HANG}, "iommu_acs"),
        # peer-to-peer works near by and hangs across sockets
        (HANG, {"off": SLOW, "near": FAST}, "p2p_level"),
        # a level that is too low leaves links unused
        (SLOW, {"far": FAST}, "p2p_level"),
        # crawls with peer-to-peer, better without: redirected by ACS
        (SLOW, {"far": SLOW, "off": Run(8, bandwidth=8.0)}, "iommu_acs"),
        (SLOW, {"far": SLOW, "off": SLOW}, "links"),
        (HANG, {"off": HANG}, "collective"),
        (Run(1, outcome="died"), {}, "torch"),
        (Run(1, outcome="error"), {}, "torch"),
    ],
)
def test_what_helps_tells_the_cause(engine: Run, others: dict[str, Run], cause: str) -> None:
    """The runs are made one by one, as `next_step` asks for them, until it asks no more."""
    named = {"off": P2P_OFF, "near": LEVEL_NEAR, "far": LEVEL_FAR}
    answers = {json.dumps(named[name]): run for name, run in others.items()}
    runs = [engine] if engine.ranks == 1 else [ONE, engine]
    while (step := collective.next_step(runs, FLOORS, "nccl")) is not None:
        assert step.ranks == engine.ranks
        runs.append(
            with_settings(answers.pop(json.dumps(dict(step.settings))), dict(step.settings))
        )
    assert answers == {}, "not every answer was needed"
    verdict = collective.judge(runs, FLOORS)
    assert verdict.cause == cause
    assert (verdict.verdict == "ok") == (cause == "")
    assert bool(verdict.remedy) == bool(cause)
    assert f"{engine.ranks} rank(s)" in verdict.reason


def test_the_level_that_helped_is_recommended() -> None:
    slow = collective.judge([SLOW, with_settings(FAST, LEVEL_FAR)], FLOORS)
    assert "NCCL_P2P_LEVEL to SYS" in slow.remedy
    hang = collective.judge(
        [HANG, with_settings(FAST, P2P_OFF), with_settings(FAST, LEVEL_NEAR)], FLOORS
    )
    assert "NCCL_P2P_LEVEL to PHB" in hang.remedy


def test_gloo_has_nothing_to_try() -> None:
    assert collective.next_step([ONE, HANG], FLOORS, "gloo") is None


def test_the_smallest_set_that_fails_is_looked_into() -> None:
    two = Run(2, outcome="hang")
    step = collective.next_step([ONE, two], FLOORS, "nccl")
    assert step is not None
    assert (step.ranks, dict(step.settings)) == (2, P2P_OFF)


def test_a_late_answer_fails_too() -> None:
    verdict = collective.judge([ONE, Run(8, bandwidth=30.0, latency=900.0)], FLOORS)
    assert verdict.cause == "links"
    assert "the floors are 10 GB/s and 500 us" in verdict.reason


def test_a_process_that_cannot_be_ended_stops_everything() -> None:
    verdict = collective.judge([HANG], FLOORS, left=(4711,))
    assert verdict.cause == "stuck"
    assert "4711" in verdict.reason
    assert "power cycle" in verdict.remedy


def test_settings_are_names_not_numbers() -> None:
    assert {LEVEL_NEAR["NCCL_P2P_LEVEL"], LEVEL_FAR["NCCL_P2P_LEVEL"]} == {"PHB", "SYS"}
