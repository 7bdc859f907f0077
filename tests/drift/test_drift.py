# SPDX-License-Identifier: Apache-2.0
"""What somebody changes by hand is in the plan of an ordinary run, which mends it."""

from __future__ import annotations

import pytest

from .conftest import Changed
from .kind import Kind
from .kinds import KINDS

pytestmark = pytest.mark.drift


def condition(node: Changed, text: str) -> None:
    """Fail, with what the shell says, where a condition does not hold on the node."""
    node.run(f"{{ {text}; }} >/dev/null || exit 1")


@pytest.mark.parametrize("name", list(KINDS))
def test_it_is_found_mended_and_gone(serving: Changed, name: str) -> None:
    kind = KINDS[name]
    extra = dict(kind.extra)
    serving.settle(extra)
    serving.run(f"set -e; {kind.change}")
    engine = serving.engine()
    outcome = serving.deploy(extra=extra)
    assert outcome.code == 0, outcome.output
    check_plan(outcome.entries("Show the plan"), kind)
    assert outcome.changed > 0
    condition(serving, kind.mended)
    restarted = serving.engine() != engine
    assert restarted == kind.restarts, outcome.output
    again = serving.deploy(extra=extra)
    assert again.code == 0, again.output
    assert again.changed == 0, again.output
    assert again.says("nothing to do")
    assert serving.run("systemctl is-active sglang") == "active"


def check_plan(plan: list[str], kind: Kind) -> None:
    """The plan tells it under its role, and whether the engine restarts."""
    told = " ".join(entry for entry in plan if entry.startswith(f"{kind.role}: "))
    missing = [text for text in kind.says if text not in told and text not in " ".join(plan)]
    assert missing == [], plan
    assert kind.says[0] in told, plan
    says = "the engine RESTARTS" if kind.restarts else "the engine goes on without a restart"
    other = "the engine starts" if kind.restarts else says
    assert any(entry.startswith((says, other)) for entry in plan), plan
