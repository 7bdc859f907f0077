# SPDX-License-Identifier: Apache-2.0
"""The lookup `resolved`, in a real play: what is settled, from what, and when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[4]
PLAYBOOK = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local"]
VARIABLES = {
    # Each look at `_thing_random` that is not settled gives another value.
    "_thing_random": "{{ 100000000 | random }}",
    "_thing_pair": "{{ [_thing_random, _thing_random] }}",
    "_thing_size": "{{ size * 2 }}",
    "_thing_wrong": "{{ ['no size'] if size == 0 else [] }}",
    "_thing_share": "{{ 10 // size }}",
    "_thing_text": "{{ '{{ size }}' }}",
}


def play(place: Path, *tasks: dict[str, Any], **variables: Any) -> dict[str, Any]:
    """Run tasks on this machine; what they leave in `found` comes back."""
    (place / "roles/thing/vars").mkdir(parents=True)
    (place / "roles/thing/vars/main.yml").write_text(yaml.safe_dump(VARIABLES))
    # Role variables, as an imported role has them.
    steps = [
        {"ansible.builtin.include_vars": {"file": "roles/thing/vars/main.yml"}},
        *tasks,
        {
            "ansible.builtin.copy": {
                "dest": str(place / "found"),
                "content": "{{ found | to_json }}",
            }
        },
    ]
    written = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": steps}]
    (place / "play.yml").write_text(yaml.safe_dump(written))
    done = subprocess.run(
        [*PLAYBOOK, str(place / "play.yml")],
        env={**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found: dict[str, Any] = json.loads((place / "found").read_text())
    return found


def settle(place: Path, *names: str, stop: str = "") -> dict[str, Any]:
    words = ", ".join(repr(name) for name in names)
    options = f"roles=['thing'], folder='{place}/roles', stop={[stop] if stop else []}"
    return {
        "ansible.builtin.set_fact": None,
        "args": f"{{{{ lookup('sm120.sglang.resolved', {words}, {options}) }}}}",
    }


def keep(**found: str) -> dict[str, Any]:
    return {"ansible.builtin.set_fact": {"found": found}}


def test_a_variable_is_settled_once_for_all_that_follow(tmp_path: Path) -> None:
    found = play(
        tmp_path,
        settle(tmp_path, "_thing_random", "_thing_pair"),
        keep(one="{{ _thing_random }}", pair="{{ _thing_pair }}"),
    )
    assert found["pair"] == [found["one"]] * 2


def test_it_starts_from_the_roles_variables_each_time(tmp_path: Path) -> None:
    found = play(
        tmp_path,
        settle(tmp_path, "_thing_size"),
        {"ansible.builtin.set_fact": {"size": 21, "before": "{{ _thing_size }}"}},
        settle(tmp_path, "_thing_size"),
        keep(before="{{ before }}", after="{{ _thing_size }}"),
        size=1,
    )
    assert found == {"before": 2, "after": 42}


def test_what_a_value_holds_is_not_resolved_again(tmp_path: Path) -> None:
    found = play(tmp_path, settle(tmp_path, "_thing_text"), keep(text="{{ _thing_text }}"), size=1)
    assert found == {"text": "{{ size }}"}


def test_a_refusal_ends_the_look_before_what_it_would_break(tmp_path: Path) -> None:
    found = play(
        tmp_path,
        settle(tmp_path, "_thing_wrong", "_thing_share", stop="_thing_wrong"),
        keep(wrong="{{ _thing_wrong }}"),
        size=0,
    )
    assert found == {"wrong": ["no size"]}


@pytest.mark.parametrize(
    ("name", "said"),
    [("_thing_none", "_thing_none: no such derived variable"), ("_thing_share", "division")],
)
def test_what_cannot_be_resolved_is_said(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        play(tmp_path, settle(tmp_path, name), keep(), size=0)
