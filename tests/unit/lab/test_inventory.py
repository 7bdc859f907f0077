# SPDX-License-Identifier: Apache-2.0
"""The inventory script, run as Ansible runs it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.ssh import known_hosts_with, ssh_options
from lab.state import REPOSITORY, Lab, Node

SCRIPT = REPOSITORY / "inventories" / "lab" / "nodes.py"


def ask(state: Path, *arguments: str, cwd: Path = Path("/"), **environ: str) -> Any:
    done = subprocess.run(
        [str(SCRIPT), *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "LAB_STATE": str(state), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def record(lab: Lab, index: int, base: str = "127.120.0.") -> None:
    name = f"lab-{index}"
    lab.node_dir(name).mkdir(parents=True)
    lab.save(Node(name, f"{base}{index}", 22120, "/r", "overlay", name, "0"))


def test_recorded_nodes_are_listed_with_everything_to_reach_them(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "state")
    for index in (2, 1, 10):
        record(lab, index)
    answer = ask(lab.path, "--list")
    assert answer["engines"] == {"hosts": ["lab-1", "lab-2", "lab-10"]}
    assert answer["all"] == {"children": ["engines"]}
    assert answer["_meta"]["hostvars"]["lab-2"] == {
        "ansible_host": "127.120.0.2",
        "ansible_port": 22120,
        "ansible_user": "operator",
        "ansible_ssh_private_key_file": str(lab.path / "ssh" / "id_ed25519"),
        "ansible_ssh_common_args": (
            f"-o UserKnownHostsFile={lab.path}/ssh/known_hosts "
            "-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
        ),
        "ansible_python_interpreter": "/usr/bin/python3",
        "engine_host": "127.120.0.2",
        "distribution_address": "127.120.0.2",
    }
    assert ask(lab.path, "--host", "lab-2") == answer["_meta"]["hostvars"]["lab-2"]
    assert ask(lab.path, "--host", "stranger") == {}


def test_without_nodes_the_first_one_is_listed(tmp_path: Path) -> None:
    answer = ask(tmp_path / "none", "--list", LAB_ADDRESS_BASE="127.120.9.")
    assert answer["engines"] == {"hosts": ["lab-1"]}
    assert answer["_meta"]["hostvars"]["lab-1"]["ansible_host"] == "127.120.9.1"


def test_a_recorded_address_wins_over_the_environment(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    record(lab, 1, "127.120.7.")
    answer = ask(lab.path, "--host", "lab-1", LAB_ADDRESS_BASE="127.120.9.")
    assert answer["engine_host"] == "127.120.7.1"


def test_it_works_from_any_folder_and_writes_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert ask(state, "--list", cwd=tmp_path) == ask(state, "--list", cwd=REPOSITORY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--list", "--host", "lab-1"]])
def test_questions_that_are_none(arguments: list[str]) -> None:
    done = subprocess.run([str(SCRIPT), *arguments], capture_output=True, check=False)
    assert done.returncode == 2


def test_a_damaged_record_is_an_error_not_an_empty_inventory(tmp_path: Path) -> None:
    path = Lab(tmp_path).node_dir("lab-1") / "node.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    done = subprocess.run(
        [str(SCRIPT), "--list"],
        env={**os.environ, "LAB_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert str(path) in done.stderr


@pytest.mark.parametrize("folder", ["plain", "with blank", "quo'te", "100%d"])
def test_openssh_reads_the_known_hosts_option_back(tmp_path: Path, folder: str) -> None:
    lab = Lab(tmp_path / folder)
    words = shlex.split(shlex.join(ssh_options(lab)))
    done = subprocess.run(
        ["ssh", "-F", "/dev/null", *words, "-G", "host"], capture_output=True, text=True, check=True
    )
    assert f"userknownhostsfile {lab.known_hosts}" in done.stdout.splitlines()


def test_known_hosts_lines_are_replaced_added_and_dropped() -> None:
    one = known_hosts_with("", "[127.0.0.1]:22120", "ssh-ed25519 AAA comment")
    assert one == "[127.0.0.1]:22120 ssh-ed25519 AAA\n"
    two = known_hosts_with(one, "[127.0.0.11]:22120", "ssh-ed25519 BBB")
    assert two == f"{one}[127.0.0.11]:22120 ssh-ed25519 BBB\n"
    changed = known_hosts_with(two, "[127.0.0.1]:22120", "ssh-ed25519 CCC")
    assert sorted(changed.split()) == sorted(two.replace("AAA", "CCC").split())
    assert known_hosts_with(two, "[127.0.0.1]:22120", "") == two.removeprefix(one)
