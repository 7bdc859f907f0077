# SPDX-License-Identifier: Apache-2.0
"""Which changes of a host take an engine down, by the plans that `decide` really makes."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import decide, disturbance, files

from tests.unit.plugins.module_utils._cuda.test_decide import ROOTS, node, wish

DRIVER = "580.95.05-1"


def told(seen: dict[str, Any], **changes: Any) -> list[str]:
    wanted = wish(**changes)
    return disturbance.disturbing(decide.plan(seen, wanted), wanted)


def test_a_node_that_is_right_is_left_alone() -> None:
    assert told(node(DRIVER), allow_reboot=True) == []


def test_another_driver_disturbs() -> None:
    assert told(node(DRIVER), branch="590", allow_reboot=True) == [
        "driver: 580.95.05 -> newest of branch 590"
    ]


def test_a_first_driver_disturbs_with_and_without_a_reboot() -> None:
    for allowed in (True, False):
        assert told(node(), allow_reboot=allowed) == [
            "driver: not installed; newest of branch 580 is wanted"
        ]


def test_what_is_refused_as_a_whole_disturbs_nothing() -> None:
    """Without consent to a reboot the role ends before it has done anything."""
    assert told(node(DRIVER), branch="590") == []


@pytest.mark.parametrize(
    "seen",
    [
        node(DRIVER, cuda__packages__held=[]),
        node(DRIVER, files={}),
        node(DRIVER, cuda__persistenced__active_state="inactive"),
    ],
    ids=["holds", "preferences", "persistence"],
)
def test_locks_and_settings_are_made_beside_what_serves(seen: dict[str, Any]) -> None:
    wanted = wish(allow_reboot=True)
    assert decide.plan(seen, wanted)["differences"]
    assert disturbance.disturbing(decide.plan(seen, wanted), wanted) == []


def test_a_compiler_comes_beside_what_serves() -> None:
    assert told(node(DRIVER), toolkit="apt", allow_reboot=True) == []


OPTIONS: dict[str, Any] = {"module_options": {"nvidia_uvm": "uvm_disable_hmm=1"}}


def test_what_a_boot_reads_disturbs_where_the_role_reboots_for_it() -> None:
    assert told(node(DRIVER), **OPTIONS, kernel_arguments=["iommu=pt"], allow_reboot=True) == [
        "module options: need a reboot",
        "kernel arguments: need a reboot",
    ]
    assert told(node(DRIVER), **OPTIONS) == []
    # Without the role's driver the role does not reboot, whatever is allowed.
    assert told(node(DRIVER), **OPTIONS, driver="present", allow_reboot=True) == []


def test_files_that_are_not_wanted_any_more_need_the_reboot_too() -> None:
    seen = node(DRIVER)
    digest = hashlib.sha256(b"old").hexdigest()
    seen["files"][files.OPTIONS] = {**ROOTS, "sha256": digest}
    assert told(seen, allow_reboot=True) == ["module options: need a reboot"]


def test_a_driver_that_does_not_run_as_installed_disturbs_where_a_reboot_is_allowed() -> None:
    seen = node(DRIVER, cuda__library="590.48.01")
    assert told(seen, allow_reboot=True) == [
        (
            "driver: Driver/library version mismatch: the running kernel module is 580.95.05, the "
            "libraries are 590.48.01; nvidia-smi and every new CUDA program fail until a reboot"
        )
    ]
    assert told(seen) == []


def test_an_interrupted_dpkg_may_be_in_the_middle_of_the_driver() -> None:
    seen = node(DRIVER, cuda__packages__held=[], cuda__dpkg={"interrupted": True})
    assert told(seen, allow_reboot=True) == ["dpkg: was interrupted; it is finished first"]
    assert told(seen) == []


def test_the_plan_says_that_the_engine_goes_down_in_its_turn() -> None:
    (line,) = disturbance.turn_line(["driver: a -> b"], True, "25%")
    assert line.startswith("the engine goes down for its host (driver: a -> b): in turn")
    assert "deploy_serial 25%" in line
    assert disturbance.turn_line(["driver: a -> b"], False, 1) == []
    assert disturbance.turn_line([], True, 1) == []


def reading(launch: str = "l-1", complete: tuple[str, ...] = ("r-1",)) -> dict[str, Any]:
    return {
        "unit": {"launch": launch, "invocation_id": "i-1", "active_state": "active"},
        "launches": {"records": {"l-1": {"release": "r-1"}}},
        "releases": {"complete": list(complete)},
    }


def test_what_has_proved_itself_and_is_whole_may_go_down() -> None:
    assert disturbance.obstacles(reading(), True) == []


@pytest.mark.parametrize(
    ("node", "allowed", "says"),
    [
        (reading(), False, "engine_allow_restart"),
        (reading("l-2"), True, "what runs (launch l-2) never passed its gate here"),
        (reading(""), True, "(launch unknown)"),
        (reading(complete=()), True, "release r-1, which serves, is not whole"),
    ],
)
def test_what_would_not_come_back_is_refused(
    node: dict[str, Any], allowed: bool, says: str
) -> None:
    (found,) = disturbance.obstacles(node, allowed)
    assert says in found


def test_only_a_change_that_failed_can_have_left_the_engine_alone() -> None:
    before = reading()
    assert disturbance.runs_on(before, before, broke=True)
    # The packages moved under it, and no reboot was needed: it still runs with the old ones.
    assert not disturbance.runs_on(before, before, broke=False)
    for change in ({"invocation_id": "i-2"}, {"active_state": "failed"}):
        now = {**before, "unit": {**before["unit"], **change}}
        assert not disturbance.runs_on(before, now, broke=True)
