# SPDX-License-Identifier: Apache-2.0
"""A driver for hosts whose engines serve: one after the other, with clients that ask all the time.

The tests stand on one another, from top to bottom.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.host_drivers import DRIVER, power, serve, wish
from tests.rolling.conftest import ENGINES, GATEWAY, PLAY_SECONDS, Fleet
from tests.upgrade.conftest import wait_until
from tests.upgrade.load import REQUEST_SECONDS
from tests.upgrade.records import Outcome

pytestmark = pytest.mark.rolling

TURNS = "Say whose hosts are changed in turn"


@pytest.fixture(scope="module")
def fingerprint(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the driver's repository; both engines serve."""
    outcome = fleet.deploy(seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    nodes = {node: fleet.address(node) for node in ENGINES}
    return serve(nodes, tmp_path_factory.mktemp("drivers") / "apt")


def drivers(fleet: Fleet) -> list[str]:
    """The version of the kernel module that runs on each node; empty without one."""
    return [fleet.shell(node, "cat /sys/module/nvidia/version || true") for node in ENGINES]


def test_a_change_that_is_refused_leaves_both_engines_as_they_are(
    fleet: Fleet, fingerprint: str
) -> None:
    """The first node is out of the gateways for a moment, and the second one is not begun."""
    before = {node: fleet.launched(node) for node in ENGINES}
    other = fingerprint.translate(str.maketrans("0123456789", "1234567890"))
    outcome = fleet.deploy(extra=wish(other), seconds=PLAY_SECONDS)
    assert outcome.code == 2, outcome.output
    assert outcome.says(f"{fingerprint}, which is not pinned"), outcome.output
    assert outcome.says("Serving now on lab-1: release "), outcome.output
    assert outcome.says("lab-2 is not switched: 1 of 2 failed (lab-1)"), outcome.output
    assert {node: fleet.launched(node) for node in ENGINES} == before
    assert drivers(fleet) == ["", ""]
    assert fleet.workers() == list(ENGINES)


def test_hosts_reboot_one_after_the_other_and_not_one_request_fails(
    fleet: Fleet, fingerprint: str, journal: Path
) -> None:
    before = {node: fleet.launched(node) for node in ENGINES}
    plan = fleet.deploy("--check", extra=wish(fingerprint), seconds=PLAY_SECONDS)
    assert plan.code == 0, plan.output
    reason = "driver: not installed; newest of branch 580 is wanted"
    assert plan.entries(TURNS)[1:] == [f"1. lab-1: {reason}", f"2. lab-2: {reason}"]
    with fleet.clients(journal) as load, power():
        began = time.time()
        wait_until(lambda: load.answers(began) >= 6, 2 * REQUEST_SECONDS, "answers before it")
        outcome = fleet.deploy(extra=wish(fingerprint), seconds=PLAY_SECONDS)
        ended = time.time()
        wait_until(lambda: load.answers(ended) >= 6, 2 * REQUEST_SECONDS, "answers after it")
    assert outcome.code == 0, outcome.output
    bad = [r.line() for r in load.records() if r.outcome is not Outcome.ANSWERED]
    assert bad == []
    assert load.open() == []
    assert drivers(fleet) == [DRIVER, DRIVER]
    # Out, rebooted and in again, before the other one is touched; and no second time for the rest.
    left = [outcome.output.index(f"changed: [{node} -> {GATEWAY}") for node in ENGINES]
    reboot = "TASK [sm120.sglang.cuda_stack : Reboot the node]"
    boots = [outcome.output.index(reboot, place) for place in left]
    assert sorted([*left, *boots]) == [left[0], boots[0], left[1], boots[1]]
    assert outcome.output.count(f"changed: [lab-1 -> {GATEWAY}") == 2, outcome.output
    assert fleet.workers() == list(ENGINES)
    after = {node: fleet.launched(node) for node in ENGINES}
    assert all(after[node] != before[node] for node in ENGINES)
    again = fleet.deploy(extra=wish(fingerprint), seconds=PLAY_SECONDS)
    assert re.findall(r"changed=(\d+)", again.output) == ["0"] * 4, again.output
    assert {node: fleet.launched(node) for node in ENGINES} == after
    print(f"\n{len(load.records())} requests answered, none failed; {outcome.seconds:.0f} s")


# What takes the engine's port when the machine boots; it is nobody's yet while the engine runs.
SQUATTER = """cat >/etc/systemd/system/local-squatter.service <<'END'
[Service]
ExecStart=python3 -m http.server 30000 --bind {address}
[Install]
WantedBy=sysinit.target
END
systemctl enable --quiet local-squatter"""


def test_an_engine_that_does_not_come_back_stays_out_and_the_next_host_is_not_begun(
    fleet: Fleet, fingerprint: str
) -> None:
    """Kernel options need a reboot too; the next run does what was not begun."""
    before = fleet.launched("lab-2")
    fleet.shell("lab-1", SQUATTER.format(address=fleet.address("lab-1")))
    options = {"cuda_stack_module_options": {"nvidia_uvm": "uvm_disable_hmm=1"}}
    wanted = wish(fingerprint) | options
    with power():
        outcome = fleet.deploy(extra=wanted, seconds=PLAY_SECONDS)
        assert outcome.code == 2, outcome.output
        assert outcome.says("did not prove itself"), outcome.output
        assert outcome.says("Serving now: NOTHING. The engine is stopped"), outcome.output
        assert outcome.says("lab-2 is not switched: 1 of 2 failed (lab-1)"), outcome.output
        assert fleet.workers() == ["lab-2"]
        assert fleet.members()["lab-1"]["reason"].startswith("its engine failed: ")
        assert fleet.launched("lab-2") == before
        assert fleet.shell("lab-1", "systemctl is-active sglang || true") == "inactive"
        fleet.shell("lab-1", "systemctl disable --quiet --now local-squatter")
        # It is brought up, and the other one waits for that: two would be out of service.
        outcome = fleet.deploy(extra=wanted, seconds=PLAY_SECONDS)
        assert outcome.code == 2, outcome.output
        assert outcome.says("lab-2 is not switched: 1 of 2 are out of service (lab-1)")
        assert fleet.workers() == list(ENGINES)
        assert fleet.launched("lab-2") == before
        outcome = fleet.deploy(extra=wanted, seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    assert fleet.launched("lab-2") != before
    assert fleet.workers() == list(ENGINES)
