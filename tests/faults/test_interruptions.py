# SPDX-License-Identifier: Apache-2.0
"""Controllers that are killed in the middle of a task, or that act at the same time.

A controller's death between tasks is in tests/deploy (build, patch, seal, switch, gate).
"""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.faults.conftest import SECOND, Broken, mended, settled

pytestmark = pytest.mark.faults

STOPPING = "systemctl show sglang -p SubState | grep -q stop-sigterm"


@pytest.mark.fault("controller-killed-mid-task")
def test_a_controller_that_is_killed_in_the_middle_of_a_task(node: Broken) -> None:
    """Its modules go on without it, and hold their locks as long."""

    def kill(process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)

    node.wanted = node.other()
    node.deploy_during([STOPPING], kill)
    outcome = mended(node)
    assert outcome.says("OK accept_length"), outcome.output


@pytest.mark.fault("two-controllers-same-launch")
def test_two_controllers_with_the_same_launch(node: Broken) -> None:
    node.wanted = node.other()
    both = node.deploy_twice(node.wanted, node.wanted)
    assert [one.code for one in both] == [0, 0], both
    assert node.run("systemctl show sglang -p NRestarts --value") == "0"
    settled(node)


@pytest.mark.fault("two-controllers-different-launches")
def test_two_controllers_with_different_launches(node: Broken) -> None:
    """One of them ends last; the other says who was there, and undoes nothing."""
    both = node.deploy_twice({}, SECOND)
    codes = [one.code for one in both]
    assert sorted(code != 0 for code in codes) == [False, True], both
    winner, loser = (both[0], both[1]) if codes[0] == 0 else (both[1], both[0])
    node.wanted = {} if winner is both[0] else SECOND
    assert loser.says("somebody else has deployed meanwhile"), loser.output
    settled(node)
    node.wanted = {}
    mended(node)
