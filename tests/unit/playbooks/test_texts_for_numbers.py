# SPDX-License-Identifier: Apache-2.0
"""`-e name=5` gives a text: for every number of every role it is refused, no node is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.test_engine_groups import MODEL, NOBODY

REPOSITORY = Path(__file__).parents[3]
# Roles that a deployment to engines judges; the others validate themselves.
ROLES = yaml.safe_load((REPOSITORY / "roles/preflight/vars/main.yml").read_text())[
    "_preflight_roles"
]


def numbers() -> dict[str, Any]:
    """Every public variable that is a number, with a value."""
    found = {}
    for role in ROLES:
        path = REPOSITORY / "roles" / role / "meta/argument_specs.yml"
        options = yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
        for name, option in options.items():
            if option["type"] in ("int", "float"):
                default = option.get("default", 1)
                number = 1 if isinstance(default, str) else default
                found[name] = float(number) if option["type"] == "float" else number
    return found


NUMBERS = numbers()


def play(folder: Path, group: str, *words: str) -> str:
    """What a deployment that has to fail says, its white space folded."""
    common = {"model_store_target": MODEL, "engine_release_stack": "sglang-0.5.12.post1", **NOBODY}
    inventory = {"engines": {"hosts": {"e1": {}}, "vars": common}}
    inventory |= {} if group == "engines" else {group: {"hosts": {"g1": NOBODY}}}
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
        [*command, "-i", str(folder / "hosts.yml"), *words],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "UNREACHABLE" not in done.stdout
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is said when all of them are given as texts."""
    words = [word for name, value in NUMBERS.items() for word in ("-e", f"{name}={value}")]
    return play(tmp_path_factory.mktemp("numbers"), "engines", *words)


@pytest.mark.parametrize("name", NUMBERS)
def test_it_is_refused_with_how_to_give_it(refused: str, name: str) -> None:
    assert f"{name}: '{NUMBERS[name]}' was given" in refused
    assert f"-e '{json.dumps({name: NUMBERS[name]})}'" in refused


def test_the_gateway_refuses_its_own_before_it_is_touched(tmp_path: Path) -> None:
    said = play(tmp_path, "gateways", "-e", "gateway_drain_timeout=5")
    assert "-e '{\"gateway_drain_timeout\": 5}'" in said
    assert "Nothing was changed." in said
