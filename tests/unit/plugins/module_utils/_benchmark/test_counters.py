# SPDX-License-Identifier: Apache-2.0
"""What is counted and sampled beside a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import counters
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import Gpu, Reading
from ansible_collections.sm120.sglang.plugins.module_utils._engine.accept_length import ACCEPTED

SAMPLES = Path(__file__).parents[4] / "recordings/host/h200/query-gpu-samples.csv"
DECODE = (
    "[2026-11-29 12:00:00] Decode batch, #running-req: 2, #token: 100, token usage: {usage}, "
    "accept len: 4.00, accept rate: 1.00, gen throughput (token/s): 11.2, #queue-req: {queued},"
)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_drafts_have_several_names(name: str) -> None:
    found = counters.accept([{name: 6, "spec_verify_ct": 4}, {name: 0, "spec_verify_ct": 2}])
    assert found is not None
    assert (found.length, found.accepted, found.verify_steps) == (2.0, 6, 6)


def test_a_draft_that_never_hits_has_length_one() -> None:
    found = counters.accept([{"spec_accept_token_num": 0, "spec_verify_ct": 7}])
    assert found is not None
    assert found.length == 1.0


@pytest.mark.parametrize(
    "requests",
    [[], [{}], [{"spec_verify_ct": 3}], [{"spec_accept_token_num": 0, "spec_verify_ct": 0}]],
    ids=["no request", "no speculation", "no name that is known", "no verify step"],
)
def test_what_is_not_told_is_absent(requests: list[dict[str, int]]) -> None:
    assert counters.accept(requests) is None


def test_the_fullest_moment_of_the_pool_counts() -> None:
    log = [
        "Prefill batch",
        DECODE.format(usage="0.25", queued=0),
        DECODE.format(usage="0.5", queued=0),
    ]
    assert counters.kv_use(log) == 0.5
    assert counters.kv_use(["nothing"]) is None


def test_requests_of_somebody_else_are_seen() -> None:
    log = [DECODE.format(usage="0.1", queued=1)]
    assert counters.strangers(log, 3) == 0
    assert counters.strangers(log, 2) == 1
    assert counters.strangers([], 2) == 0


START = 1795997475.1280084
"""When PyTorch began to compute while the recording was made; it ended six seconds later."""


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """nvidia-smi prints the node's own time; the recording's node had UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_what_a_card_did_before_the_first_and_after_the_last_answer_does_not_count() -> None:
    samples = SAMPLES.read_text(encoding="utf-8")
    found = counters.gpu(samples, (START, START + 6.0))
    assert found is not None
    assert found.power_w is not None
    assert found.power_w.median > 690
    assert found.sm_clock_mhz == Reading(1522.5, 1590.0)
    # Over all of it the card seems to rest.
    whole = counters.gpu(samples, (START - 60, START + 60))
    assert whole is not None
    assert whole.power_w is not None
    assert whole.power_w.median < 200


@pytest.mark.usefixtures("utc")
def test_gauges_are_over_all_cards_and_samples() -> None:
    at = "2026/11/30 00:11:"
    lines = f"{at}16.5, 300.5, 2400, 60\n{at}16.5, 310.5, 2300, [N/A]\n{at}17, 290.0, 2500, 62\n"
    window = (START, START + 6.0)
    found = counters.gpu(lines + "no devices found\n", window)
    assert found == Gpu(Reading(300.5, 310.5), Reading(2400, 2500), Reading(61, 62))
    absent = f"{at}16.5, [N/A], 2400, [N/A]\n"
    assert counters.gpu(absent, window) == Gpu(None, Reading(2400, 2400), None)


@pytest.mark.parametrize("window", [None, (START, START + 6.0), (0.0, 1.0)])
def test_gauges_that_were_not_read_are_absent(window: tuple[float, float] | None) -> None:
    assert counters.gpu("", window) is None
    assert counters.gpu("Unable to determine the device handle, lost, x, y\n", window) is None
