# SPDX-License-Identifier: Apache-2.0
"""Upgrades that are interrupted, fail and go back, on the real engine.

Another patch policy is another release of the same SGLang: nothing is downloaded for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lab_node import Node, Outcome
from tests.upgrade import records
from tests.upgrade.load import clients

from .test_2_deployed import VARIABLE, serves

pytestmark = pytest.mark.lab

SECOND: dict[str, Any] = {"source_patches_policy": "needed_only"}


@pytest.mark.fault("controller-killed-between-tasks")
@pytest.mark.parametrize(
    "moment",
    [
        "TASK [sm120.sglang.engine_release : Build the release beside",
        "TASK [sm120.sglang.source_patches : Patch the release]",
        "TASK [sm120.sglang.source_patches : Prove the release",
        "TASK [sm120.sglang.engine : Switch to the launch]",
        "is active, main process",
    ],
    ids=["build", "patch", "seal", "switch", "gate"],
)
def test_a_killed_controller_leaves_nothing_that_the_next_run_cannot_finish(
    deployed: Node, moment: str
) -> None:
    """Every interruption leaves the second release at another stage."""
    before = deployed.engine()
    deployed.deploy_and_kill(lambda line: moment in line, SECOND)
    # No half-made release is ever current, and what serves still serves until the switch.
    deployed.run("test -f /opt/sglang/current/COMPLETE")
    if "engine :" not in moment and "main process" not in moment:
        assert deployed.engine() == before
        assert serves(deployed)


def test_what_was_started_and_never_proved_is_proved_by_the_next_run(deployed: Node) -> None:
    before, first = deployed.engine(), deployed.link("serving")
    # By hand it would be left for the launch that passed last, whatever runs.
    foreseen = deployed.deploy("--check", playbook="playbooks/rollback.yml")
    assert foreseen.code == 0, foreseen.output
    assert foreseen.says(f"(launch {first}) is restored and gated"), foreseen.output
    outcome = deployed.deploy(extra=SECOND)
    assert outcome.code == 0, outcome.output
    assert outcome.says("started, but it never passed its gate"), outcome.output
    assert outcome.says("OK accept_length")
    # It goes on with the process that the killed run had started.
    assert deployed.engine() == before
    assert deployed.link("serving") != first
    assert deployed.link("before") == first
    again = deployed.deploy(extra=SECOND)
    assert again.code == 0, again.output
    assert again.changed == 0
    assert deployed.run("ls -A /opt/sglang/releases | grep -c '^\\.' || true") == "0"
    assert serves(deployed)


def test_an_old_release_goes_and_check_mode_says_so_exactly(deployed: Node) -> None:
    deployed.run(
        "cd /opt/sglang; mkdir -p releases/old cache/old; cp current/stack.lock releases/old; "
        "touch -d 2020-01-01 releases/old/COMPLETE; touch wheels/unneeded-1-py3-none-any.whl"
    )
    before, extra = deployed.engine(), {**SECOND, "engine_release_keep": 2}
    gone = ("/opt/sglang/releases/old", "/opt/sglang/cache/old", "unneeded-1-py3-none-any.whl")
    for words in (("--check",), ()):
        outcome = deployed.deploy(*words, extra=extra)
        assert outcome.code == 0, outcome.output
        assert outcome.says("release old: old, 2 stay"), outcome.output
        assert all(outcome.says(name) for name in gone)
    assert deployed.run("ls /opt/sglang/releases /opt/sglang/cache | grep -cx old || true") == "0"
    assert deployed.run("ls /opt/sglang/wheels | grep -c unneeded || true") == "0"
    assert deployed.engine() == before


def test_a_rollback_by_hand_restores_the_release_before(deployed: Node, tmp_path: Path) -> None:
    """Requests go on all the while: each is answered, or refused at once while nothing serves."""
    first, second = deployed.link("before"), deployed.link("serving")
    releases = deployed.link("current"), deployed.link("previous")
    unknown = deployed.deploy(playbook="playbooks/rollback.yml", extra={"rollback_release": "r0"})
    assert unknown.code != 0
    assert unknown.says("there is no launch of r0 to go back to; available:"), unknown.output
    with clients(tmp_path / "requests.jsonl", count=2) as load:
        outcome = deployed.deploy(playbook="playbooks/rollback.yml")
    assert outcome.code == 0, outcome.output
    assert (records.broken(load.records()), load.open()) == ([], [])
    ended = {record.outcome for record in load.records()}
    assert ended == {records.Outcome.ANSWERED, records.Outcome.REFUSED}
    assert outcome.says(f"release {releases[1]} (launch {first}) serves and was gated")
    assert outcome.says("the engine RESTARTS, about")
    assert (deployed.link("serving"), deployed.link("before")) == (first, second)
    assert (deployed.link("current"), deployed.link("previous")) == (releases[1], releases[0])
    foreseen = deployed.deploy("--check", extra=SECOND)
    assert foreseen.says("this launch was rolled back by hand on"), foreseen.output


@pytest.mark.fault("draft-never-hits")
def test_a_launch_that_fails_its_gate_is_rolled_back_by_itself(deployed: Node) -> None:
    serving, release = deployed.link("serving"), deployed.link("current")
    outcome = deployed.deploy(extra={**SECOND, "lab_draft": "draft-miss"})
    assert outcome.code != 0
    assert outcome.says("Next: release"), outcome.output
    # One screen: what failed, why, once; what serves, what to do, and where the log is.
    screen = Outcome(outcome.code, outcome.failure, outcome.seconds)
    assert screen.says("did not prove itself")
    assert screen.output.count("FAIL accept_length 1.0") == 1, screen.output
    assert screen.output.count("Remedy: ") == 1, screen.output
    assert screen.says(f"Serving now: release {release} (launch {serving}), as it served before")
    assert screen.says("To do: act on the remedy and run the deployment again"), screen.output
    assert screen.says("Kept: /var/lib/sglang/failures/"), screen.output
    assert deployed.link("current") == release
    assert serves(deployed)
    # Its log is kept, for root alone and without the key.
    kept = deployed.run("ls -d /var/lib/sglang/failures/*/ | tail -1")
    assert "accept_length" in deployed.run(f"cat {kept}failure.json")
    assert int(deployed.run(f"wc -l < {kept}journal.log")) > 50
    key = "$(sed -n 's/^api-key: \"\\(.*\\)\"$/\\1/p' /etc/sglang/secrets.yaml)"
    assert deployed.run(f"grep -rlF -- {key} {kept} || true") == ""
    assert deployed.run("stat -c %a /var/lib/sglang/failures") == "700"
    # What the inventory meant before still means what serves.
    before = deployed.engine()
    again = deployed.deploy()
    assert again.code == 0, again.output
    assert again.changed == 0
    assert deployed.engine() == before


@pytest.mark.fault("nothing-to-go-back-to")
def test_without_the_override_variable_the_engine_refuses(deployed: Node) -> None:
    """The engine's own word that the variable is needed: draft 1024, target 2048.

    It refuses the launch that serves, which is the one wanted here and has passed before: then
    nothing is gone back to by itself, and the unit is stopped.
    """
    drop_in = "/run/systemd/system/sglang.service.d/test.conf"
    deployed.run(
        f"mkdir -p $(dirname {drop_in}); "
        f"printf '[Service]\\nUnsetEnvironment={VARIABLE}\\n' > {drop_in}; "
        "systemctl daemon-reload; systemctl stop sglang"
    )
    try:
        outcome = deployed.deploy(extra={"engine_drop_ins": ["test.conf"]})
    finally:
        deployed.run(f"rm {drop_in}; systemctl daemon-reload")
    assert outcome.code != 0
    refusal = "context_length (2048) is greater than the derived context_length (1024)"
    assert outcome.says(refusal), outcome.output
    screen = Outcome(outcome.code, outcome.failure, outcome.seconds)
    assert screen.output.count("Cause: ") == 1, screen.output
    assert screen.says(VARIABLE)
    assert screen.says("Serving now: NOTHING. The engine is stopped")
    # By itself nothing older is started; what a person would reach is named.
    before = f"release {deployed.link('previous')} (launch {deployed.link('before')})"
    assert screen.says(f"Nothing older is started by itself; {before} passed its gate on")
    assert screen.says(f"or playbooks/rollback.yml to go back to {before}."), screen.output
    assert deployed.run("systemctl is-active sglang || true") in ("inactive", "failed")
