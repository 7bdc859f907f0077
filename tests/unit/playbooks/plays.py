# SPDX-License-Identifier: Apache-2.0
"""Plays of the product's own playbooks, with this machine as its nodes and facts laid down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[3]
# Nothing of the product is there: what reads such a node finds none.
NOWHERE = {"engine_release_root": "/nonexistent/sglang", "engine_unit": "nonexistent-sglang"}


@dataclass(frozen=True)
class Played:
    """How a run ended and what it printed, its white space folded."""

    status: int
    output: str


def parts(playbook: str, *names: str) -> list[dict[str, Any]]:
    """Plays of a playbook as it stands, by their names."""
    plays = {
        play["name"]: play for play in yaml.safe_load((REPOSITORY / playbook).read_text("utf-8"))
    }
    return [plays[name] for name in names]


def run(
    folder: Path,
    facts: Mapping[str, Mapping[str, Any]],
    plays: Sequence[Mapping[str, Any]],
    *words: str,
    groups: Mapping[str, Sequence[str]] | None = None,
    collections: Path = REPOSITORY / "collections",
) -> Played:
    """Run plays.

    Args:
        folder: For inventory and playbook.
        facts: Node to what is known of it before the first play.
        plays: The plays.
        words: Further words of the command line.
        groups: Further groups of the inventory, and their hosts.
        collections: Where the collection is.
    """
    local = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_become": False,
    }
    members = {"engines": list(facts), **(groups or {})}
    children = {group: {"hosts": dict.fromkeys(hosts, None)} for group, hosts in members.items()}
    inventory = {"all": {"vars": {**local, **NOWHERE}, "children": children}}
    lay: list[dict[str, Any]] = [
        {
            "hosts": node,
            "gather_facts": False,
            "tags": ["always"],
            "tasks": [{"ansible.builtin.set_fact": dict(known)}],
        }
        for node, known in facts.items()
        if known
    ]
    (folder / "hosts.yml").write_text(json.dumps(inventory))
    (folder / "play.yml").write_text(yaml.safe_dump([*lay, *plays]))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(folder / "hosts.yml")]
    done = subprocess.run(
        [*command, str(folder / "play.yml"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Played(done.returncode, " ".join((done.stdout + done.stderr).split()))
