# SPDX-License-Identifier: Apache-2.0
"""The collection with stand-ins for what acts on a node: which tasks run, with what, and when.

Roles, filters and screens are the real ones. A stand-in notes its parameters and gives the result
that a test has laid down for this call of it. That of engine_switch remembers which launch a node's
configuration names, as the real one reads it, and refuses what expects another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.playbooks.plays import REPOSITORY

_MODULE = """#!/usr/bin/python
import json, pathlib
from ansible.module_utils.basic import AnsibleModule, _load_params
NAME, PLACE = {name!r}, pathlib.Path({place!r})

def main():
    asked = {{k: v for k, v in _load_params().items() if not k.startswith("_ansible")}}
    module = AnsibleModule(dict.fromkeys(asked, {{"type": "raw"}}), supports_check_mode=True)
    calls = PLACE / "calls.jsonl"
    before = [json.loads(line) for line in calls.read_text().splitlines()]
    with calls.open("a") as stream:
        stream.write(json.dumps([NAME, asked]) + "\\n")
    results = json.loads((PLACE / "results.json").read_text())[NAME]
    root = asked.get("root")
    if isinstance(results, dict):
        results = results[root]
        before = [(name, was) for name, was in before if was.get("root") == root]
    number = sum(name == NAME for name, _asked in before)
    result = results[min(number, len(results) - 1)]
    module.exit_json(**(switch(asked, result) if NAME == "engine_switch" else result))

def switch(asked, result):
    place = PLACE / ("configured" + asked["root"].replace("/", "-"))
    now = (place if place.exists() else PLACE / "configured").read_text()
    if now and asked.get("expect", now) != now:
        if asked.get("state") == "stopped":
            return {{"changed": False, "release": "r", "foreign": True}}
        return {{"failed": True, "msg": "somebody else", "touched": False, "foreign": True}}
    if asked.get("launch") and "release" in result:
        place.write_text(asked["launch"])
    return result

if __name__ == "__main__":
    main()
"""
Call = tuple[str, dict[str, Any]]
Results = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Mapping[str, Any]]]


class Standins:
    """A collection tree in which modules are stood in for."""

    def __init__(self, folder: Path, results: Mapping[str, Results], configured: str = "") -> None:
        """Lay down the tree.

        Args:
            folder: For it.
            results: Module to its results, one a call; the last one for all further calls. Or to
                such results for each value of its parameter `root`, by which nodes are told apart.
            configured: The launch that the nodes are configured for; empty where that is not asked.
        """
        self.path = folder / "collections"
        self._place = folder / "stand-ins"
        tree = self.path / "ansible_collections/sm120/sglang"
        tree.mkdir(parents=True)
        for name in ("galaxy.yml", "meta", "roles"):
            (tree / name).symlink_to(REPOSITORY / name)
        for kind in (REPOSITORY / "plugins").iterdir():
            if kind.name not in ("modules", "action"):
                (tree / "plugins").mkdir(exist_ok=True)
                (tree / "plugins" / kind.name).symlink_to(kind)
                continue
            (tree / "plugins" / kind.name).mkdir(parents=True)
            for entry in kind.iterdir():
                if entry.stem not in results:
                    (tree / "plugins" / kind.name / entry.name).symlink_to(entry)
        self._place.mkdir()
        (self._place / "calls.jsonl").touch()
        (self._place / "configured").write_text(configured)
        (self._place / "results.json").write_text(json.dumps(results))
        for name in results:
            text = _MODULE.format(name=name, place=str(self._place))
            (tree / "plugins/modules" / f"{name}.py").write_text(text)

    def calls(self) -> list[Call]:
        """What was called, in order, with which parameters."""
        lines = (self._place / "calls.jsonl").read_text().splitlines()
        return [(name, asked) for name, asked in map(json.loads, lines)]
