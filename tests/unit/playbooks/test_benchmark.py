# SPDX-License-Identifier: Apache-2.0
"""What a benchmark of many nodes does when one of them fails, and with what an earlier one left."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.playbooks.plays import REPOSITORY, parts, run
from tests.unit.roles.test_roles import tasks_in

PLAYBOOK = "playbooks/benchmark.yml"
CAUSE = "model_store_target is not set for"


@pytest.mark.parametrize("behind", [True, False])
def test_the_nodes_after_one_that_failed_are_begun_all_the_same(
    tmp_path: Path, *, behind: bool
) -> None:
    """Behind gateways one at a time, where the end of one was that of the run."""
    facts = {name: {"benchmark_allow_restart": True} for name in ("a", "b", "c")}
    groups = {"gateways": ["g"]} if behind else {}
    done = run(tmp_path, facts, parts(PLAYBOOK, "Measure", "Say how it went"), groups=groups)
    assert done.status == 2, done.output
    told = done.output.partition("TASK [sm120.sglang.benchmark : Show which nodes failed]")
    for name in facts:
        assert f"{CAUSE} {name};" in told[0]
        assert f"{name}: {CAUSE} {name};" in told[2]
        assert f"{name} : ok=" in told[2]
    assert done.output.count("failed=1") == 3


def test_a_run_in_which_none_failed_says_nothing_at_its_end(tmp_path: Path) -> None:
    done = run(tmp_path, {"a": {}, "b": {}}, parts(PLAYBOOK, "Say how it went"))
    assert done.status == 0, done.output
    assert "Show which nodes failed" not in done.output


def test_what_is_put_back_gets_requests_only_when_it_has_proved_itself() -> None:
    """And before the node is read and judged, which may end its part in the run."""
    text = (REPOSITORY / "roles/benchmark/tasks/put_back.yml").read_text("utf-8")
    included = [
        (role["name"].rpartition(".")[2], role["tasks_from"])
        for task in tasks_in(yaml.safe_load(text))
        if (role := task.get("ansible.builtin.include_role"))
    ]
    assert included == [
        ("gateway", "leave.yml"),
        ("rollback", "prove.yml"),
        ("gateway", "join.yml"),
    ]
    first, second = parts(PLAYBOOK, "Put back what an interrupted benchmark left", "Measure")
    assert "put_back.yml" in str(first)
    assert "preflight" in str(second)
