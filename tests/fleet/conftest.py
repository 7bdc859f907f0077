# SPDX-License-Identifier: Apache-2.0
"""Three real nodes that pass files on, and what may never be left on them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab_node import REPOSITORY, lab

NODES = ("lab-1", "lab-2", "lab-3")
DEST = "/var/lib/fleet/model/1"
INCOMING = "/var/lib/fleet/model/.1.incoming"
MIB = 1 << 20
OWNED = ("--owner=0", "--group=0", "--mode=u=rwX,go=rX")
# What passing on could leave: unit, folder, mounts, processes; keys are under the folder, and
# nobody's own keys have changed since the node was made.
LEFTOVERS = """
systemctl list-units --all --plain --no-legend 'sglang-pass-on*'
ls -d /run/sglang-pass-on /run/systemd/transient/sglang-pass-on* 2>/dev/null
grep sglang-pass-on /proc/mounts
getent passwd | cut -d: -f6 | sort -u | sed 's#$#/.ssh#' | xargs -I{} find {} /etc/ssh \
  -newer /var/lib/fleet-made 2>/dev/null
pgrep -af 'sglang-pass-on|[a]gent.pyz'
true
"""
SECONDS = 120


@dataclass(frozen=True)
class Files:
    """Files on the controller: their folder, and how they are described."""

    folder: Path
    files: list[dict[str, Any]]

    @property
    def size(self) -> int:
        return sum(entry["size"] for entry in self.files)

    def digests(self) -> str:
        """As `sha256sum` prints them in the folder, sorted by name."""
        entries = sorted(self.files, key=lambda entry: entry["name"].encode())
        return "\n".join(f"{entry['sha256']}  ./{entry['name']}" for entry in entries)


def make_files(folder: Path, sizes: dict[str, int]) -> Files:
    """Write files of random content."""
    entries = []
    for name, size in sizes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = random.Random(name).randbytes(size)  # noqa: S311  content, not a secret
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        entries.append({"name": name, "sha256": digest, "size": size})
    return Files(folder, entries)


class Fleet:
    """The nodes, and runs that pass files on between them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found = subprocess.run(
            ["inventories/lab/nodes.py", "--list"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        variables = json.loads(found.stdout)["_meta"]["hostvars"]
        self.address = {name: variables[name]["ansible_host"] for name in NODES}

    def shell(self, node: str, script: str) -> str:
        """Run a script on a node as root."""
        return lab("ssh", node, "--", "sudo", "sh", "-s", given=script).strip()

    def everywhere(self, script: str) -> dict[str, str]:
        """Run a script on all nodes at once."""
        with ThreadPoolExecutor() as pool:
            return dict(
                zip(NODES, pool.map(lambda node: self.shell(node, script), NODES), strict=True)
            )

    def wait(self, node: str, moment: str) -> None:
        """Wait until a shell condition holds on a node."""
        until = f"until eval {shlex.quote(moment)} >/dev/null 2>&1; do sleep 0.1; done"
        self.shell(node, f"timeout {SECONDS} sh -c {shlex.quote(until)}")

    def command(
        self,
        files: Files,
        *words: str,
        nodes: Sequence[str] = NODES,
        controller: bool = True,
        **extra: Any,
    ) -> list[str]:
        """The command line of a run.

        Args:
            files: What every node must have.
            *words: More words.
            nodes: Who takes part.
            controller: Whether the controller has the files.
            **extra: More variables.
        """
        folder = {"dest": DEST, "files": files.files}
        if controller:
            folder["src"] = str(files.folder)
        described = [
            {"name": name, "address": self.address[name], "folders": [folder]} for name in nodes
        ]
        variables = {"fleet_nodes": described, "fleet_output": str(self.output), **extra}
        written = self._folder / "variables.json"
        written.write_text(json.dumps(variables))
        play = "tests/fleet/pass_on.yml"
        return ["ansible-playbook", play, *words, "--extra-vars", f"@{written}"]

    @property
    def output(self) -> Path:
        return self._folder / "result.json"

    def begin(self, files: Files, *words: str, **extra: Any) -> subprocess.Popen[str]:
        """Start a run in a process group of its own."""
        self.output.unlink(missing_ok=True)
        return subprocess.Popen(
            self.command(files, *words, **extra),
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait for a run; returns the module's result."""
        said, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
        result: dict[str, Any] = json.loads(self.output.read_text())
        return result

    def run(self, files: Files, *words: str, **extra: Any) -> dict[str, Any]:
        """A whole run; returns the module's result."""
        return self.end(self.begin(files, *words, **extra))

    def holds(self, node: str) -> str:
        """The digests of what a node has under its own name, sorted by name."""
        return self.shell(
            node,
            f"cd {DEST} 2>/dev/null || exit 0; find . -type f ! -name .verified.json -print0 "
            "| LC_ALL=C sort -z | xargs -0r sha256sum | sed 's/^\\\\//'",
        )

    def put(self, node: str, files: Files) -> None:
        """Give a node files, as if they had been there before."""
        packed = subprocess.run(
            ["tar", "c", "-C", str(files.folder), *OWNED, "."], capture_output=True, check=True
        ).stdout
        unpack = f"sudo mkdir -p {DEST} && sudo tar xp -C {DEST}"
        subprocess.run(
            [sys.executable, "-m", "lab", "ssh", node, "--", unpack],
            cwd=REPOSITORY,
            input=packed,
            check=True,
        )

    def parts(self, node: str) -> str:
        """Parts of files that a node keeps for the next run, with their sizes."""
        return self.shell(node, f"find {INCOMING} -type f -printf '%s %f\\n' 2>/dev/null; true")


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three bare nodes; FLEET_KEEP uses those that are up, and keeps them."""
    keep = os.environ.get("FLEET_KEEP")
    if not keep:
        lab("down")
        lab("up", "--nodes", "3")
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    fleet.everywhere("touch /var/lib/fleet-made")
    yield fleet
    if not keep:
        lab("down")


@pytest.fixture
def fleet(nodes: Fleet) -> Iterator[Fleet]:
    """Nodes without files; after the test nothing of passing on is left on any of them."""
    nodes.everywhere("rm -rf /var/lib/fleet; mkdir -p /var/lib/fleet/model")
    yield nodes
    deadline = time.monotonic() + 20
    while left := {name: said for name, said in nodes.everywhere(LEFTOVERS).items() if said}:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
