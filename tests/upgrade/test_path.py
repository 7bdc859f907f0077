# SPDX-License-Identifier: Apache-2.0
"""From release to release and back, with clients that ask all the time.

Each step is first foretold by check mode and then taken; what was foretold is compared with what
happened, and every request of the clients has to have an end that can be defended.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.lab_node import Node
from tests.upgrade.conftest import record, steps, wait_until
from tests.upgrade.load import REQUEST_SECONDS, Direct, Load, clients
from tests.upgrade.plan import changed, patches, plan, removed
from tests.upgrade.records import Outcome, Switch, account, broken, switches
from tests.upgrade.report import Report, Step

pytestmark = pytest.mark.upgrade

PLAY_SECONDS = 2400.0
PATCH = "Patch the release"


def command(step: str) -> dict[str, Any]:
    """The playbook of a step with its variables."""
    name, _, release = step.partition(":")
    if name != "rollback":
        return {"extra": {"engine_release_stack": name}}
    extra = {"rollback_release": release} if release else None
    return {"playbook": "playbooks/rollback.yml", "extra": extra}


def releases(node: Node) -> set[str]:
    """The complete releases on the node."""
    found = node.run("cd /opt/sglang/releases; ls -d */COMPLETE")
    return {line.partition("/")[0] for line in found.split()}


def last_switch(node: Node, since: float) -> Switch:
    """The one switch since a moment."""
    shown = node.run(f"journalctl -o json --since=@{since:.0f} UNIT=sglang.service")
    found = switches(shown.splitlines())
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("step", steps())
def test_step(node: Node, load: Load, report: Report, step: str) -> None:
    began = time.time()
    wait_until(lambda: load.answers(began) >= 4, 2 * REQUEST_SECONDS, "four answers before it")
    had, before, engine = releases(node), node.link("current"), node.engine()

    foreseen = node.deploy("--check", "--diff", **command(step))
    assert foreseen.code == 0, foreseen.output
    assert (releases(node), node.engine()) == (had, engine), "check mode touched the node"
    foretold = plan(foreseen.output)

    asked = time.time()
    outcome = node.deploy(seconds=PLAY_SECONDS, **command(step))
    report.keep(step, foreseen.output + outcome.output)
    assert outcome.code == 0, outcome.output
    has, after = releases(node), node.link("current")
    switch = last_switch(node, asked)
    wait_until(
        lambda: load.answers(switch.started) >= 4, 2 * REQUEST_SECONDS, "four answers after it"
    )
    start = float(str(record(node)["ready_seconds"]))
    met = account(load.records(began), switch)
    report.add(Step(step, before, after, foretold.downtime, start, outcome.seconds, switch, met))

    bad = broken(load.records(began))
    assert not bad, "\n".join(record.line() for record in bad)
    assert met.outcomes[Outcome.REFUSED.value] > 0
    assert met.downtime is not None
    assert plan(outcome.output) == foretold
    assert set(foretold.built) == has - had
    assert set(foretold.pruned) == had - has
    assert removed(foreseen.output) == removed(outcome.output)
    assert foretold.patches == patches(outcome.output)
    assert foretold.restarts
    assert node.engine() != engine
    # A release that is not there has no files that check mode could judge.
    done = [name for name in changed(outcome.output) if not foretold.built or name != PATCH]
    assert done == changed(foreseen.output)


def test_no_request_is_without_an_end(load: Load) -> None:
    load.stop()
    assert load.open() == []


def test_clients_that_read_no_health_meet_errors_and_never_silence(
    node: Node, load: Load, results: Path
) -> None:
    """They keep an engine busy that wants to stop, until its time is over and the last are cut."""
    load.stop()
    drop_in = "/run/systemd/system/sglang.service.d/test.conf"
    node.run(
        f"mkdir -p $(dirname {drop_in}); "
        f"printf '[Service]\\nTimeoutStopSec=20\\n' > {drop_in}; systemctl daemon-reload"
    )
    count = 4
    with clients(results / "direct.jsonl", count, Direct) as asking:
        wait_until(lambda: asking.answers(0.0) >= count, 2 * REQUEST_SECONDS, "four answers")
        outcome = node.deploy(playbook="playbooks/stop.yml")
        assert outcome.code == 0, outcome.output
        wait_until(
            lambda: any(r.outcome is Outcome.REFUSED for r in asking.records()), 60, "a refusal"
        )
    assert asking.open() == []
    ended = Counter(record.outcome for record in asking.records())
    print(dict(ended))
    assert set(ended) <= {Outcome.ANSWERED, Outcome.REFUSED, Outcome.CUT}
    assert ended[Outcome.CUT] <= count
