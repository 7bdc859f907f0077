# SPDX-License-Identifier: Apache-2.0
"""Which start was before, and what of the kernel's log belongs to one."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.invocation import (
    before,
    kernel_selection,
    of_death,
    of_life,
    within,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import ended

from .recordings import FOLDER, journal

HOUR = 3600.0
DIED = 1_796_000_000.0


def told() -> list[str]:
    """What systemd 252 says of a unit that died until it gave up."""
    return (FOLDER.parent / "node/crash-loop.jsonl").read_text().splitlines()


def invocations() -> list[str]:
    found: list[str] = []
    for raw in told():
        one = json.loads(raw).get("INVOCATION_ID")
        if one and one not in found:
            found.append(one)
    return found


def test_the_start_before_a_start() -> None:
    ids = invocations()
    assert len(ids) == 3, "the recording has a loop"
    for earlier, later in itertools.pairwise(ids):
        assert before(told(), later) == earlier
    assert before(told(), ids[0]) == ""
    assert before(told(), "not in the journal yet") == ids[-1]
    assert before(["no json", "[]", "5"], ids[0]) == ""


def lines(*times: float) -> list[Line]:
    return [Line("x", time=time) for time in times]


@pytest.mark.parametrize(
    ("begun", "at", "of_it"),
    [
        (DIED - 7 * 24 * HOUR, DIED - 7 * 24 * HOUR + 60, False),  # last week's, of the same start
        (DIED - 60, DIED - 120, False),  # before the start
        (DIED - 60, DIED - 30, True),
        (DIED - HOUR, DIED - 600, True),  # a lost card, and the collectives' time limit after it
        (DIED - HOUR, DIED + 1, True),
        (DIED - HOUR, DIED + 30, False),  # of the next start
    ],
)
def test_the_kernels_log_of_a_death_is_that_before_it_whenever_it_is_looked_at(
    begun: float, at: float, of_it: bool
) -> None:
    span = of_death(lines(begun, DIED - 1, DIED))
    assert bool(within(lines(at), span)) is of_it


def test_of_a_long_start_whose_journal_was_cut_the_unit_says_when_it_began() -> None:
    assert within(lines(DIED - 500), of_death(lines(DIED - 10, DIED), DIED - HOUR))


def test_a_clock_that_jumped_back_during_the_start_leaves_a_span() -> None:
    assert within(lines(DIED - 5), of_death(lines(DIED, DIED - 20, DIED - 10)))


def test_where_the_journal_is_gone_the_unit_bounds_it() -> None:
    assert within(lines(DIED + 5), of_death([], DIED))
    assert of_death([]) is None
    assert within(lines(DIED), None) == []


def test_what_hangs_may_have_hung_for_long() -> None:
    span = of_life(lines(DIED - 10), DIED - 7 * 24 * HOUR)
    assert within(lines(DIED - 6 * 24 * HOUR, DIED + HOUR), span)
    assert of_life([]) is None
    assert "--until" not in " ".join(kernel_selection((DIED, math.inf), 5))


def test_journalctl_is_asked_for_whole_seconds_around_a_span() -> None:
    assert kernel_selection((10.7, 20.2), 5)[-2:] == ["--since=@10", "--until=@21"]


@pytest.mark.parametrize(
    ("name", "result", "status"),
    [("unpatched", "signal", 9), ("scheduler-killed", "exit-code", 1)],
)
def test_how_an_earlier_start_ended(name: str, result: str, status: int) -> None:
    state = ended("sglang.service", journal(name))
    assert state is not None
    assert (state.result, state.exit_status, state.running) == (result, status, False)


def test_a_start_whose_end_is_not_in_the_journal() -> None:
    assert ended("sglang.service", journal("unpatched")[:-5]) is None
