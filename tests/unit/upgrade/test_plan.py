# SPDX-License-Identifier: Apache-2.0
"""What is read out of a play's output, on recorded plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.plan import Plan, changed, patches, plan, removed, tasks

RECORDED = Path(__file__).parents[2] / "recordings/plays/upgrade-check.txt"


def test_a_recorded_plan() -> None:
    found = plan(RECORDED.read_text())
    assert found.built == ["lab-0.5.12.post1-51a1e64cf2ee"]
    assert found.pruned == []
    assert found.restarts
    assert found.downtime == 159.0
    assert found.patches["kimi_k25_eagle3_delegation"].startswith("upstream: ")
    assert found.patches["sm120_allreduce_sizes"].endswith("reads it without a fallback")
    # YAML folds long lines; the plan has them whole.
    assert found.lines[-1].endswith("the communicator is disabled before this table is read")


def test_the_tasks_that_would_change_something() -> None:
    assert changed(RECORDED.read_text()) == [
        "Bring the wheels that the node lacks",
        "Build the release beside the serving one",
        "Prove the release as the engine's user and complete it",
        "Make the release's kernel cache",
        "Switch to the launch",
        "Keep the launch that proved itself",
    ]
    name, printed = tasks(RECORDED.read_text())[0]
    assert (name, printed.strip()) == ("Refuse an inventory without nodes", "ok: [localhost]")


def test_other_plans() -> None:
    lines = (
        "prune: release lab-0.5.9-a1e7d7818f55: old, 3 stay; goes after the gate with its cache",
        "engine_release: release x: 2 file(s) not as built: a; b",
        "the engine goes on without a restart",
    )
    found = Plan(lines)
    assert (found.pruned, found.built) == (["lab-0.5.9-a1e7d7818f55"], ["x"])
    assert (found.restarts, found.downtime) == (False, None)
    assert Plan(("the engine RESTARTS",)).downtime is None


def test_patches_are_foretold_and_decided() -> None:
    lines = (
        "patch a: needed (edited): X has no key 12, and y.py:83 reads it. Its limit: It is no use",
        "patch b: upstream: C has all. It is fine",
    )
    foretold = Plan(lines).patches
    assert foretold == {
        "a": "needed (edited): X has no key 12, and y.py:83 reads it",
        "b": "upstream: C has all. It is fine",
    }
    task = "TASK [sm120.sglang.source_patches : Show what was decided for each patch] ****\n"
    said = "ok: [lab-1] => \n    msg:\n        a: 'needed (edited): X has no key 12, and\n"
    rest = "            y.py:83 reads it'\n        b: 'upstream: C has all. It is fine'\n\n"
    assert patches(task + said + rest) == foretold
    assert patches(task + "skipping: [lab-1]\n") == {}


def test_what_goes_with_an_old_release() -> None:
    task = "TASK [sm120.sglang.health_gate : Say what was removed] ****\n"
    said = "ok: [lab-1] => \n    msg:\n    - /opt/sglang/releases/a\n    - launch 0123\n\n"
    assert removed(task + said) == ["/opt/sglang/releases/a", "launch 0123"]
    assert removed(RECORDED.read_text()) == []


def test_an_output_without_a_plan() -> None:
    with pytest.raises(ValueError, match="no plan"):
        plan("TASK [a : b] ****\nok: [lab-1]\n")
