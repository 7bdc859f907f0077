# SPDX-License-Identifier: Apache-2.0
"""What a bundle says of engines that die again and again, hang, or died long ago."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.sm120.sglang.plugins.module_utils._bundle.diagnosis import diagnose
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

from tests.unit.plugins.module_utils._engine.recordings import journal

XID = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
DEAD = journal("unpatched")
BEGUN, DIED = DEAD[0].time, DEAD[-1].time
SERVING = [line for line in journal("served-and-stopped") if line.time < BEGUN + 400]
UNIT = UnitState(
    "sglang.service", "loaded", "active", "running", invocation_id="now", started=DIED + 20
)
WEEK = 7 * 24 * 3600.0


def said(unit: UnitState, kernel: list[Line], **starts: list[Line]) -> str:
    return "\n".join(diagnose(unit, kernel, lambda one: starts[one], lambda: "before", "0.5.9"))


def test_an_engine_in_a_loop_is_explained_by_the_start_that_died() -> None:
    text = said(replace(UNIT, restarts=2), [], now=[], before=DEAD)
    assert "systemd has restarted it, times: 2" in text
    assert "set_eagle3_layers_to_capture" in text
    assert "remedy: " in text


def test_a_kill_of_the_start_before_is_told_with_what_systemd_wrote() -> None:
    killed = [
        Line("Started sglang.service - SGLang.", 1, DIED - 60, manager=True),
        Line("sglang.service: Main process exited, code=killed, status=9/KILL", 1, DIED, True),
        Line("sglang.service: Failed with result 'signal'.", 1, DIED, True),
    ]
    oom = Line("Out of memory: Killed process 77 (python3)", time=DIED - 1)
    text = said(replace(UNIT, restarts=1), [oom], now=[], before=killed)
    assert (
        "was killed from outside (signal 9): the kernel's log shows an out-of-memory kill" in text
    )


def test_a_loop_whose_journal_was_lost_is_no_error() -> None:
    text = "\n".join(diagnose(replace(UNIT, restarts=2), [], lambda _one: [], lambda: ""))
    assert "the journal does not have the start before this one" in text


def test_last_weeks_card_does_not_explain_todays_death() -> None:
    unit = replace(UNIT, active="failed", sub="failed", result="signal", started=BEGUN)
    for when, fault in ((DIED - WEEK, "eagle3"), (DIED - 1, "xid-bus"), (DIED + WEEK, "eagle3")):
        text = said(unit, [Line(XID, time=when)], now=DEAD)
        known = next(line for line in text.splitlines() if line.startswith("known fault: "))
        assert fault in known, (when - DIED, text)


def test_what_a_hanging_engine_suffers_from() -> None:
    unit = replace(UNIT, started=BEGUN)
    text = said(unit, [Line(XID, time=BEGUN + 300)], now=SERVING)
    assert "the log of this start tells a known fault:" in text
    assert "known fault: xid-bus" in text
    assert said(unit, [Line(XID, time=BEGUN - 1)], now=SERVING) == (
        "the unit runs; no death to explain"
    )
