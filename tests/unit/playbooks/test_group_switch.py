# SPDX-License-Identifier: Apache-2.0
"""When the nodes of one engine start the launch that a deployment brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.plays import run
from tests.unit.playbooks.standins import Standins

LAUNCH = "a" * 16
STOPPED = {"changed": True, "release": "r1", "foreign": False, "memory_lost": False}
HELD = {**STOPPED, "memory_lost": True, "msg": "GPU 0: pid 9 holds 4 MiB"}


def of(rank: int) -> dict[str, Any]:
    """What is known of a node of the engine before the switch."""
    return {
        "_engine_launch": LAUNCH,
        "_engine_restart_reasons": ["its launch"],
        "_engine_product": "/nonexistent",
        "_engine_files": [],
        "_engine_file_paths": [],
        "_engine_group": {
            "name": "pair",
            "members": ["a", "b"],
            "rank": rank,
            "size": 2,
            "head": "a",
        },
        "_preflight_release": "r2",
        "_preflight_node": {"unit": {"invocation_id": "before", "overrides": []}},
        "engine_release_root": "/nonexistent",
        "engine_user": "nobody",
        "engine_drop_ins": {},
        "engine_enabled": True,
    }


@pytest.mark.parametrize("memory", [STOPPED, HELD], ids=["free", "held"])
def test_nothing_starts_while_gpu_memory_is_held_on_one_of_them(
    tmp_path: Path, memory: dict[str, Any]
) -> None:
    collection = Standins(tmp_path, {"engine_switch": [memory, STOPPED]})
    role = {"name": "sm120.sglang.engine", "tasks_from": "run_group.yml"}
    play = {
        "hosts": "engines",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": {**role, "rolespec_validate": False}}],
    }
    done = run(tmp_path, {"a": of(0), "b": of(1)}, [play], collections=collection.path)
    switched = [asked.get("release") for _name, asked in collection.calls()]
    if memory is STOPPED:
        assert done.status == 0, done.output
        assert switched == [None, None, "r2", "r2"]
        return
    assert done.status == 2, done.output
    assert switched == [None, None], done.output
    said = "a: GPU 0: pid 9 holds 4 MiB Nothing of the engine pair was started."
    assert done.output.replace("\\n", " ").count(said) == 2, done.output
