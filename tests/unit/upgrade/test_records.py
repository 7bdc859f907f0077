# SPDX-License-Identifier: Apache-2.0
"""How a request's end is judged, and how requests around a switch are summed up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.upgrade.records import (
    Outcome,
    Record,
    Seen,
    Switch,
    Trouble,
    account,
    broken,
    classify,
    read,
    switches,
)

RECORDED = Path(__file__).parents[2] / "recordings/plays/switch-journal.jsonl"
WHOLE = Seen(status=200, text=" one two", finish="length")


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (WHOLE, Outcome.ANSWERED),
        (replace(WHOLE, text="one two "), Outcome.ANSWERED),
        (replace(WHOLE, finish="stop"), Outcome.ANSWERED),
        (replace(WHOLE, text=" one three"), Outcome.WRONG),
        (replace(WHOLE, text=""), Outcome.WRONG),
        (replace(WHOLE, text=" one two three"), Outcome.WRONG),
        (Seen(trouble=Trouble.REFUSED), Outcome.REFUSED),
        (Seen(status=503), Outcome.REFUSED),
        (Seen(status=503, error="draining"), Outcome.REFUSED),
        # The right words, and nobody said that they are all.
        (replace(WHOLE, finish=""), Outcome.CUT),
        (replace(WHOLE, finish="abort"), Outcome.CUT),
        (replace(WHOLE, text=" one", finish="", error='{"message": "..."}'), Outcome.CUT),
        (replace(WHOLE, trouble=Trouble.BROKEN), Outcome.CUT),
        (Seen(trouble=Trouble.BROKEN), Outcome.CUT),
        (Seen(), Outcome.CUT),
        (Seen(status=500, error="Internal Server Error"), Outcome.FAILED),
        (Seen(status=401), Outcome.FAILED),
        (Seen(trouble=Trouble.TIMEOUT), Outcome.TIMEOUT),
        (replace(WHOLE, trouble=Trouble.TIMEOUT), Outcome.TIMEOUT),
    ],
)
def test_outcome(seen: Seen, outcome: Outcome) -> None:
    assert classify(seen, " one two") is outcome


def test_a_record_that_was_never_closed_is_lost() -> None:
    first, second = Record(1, "chat", 1.0), Record(2, "chat", 2.0)
    closed = replace(first, end=3.0, outcome=Outcome.ANSWERED)
    found = read([first.line(), second.line(), closed.line()])
    assert found == [closed, second]
    assert found[1].outcome is Outcome.LOST
    assert closed.seconds == 2.0


def test_requests_around_a_switch() -> None:
    switch = Switch(stopping=100.0, stopped=104.0, started=104.25)
    ends = [
        (95.0, 99.0, Outcome.ANSWERED),
        (98.0, 103.0, Outcome.ANSWERED),
        (101.0, 101.5, Outcome.REFUSED),
        (104.0, 104.01, Outcome.REFUSED),
        (103.0, 104.0, Outcome.CUT),
        (170.0, 175.0, Outcome.ANSWERED),
        (170.0, 180.0, Outcome.ANSWERED),
    ]
    records = [Record(n, "chat", a, b, outcome) for n, (a, b, outcome) in enumerate(ends)]
    met = account(records, switch)
    assert (met.old, met.drained, met.new) == (2, 1, 2)
    assert met.downtime == 72.0
    assert met.slowest_refusal == 0.5
    assert met.slowest_answer == 10.0
    assert met.outcomes == {
        "answered": 4,
        "wrong": 0,
        "refused": 2,
        "cut": 1,
        "failed": 0,
        "timeout": 0,
        "lost": 0,
    }
    assert (switch.drain, switch.between) == (4.0, 0.25)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_no_client_may_meet(outcome: Outcome) -> None:
    record = Record(1, "chat", 1.0, 2.0, outcome)
    fine = outcome in (Outcome.ANSWERED, Outcome.REFUSED)
    assert broken([record]) == ([] if fine else [record])


def test_no_downtime_is_told_of_an_engine_that_never_answered() -> None:
    records = [Record(1, "chat", 1.0, 2.0, Outcome.ANSWERED)]
    assert account(records, Switch(3.0, 4.0, 5.0)).downtime is None
    assert account(records, Switch(-3.0, -2.0, -1.0)).downtime is None


def test_a_switch_is_read_from_a_journal() -> None:
    lines = RECORDED.read_text().splitlines()
    found = switches(lines)
    assert len(found) == 1
    assert 0.0 < found[0].between < found[0].drain < 30.0


def test_a_first_start_is_no_switch() -> None:
    started = [line for line in RECORDED.read_text().splitlines() if "Started " in line]
    assert json.loads(started[0])["MESSAGE_ID"]
    assert switches(started) == []
