# SPDX-License-Identifier: Apache-2.0
"""Processes of the engine that are killed."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Broken, mended, settled

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(
            "scheduler",
            marks=[pytest.mark.faults_core, pytest.mark.fault("scheduler-killed-serving")],
        ),
        pytest.param("detokenizer", marks=pytest.mark.fault("detokenizer-killed-serving")),
    ],
)
def test_a_part_is_killed_while_serving(node: Broken, part: str) -> None:
    """Nothing in the engine or systemd notices: the HTTP server goes on."""
    node.run(f"kill -KILL {node.part(part)}")
    shown = node.status(20)
    assert shown.says("lab-1 crashed"), shown.output
    assert shown.says(f"its {part} is gone"), shown.output
    assert shown.says("deploy again, which restarts it"), shown.output
    outcome = mended(node)
    assert outcome.says(f"engine: its {part} was killed"), outcome.output


@pytest.mark.fault("tree-killed-serving")
def test_the_whole_tree_is_killed_while_serving(node: Broken) -> None:
    before = node.engine()
    node.run("systemctl kill --signal=SIGKILL sglang")
    shown = node.status()
    assert shown.says("lab-1 crashed"), shown.output
    assert shown.says("systemd starts it again"), shown.output
    # Restart=on-failure brings it back by itself.
    node.run(
        "until systemctl show sglang -p NRestarts,ActiveState | grep -c '=1\\|=active' "
        "| grep -qx 2; do sleep 0.5; done"
    )
    settled(node)
    assert node.engine() != before
