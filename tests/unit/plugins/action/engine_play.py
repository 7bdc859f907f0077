# SPDX-License-Identifier: Apache-2.0
"""Plays against a node that is a real SSH server with stand-ins for systemctl and journalctl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.unit.plugins.plugin_utils.sshd import Sshd

REPOSITORY = Path(__file__).parents[4]
KEY = "sesame-is-open-0815"

_SYSTEMCTL = '#!/bin/sh\necho "$$ $*" >> {folder}/systemctl.log\ncat {folder}/state\n'
# -f replays the journal, then stays until nobody reads any more, as journalctl does.
_JOURNALCTL = """#!/bin/sh
echo "$$ $*" >> {folder}/journalctl.log
case "$*" in
*--sync*) exit 0 ;;
*-f*) exec tail -n +1 -f {folder}/journal ;;
*) cat {folder}/journal ;;
esac
"""
RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "NRestarts": "0",
    "MainPID": "4242",
    "InvocationID": "aa11",
    "ExecMainStatus": "0",
    "InactiveExitTimestamp": "@1795971156",
}
FAILED = {**RUNNING, "ActiveState": "failed", "SubState": "failed", "Result": "signal"}


@dataclass
class PlayNode:
    """The node's side: a folder that its stand-ins read and write."""

    folder: Path
    bin: Path = field(init=False)

    def __post_init__(self) -> None:
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        for name, text in (("systemctl", _SYSTEMCTL), ("journalctl", _JOURNALCTL)):
            tool = self.bin / name
            tool.write_text(text.format(folder=self.folder))
            tool.chmod(0o755)
        (self.folder / "journal").write_text("")
        self.state(RUNNING)

    @property
    def path(self) -> str:
        """The PATH of commands on this node."""
        return f"{self.bin}:/usr/local/bin:/usr/bin:/bin"

    def state(self, values: dict[str, str]) -> None:
        """What systemctl shows from now on; replaced at once, never half written."""
        new = self.folder / "state.new"
        new.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        new.rename(self.folder / "state")

    def journal(self, raws: list[str]) -> None:
        """Append to the journal."""
        with (self.folder / "journal").open("a") as stream:
            stream.write("".join(f"{raw}\n" for raw in raws))

    def followers(self) -> list[int]:
        """Processes of `journalctl -f` that were started."""
        log = self.folder / "journalctl.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [int(line.split()[0]) for line in lines if " -f " in line]


@dataclass(frozen=True)
class Played:
    """What a play printed and what its task returned."""

    status: int
    output: str
    result: dict[str, Any]


def play(
    folder: Path,
    host: dict[str, Any],
    action: str,
    arguments: dict[str, Any],
    *,
    options: tuple[str, ...] = (),
    path: str = "",
) -> Played:
    """Run one task on one host and read back its result."""
    command, environment, answer = prepare(folder, host, action, arguments, path=path)
    done = subprocess.run(
        [*command, *options],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    result = json.loads(answer.read_text()) if answer.exists() else {}
    return Played(done.returncode, done.stdout + done.stderr, result)


def prepare(
    folder: Path, host: dict[str, Any], action: str, arguments: dict[str, Any], *, path: str = ""
) -> tuple[list[str], dict[str, str], Path]:
    """Write inventory and playbook; returns the command, its environment and the result's file."""
    answer = folder / "result.json"
    copy = {"content": "{{ seen | to_json }}", "dest": str(answer), "mode": "0600"}
    tasks = [
        {"name": "look", action: arguments, "register": "seen", "ignore_errors": True},
        {
            "name": "keep",
            "ansible.builtin.copy": copy,
            "delegate_to": "localhost",
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
            "check_mode": False,
        },
        {"name": "end", "ansible.builtin.fail": {"msg": "as the task"}, "when": "seen is failed"},
    ]
    plays = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(json.dumps(plays))
    (folder / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"node-1": host}}}))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        # ansible-core flushes nothing itself: a terminal gets each line at once, a pipe does not.
        "PYTHONUNBUFFERED": "1",
    }
    if path:
        environment["PATH"] = path
    ansible = [sys.executable, "-m", "ansible", "playbook"]
    return (
        [*ansible, "-i", str(folder / "hosts.yml"), str(folder / "play.yml")],
        environment,
        answer,
    )


def over_ssh(server: Sshd, **more: Any) -> dict[str, Any]:
    """Host variables as an inventory has them."""
    return {
        "ansible_host": server.address,
        "ansible_port": server.port,
        "ansible_user": server.user,
        "ansible_ssh_private_key_file": str(server.key),
        "ansible_ssh_common_args": (
            f"-F none -o IdentitiesOnly=yes -o UserKnownHostsFile={server.known_hosts} "
            "-o GlobalKnownHostsFile=none"
        ),
        **more,
    }
