# SPDX-License-Identifier: Apache-2.0
"""Two lab nodes that form one engine, and plays against them as an operator runs them."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab_node import REPOSITORY, WAIT, Node, Outcome, lab

HEAD, SECOND = "lab-1", "lab-2"
NODES = (HEAD, SECOND)
PLAY_SECONDS = 2400.0


class Pair:
    """The engine."""

    def play(self, *words: str, extra: Path | None = None, **more: Any) -> Outcome:
        """Run a playbook on both nodes; `extra` is one more inventory."""
        sources = [REPOSITORY / "inventories/lab", REPOSITORY / "tests/groups/inventory"]
        named = [str(source) for source in [*sources, *([extra] if extra else [])]]
        inventories = [word for source in named for word in ("-i", source)]
        return Node().deploy(*inventories, *words, seconds=PLAY_SECONDS, **more)

    def run(self, node: str, script: str) -> str:
        """Run a script on a node as root."""
        return lab("ssh", node, "--", "sudo", "sh", "-s", given=script).strip()

    def engines(self) -> list[str]:
        """What identifies the running engines: invocation and main process of each node."""
        show = "systemctl show sglang --property=InvocationID,MainPID --value"
        return [self.run(node, show) for node in NODES]

    def launches(self) -> set[str]:
        """The launches that the nodes' processes were started with; one where all is well."""
        script = (
            "tr '\\0' '\\n' </proc/$(systemctl show sglang --property=MainPID --value)/environ "
            "| sed -n 's/^SGLANG_DEPLOY_LAUNCH=//p'"
        )
        return {self.run(node, script) for node in NODES}

    def serving(self) -> set[str]:
        """The launches that the nodes have recorded as those that serve."""
        return {
            self.run(node, "basename $(readlink /etc/sglang/launches/serving)") for node in NODES
        }

    def kept(self) -> list[int]:
        """Bytes of the log that each node kept of its last failed start."""
        script = "stat -c %s $(ls -d /var/lib/sglang/failures/*/ | tail -n 1)journal.log"
        return [int(self.run(node, script)) for node in NODES]

    def states(self) -> list[str]:
        """What systemd says of the units."""
        return [self.run(node, "systemctl is-active sglang || true") for node in NODES]

    def wait(self, node: str, condition: str) -> None:
        """Wait until a shell condition holds on a node."""
        self.run(node, f"{WAIT} {shlex.quote(condition)}")

    def ask(self) -> str:
        """The text that the engine generates, asked at its head."""
        script = """
key=$(sed -n 's/^api-key: "\\(.*\\)"$/\\1/p' /etc/sglang/secrets.yaml)
address=$(sed -n 's/^  --host \\([0-9.]*\\).*/\\1/p' /etc/systemd/system/sglang.service)
python3 - "$key" "http://$address:30000/generate" <<'P'
import json, sys, urllib.request
body = {"text": "one two three", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
headers = {"Authorization": f"Bearer {sys.argv[1]}", "Content-Type": "application/json"}
request = urllib.request.Request(sys.argv[2], json.dumps(body).encode(), headers)
print(json.load(urllib.request.urlopen(request, timeout=120))["text"])
P
"""
        return self.run(HEAD, script)


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    """Two fresh nodes, gone at the end; GROUPS_KEEP=1 takes those that are there and keeps them."""
    keep = bool(os.environ.get("GROUPS_KEEP"))
    if not keep:
        lab("down")
    lab("up")
    yield Pair()
    if not keep:
        lab("down")


@pytest.fixture
def second_only(tmp_path: Path) -> Any:
    """Makes an inventory that sets variables of the second node alone."""

    def make(**variables: Any) -> Path:
        (tmp_path / "hosts.yml").write_text(json.dumps({"engines": {"hosts": {SECOND: {}}}}))
        folder = tmp_path / "host_vars"
        folder.mkdir()
        (folder / f"{SECOND}.yml").write_text(json.dumps(variables))
        return tmp_path

    return make
