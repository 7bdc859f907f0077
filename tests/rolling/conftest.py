# SPDX-License-Identifier: Apache-2.0
"""Two real engines behind a real router, with clients that ask all the time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.inventory import GATEWAYS, addresses, listing
from lab.state import Lab, state_dir
from tests.lab_node import Node, lab
from tests.upgrade.load import Direct, Load

GATEWAY, ENGINES = "lab-3", ("lab-1", "lab-2")
PORT = 8080
PLAY_SECONDS = 2400.0
# A node has Python, and not always curl.
_ASK = """python3 -c '
import urllib.request
key = open("/etc/sglang-gateway/admin.key").read().strip()
asked = urllib.request.Request("{url}", headers=dict(Authorization="Bearer " + key))
print(urllib.request.urlopen(asked, timeout=30).read().decode())'
"""


class Fleet(Node):
    """The lab: two nodes with an engine, and a gateway."""

    def shell(self, node: str, script: str) -> str:
        """Run a script on a node as root."""
        return lab("ssh", node, "--", "sudo", "sh", "-s", given=script).strip()

    def launched(self, node: str) -> str:
        """What identifies the engine that runs on a node."""
        return self.shell(node, "systemctl show sglang --property=InvocationID --value")

    def members(self) -> dict[str, Any]:
        """Who gets requests, as the gateway remembers it."""
        found: dict[str, Any] = json.loads(
            self.shell(GATEWAY, "cat /var/lib/sglang-gateway/members.json")
        )
        return found

    def workers(self) -> list[str]:
        """The nodes that the router itself lists."""
        address = self.address(GATEWAY)
        answer = json.loads(
            self.shell(GATEWAY, _ASK.format(url=f"http://{address}:{PORT}/workers"))
        )
        urls = {worker["url"] for worker in answer["workers"]}
        return [name for name in ENGINES if f"http://{self.address(name)}:30000" in urls]

    def address(self, node: str) -> str:
        """A node's address."""
        found = listing(Lab(state_dir()), addresses(Lab(state_dir())))
        return str(found["_meta"]["hostvars"][node]["ansible_host"])

    @contextmanager
    def clients(self, journal: Path, count: int = 3) -> Iterator[Load]:
        """Clients that send every request to the gateway, whatever goes on behind it."""
        key = (state_dir() / "secrets" / "api_key").read_text().split()[0]
        load = Load(Direct(self.address(GATEWAY), PORT, key), "kimi-lab", journal, count)
        load.start()
        try:
            yield load
        finally:
            load.stop()


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The fleet, deployed; thrown away where every test passed.

    ROLLING_KEEP=1 takes the nodes that are there, and keeps them.
    """
    os.environ["LAB_NODES"] = str(len(ENGINES) + 1)
    os.environ[GATEWAYS] = "1"
    keep = bool(os.environ.get("ROLLING_KEEP"))
    if not keep:
        lab("down")
    lab("up")
    fleet = Fleet()
    outcome = fleet.deploy(seconds=PLAY_SECONDS)
    assert outcome.code == 0, outcome.output
    yield fleet
    if not keep and not request.session.testsfailed:
        lab("down")


@pytest.fixture
def journal() -> Path:
    """Where the records of this run's requests are kept."""
    folder = state_dir() / "rolling"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / time.strftime("requests-%Y%m%dT%H%M%SZ.jsonl", time.gmtime())
