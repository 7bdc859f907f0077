# SPDX-License-Identifier: Apache-2.0
"""A driver for the hosts of one engine over two nodes: down as one, and back as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.inventory import addresses, listing
from lab.state import Lab, state_dir
from tests.groups.conftest import NODES, Pair
from tests.host_drivers import DRIVER, power, serve, wish

pytestmark = pytest.mark.groups

COUNTS = "four five six seven"
REASON = "driver: not installed; newest of branch 580 is wanted"


def test_both_nodes_go_down_for_a_driver_when_the_engine_has_stopped(
    pair: Pair, tmp_path: Path
) -> None:
    outcome = pair.play()
    assert outcome.code == 0, outcome.output
    launches, before = pair.launches(), pair.engines()
    hosts = listing(Lab(state_dir()), addresses(Lab(state_dir())))["_meta"]["hostvars"]
    fingerprint = serve(
        {node: str(hosts[node]["ansible_host"]) for node in NODES}, tmp_path / "apt"
    )
    with power():
        outcome = pair.play("-e", json.dumps(wish(fingerprint)))
    assert outcome.code == 0, outcome.output
    turns = "Say whose hosts are changed in turn"
    assert outcome.entries(turns)[1:] == [f"1. {', '.join(NODES)}: {REASON}"]
    steps = (
        "Stop the head when it has finished what runs",
        "Stop the other nodes",
        "Reboot the node",
        "Switch back",
    )
    places = [outcome.output.index(f" : {step}]") for step in steps]
    assert places == sorted(places)
    for node in NODES:
        assert pair.run(node, "cat /sys/module/nvidia/version") == DRIVER
    assert pair.launches() == launches
    assert all(one not in before for one in pair.engines())
    assert COUNTS in pair.ask()
