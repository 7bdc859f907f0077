# SPDX-License-Identifier: Apache-2.0
"""Power, SSH and controllers that are cut in the middle of a task, in each phase of an upgrade.

Each kind goes one upgrade from beginning to end, interrupted in one phase after the other. The
controller's death between tasks is in tests/deploy (build, patch, seal, switch, gate).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.conftest import (
    FIFTH,
    SAID,
    SECOND,
    THIRD,
    Broken,
    ends_well,
    mended,
    settled,
)
from tests.lab_node import Outcome, lab

pytestmark = pytest.mark.faults

COUNT = SAID.replace("grep -q", "grep -c").format("POST /v1/chat")
BUILDING = "ls -d /opt/sglang/releases/.building-*/venv/lib/python3*/site-packages/torch"
STOPPING = "systemctl show sglang -p SubState | grep -q stop-sigterm"
# Of a launch that is not the one before, while the play waits for it.
LOADING = (
    "pgrep -f '[j]ournalctl -f' && "
    "tr '\\0' '\\n' < /proc/$(systemctl show sglang -p MainPID --value)/environ"
    " | grep ^SGLANG_DEPLOY_LAUNCH= | grep -v {before} && pgrep -f ^sglang::scheduler"
)
# A question of the gate: the engine's own, and that of the node's reading, are asked before.
READY = SAID.format("fired up")
ASKED = f"{READY} && n=${{n:-$({COUNT})}} && [ $({COUNT}) -gt $n ]"


# End every connection but the own one, and let nobody in for a while; what runs on the node runs
# on. Of each session the monitor is ended, and the process that has the connection.
CUT = (
    'one=$$; own=" "; '
    'while [ "$one" -gt 1 ]; do own="$own$one "; one=$(ps -o ppid= -p "$one" | xargs); done; '
    'ends=""; for one in $(pgrep -P $(systemctl show ssh -p MainPID --value)); do '
    'case "$own" in *" $one "*) ;; *) ends="$ends $one $(pgrep -P $one | xargs)";; esac; done; '
    "systemctl stop ssh; kill -9 $ends; "
    'systemd-run --quiet --collect sh -c "sleep {seconds}; systemctl start ssh"'
)
# Longer than ansible-core tries a connection again, and shorter than a wait is begun again.
LONG, SHORT = 45, 8


def cut_power(node: Broken, seconds: int, *moments: str) -> Outcome:
    """Boot again after a while; that takes a while itself."""
    return node.deploy_during(moments, lambda _process: node.power_off(min(seconds, 10)))


def cut_ssh(node: Broken, seconds: int, *moments: str) -> Outcome:
    """On the node itself: until a second connection is made, the moment may be over."""
    cuts = [f"{moment} && {{ {CUT.format(seconds=seconds)}; }}" for moment in moments]
    return node.deploy_during(cuts, lambda _process: reachable(node))


def reachable(node: Broken) -> None:
    """Wait for a node that was cut off."""
    lab("up")
    for _second in range(2 * LONG):
        with contextlib.suppress(AssertionError):
            node.run("test -f /opt/sglang/current/COMPLETE")
            return
        time.sleep(1)
    pytest.fail("the node does not come back")


@pytest.mark.parametrize(
    ("cut", "wanted"),
    [
        pytest.param(
            cut_power,
            SECOND,
            marks=[
                pytest.mark.fault("power-off-building"),
                pytest.mark.fault("power-off-stopping"),
                pytest.mark.fault("power-off-loading"),
                pytest.mark.fault("power-off-gate"),
            ],
            id="power",
        ),
        pytest.param(
            cut_ssh,
            THIRD,
            marks=[
                pytest.mark.fault("ssh-cut-building"),
                pytest.mark.fault("ssh-cut-stopping"),
                pytest.mark.fault("ssh-cut-loading"),
                pytest.mark.fault("ssh-cut-gate"),
            ],
            id="ssh",
        ),
    ],
)
def test_an_upgrade_that_is_cut_in_each_phase(
    node: Broken, cut: Callable[..., Outcome], wanted: dict[str, Any]
) -> None:
    served, before = dict(node.wanted), node.link("serving")
    current = node.link("current")

    def interrupted(seconds: int, *moments: str) -> Outcome:
        outcome = cut(node, seconds, *moments)
        reachable(node)
        return outcome

    node.wanted = wanted
    outcome = interrupted(LONG, BUILDING)
    ends_well(outcome, cause="UNREACHABLE", remedy="Remedy: see that `ssh` reaches the node")
    assert node.link("serving") == before
    node.wanted = served
    mended(node)  # what served serves on, or again
    node.wanted = wanted
    outcome = interrupted(LONG, STOPPING)
    if outcome.says("That is no verdict on the engine"):  # the switch was over already
        ends_well(outcome, cause="cannot reach", remedy="The next run makes all checks")
    else:
        ends_well(outcome, cause="UNREACHABLE", remedy="Remedy: see that `ssh` reaches the node")
    if node.link("current") != current:
        # The switch went on alone, and what it started may be ready: it has to load when it is cut.
        node.run("systemctl restart sglang")
    # The wait begins again by itself; the gate leaves the verdict to the next run.
    outcome = interrupted(SHORT, LOADING.format(before=before), ASKED)
    ends_well(
        outcome, cause="That is no verdict on the engine", remedy="The next run makes all checks"
    )
    outcome = mended(node)
    assert outcome.says("started, but it never passed its gate"), outcome.output
    assert node.link("before") == before


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
    assert [one.code for one in both] == [0, 0], "\n".join(one.output for one in both)
    assert node.run("systemctl show sglang -p NRestarts --value") == "0"


@pytest.mark.fault("two-controllers-same-release")
def test_two_controllers_that_build_the_same_release(node: Broken) -> None:
    """Whose tree it is can change between two tasks; then the earlier one leaves it alone."""
    node.wanted = FIFTH
    both = node.deploy_twice(node.wanted, node.wanted)
    said = "\n".join(one.output for one in both)
    assert 0 in [one.code for one in both], said
    for loser in (one for one in both if one.code != 0):
        assert loser.says("another deployment has begun to build"), said
    settled(node)
    node.wanted = {}
    mended(node)


@pytest.mark.fault("two-controllers-different-launches")
def test_two_controllers_with_different_launches(node: Broken) -> None:
    """One of them ends last; the other says who was there, and undoes nothing."""
    # Neither is what serves: a run that finds nothing to do has nothing to lose.
    wanted = [{"engine_context_length": tokens} for tokens in (1500, 1600)]
    both = node.deploy_twice(*wanted)
    codes = [one.code for one in both]
    said = "\n".join(one.output for one in both)
    assert sorted(code != 0 for code in codes) == [False, True], said
    winner, loser = (both[0], both[1]) if codes[0] == 0 else (both[1], both[0])
    node.wanted = wanted[0] if winner is both[0] else wanted[1]
    assert loser.says("somebody else has deployed meanwhile"), loser.output
    settled(node)
    node.wanted = {}
    mended(node)
