# SPDX-License-Identifier: Apache-2.0
"""Deaths of single processes of the engine, as each release tells them or does not."""

from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import find_cause

from tests.unit.plugins.module_utils._engine.constructed import (
    OUTSIDE,
    STAMP,
    lines,
    traceback,
    unit,
)

# As each release says it; the code is the one of `multiprocessing`, negative for a signal.
DEATHS = {
    "0.5.9": (
        STAMP + "Rank 3 scheduler is dead. Please check if there are relevant logs.\n"
        "[2026-11-29 16:50:58] Exit code: {code}\n" + traceback("EOFError")
    ),
    "0.5.10": traceback(
        "RuntimeError: Rank 3 scheduler died during initialization (exit code: {code}). If exit "
        "code is -9 (SIGKILL), a common cause is the OS OOM killer."
    ),
    "watchdog": STAMP + "Subprocess scheduler_3 (pid=77) crashed with exit code {code}. "
    "Triggering SIGQUIT for cleanup...",
}
CHILDREN = {"watchdog": "scheduler_3"}


@pytest.mark.parametrize("release", sorted(DEATHS))
@pytest.mark.parametrize(
    ("code", "says", "signature"),
    [
        (-9, "was killed from outside (signal 9): ", OUTSIDE),
        (-11, "was ended by SIGSEGV without a word on why", ""),
        (-7, "was ended by SIGBUS without a word on why", "bus-error"),
        (-6, "was ended by SIGABRT without a word on why", ""),
    ],
)
def test_a_process_that_a_signal_ended_is_named(
    release: str, code: int, says: str, signature: str
) -> None:
    cause = find_cause(lines(DEATHS[release].format(code=code)))
    name = CHILDREN.get(release, "scheduler of rank 3")
    assert cause.summary.startswith(f"the engine's {name} {says}")
    assert cause.signature == signature
    # What a process says before it dies is nearer to the cause.
    said = lines(traceback("ValueError: bad", mark=STAMP + "Scheduler hit an exception: "), 2)
    assert find_cause(said + lines(DEATHS[release].format(code=code))).summary == "ValueError: bad"
    fault = lines("Fatal Python error: Segmentation fault", 2)
    told = find_cause(fault + lines(DEATHS[release].format(code=code)))
    assert told.summary == "Fatal Python error: Segmentation fault"


@pytest.mark.parametrize("release", sorted(DEATHS))
@pytest.mark.parametrize("code", [1, -3, -15, -999])
def test_the_engines_own_end_of_its_processes_is_no_cause(release: str, code: int) -> None:
    cause = find_cause(lines(DEATHS[release].format(code=code)), unit(result="exit-code"))
    assert "the engine's" not in cause.summary


def test_a_part_that_is_gone_while_the_unit_goes_on() -> None:
    cause = find_cause(lines(STAMP + "Load weight begin."), unit(), lost=["detokenizer"])
    assert cause.summary.startswith(
        "the engine's detokenizer was killed from outside (signal 9), and the rest of it has not "
        "noticed: the kernel's log"
    )
    assert cause.signature == OUTSIDE
    said = lines(traceback("ValueError: bad"))
    assert find_cause(said, unit(), lost=["detokenizer"]).summary == "ValueError: bad"
