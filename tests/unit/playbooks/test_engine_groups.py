# SPDX-License-Identifier: Apache-2.0
"""Every wrong declaration of an engine over several nodes is refused before a node is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
# Nobody answers there: a refusal that came from a node would be another one.
NOBODY = {"ansible_host": "127.0.0.1", "ansible_port": 1}
MODEL = {
    "name": "kimi",
    "revision": "1",
    "source": {"path": "/srv/kimi", "on": "node"},
    "manifest": "/nonexistent.json",
}
# Group to its nodes, each with its own variables, and what is said of the first one.
WRONG: dict[str, tuple[dict[str, dict[str, Any]], str]] = {
    "kimi_a": ({"a1": {"engine_group": "kimi_"}}, "no group 'kimi_'; did you mean kimi_a?"),
    "bb": ({"b1": {"engine_group": "cc"}}, "b1 says cc, and is not in that group (c1)"),
    "cc": ({"c1": {"engine_group": "cc"}}, "the group cc has c1 alone"),
    "dd": (
        {"d1": {"engine_group": "dd"}, "d2": {"engine_group": "ee"}},
        "d2 is in the group dd, and its own engine_group is 'ee'",
    ),
    "ee": (
        {"e1": {"engine_group": "ee", "engine_tp_size": 15}, "e2": {"engine_group": "ee"}},
        "engine_tp_size is 15, which 2 nodes cannot share",
    ),
    "ff": (
        {"f1": {"engine_group": "ff"}, "f2": {"engine_group": "ff"}},
        "engine_tp_size is 8, and the 2 nodes of ff have 2 x 8 GPUs (cuda_stack_gpus). Remedy: 16",
    ),
    "gg": (
        {
            "g1": {
                "engine_group": "gg",
                "engine_tp_size": 16,
                "engine_arguments": {"nnodes": 2},
                "engine_group_port": 30000,
            },
            "g2": {"engine_group": "gg", "engine_tp_size": 16},
        },
        "engine_group_port: 30000 and engine_port 30000 clash",
    ),
    "hh": (
        {"h1": {"engine_arguments": {"node-rank": 1}}},
        "engine_arguments.node-rank: an engine over several nodes is declared by engine_group",
    ),
    "ii": ({"i1": {"engine_group": ["ii"]}}, "engine_group: ['ii'] is not the name of a group"),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a deployment to all of these nodes says, its white space folded."""
    folder = tmp_path_factory.mktemp("groups")
    common = {"model_store_target": MODEL, "engine_release_stack": "sglang-0.5.12.post1", **NOBODY}
    groups = {name: {"hosts": nodes} for name, (nodes, _said) in WRONG.items()}
    inventory = {"engines": {"children": groups, "vars": common}}
    (folder / "hosts.yml").write_text(json.dumps(inventory))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [sys.executable, "-m", "ansible", "playbook", "deploy.yml"]
    done = subprocess.run(
        [*command, "-i", str(folder / "hosts.yml")],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused_with_its_cause(refused: str, name: str) -> None:
    assert WRONG[name][1] in refused


def test_no_node_was_asked(refused: str) -> None:
    assert "UNREACHABLE" not in refused
    assert "unreachable=1" not in refused
    assert "Nothing was changed." in refused
