# SPDX-License-Identifier: Apache-2.0
"""Controller side of `pass_on`: who takes part, the run, and what is said of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.sm120.sglang.plugins.module_utils import _verified
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import commands, plan, words
from ansible_collections.sm120.sglang.plugins.plugin_utils import _connect
from ansible_collections.sm120.sglang.plugins.plugin_utils._channel import SshNode
from ansible_collections.sm120.sglang.plugins.plugin_utils._node import NodeError
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on import (
    conductor,
    members,
    program,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._pass_on.line import Line
from ansible_collections.sm120.sglang.plugins.plugin_utils._ssh_settings import SshSettingsError

_FILE = {
    "name": {"type": "str", "required": True},
    "sha256": {"type": "str", "required": True},
    "size": {"type": "int", "required": True},
}
_FOLDER = {
    "dest": {"type": "path", "required": True},
    "record": {"type": "path", "default": ""},
    "src": {"type": "path", "default": ""},
    "files": {"type": "list", "elements": "dict", "required": True, "options": _FILE},
}
_NODE = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "default": ""},
    "port": {"type": "int", "default": 22730},
    "network": {"type": "str", "default": "nodes"},
    "takes": {"type": "bool", "default": True},
    "folders": {"type": "list", "elements": "dict", "required": True, "options": _FOLDER},
}
_SPEC: dict[str, dict[str, Any]] = {
    "nodes": {"type": "list", "elements": "dict", "required": True, "options": _NODE},
    "streams": {"type": "int", "default": 2},
    "least": {"type": "int", "default": plan.LEAST_BYTES},
    "limit": {"type": "float", "default": 0.0},
    "controller_limit": {"type": "float", "default": 0.0},
}


class ActionModule(ActionBase):
    """Open a line to each node, let the plan run, close all lines, report."""

    _supports_check_mode = True
    _supports_diff = False
    _requires_connection = False  # it makes its own

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars) or {}
        _validation, given = self.validate_argument_spec(argument_spec=_SPEC)
        hostvars = (task_vars or {})["hostvars"]
        try:
            fleet, files = _members(given["nodes"])
        except _verified.VerifyError as error:
            raise AnsibleActionFail(str(error)) from error
        settings = members.Settings(
            **{key: given[key] for key in ("streams", "least", "limit", "controller_limit")}
        )
        troubles: list[str] = []
        nodes = self._connect_all(fleet, hostvars, troubles)
        try:
            work = conductor.Conductor(
                fleet,
                {name: node.settings for name, node in nodes.items()},
                files,
                settings,
                say=lambda line: Display().display(f"[fleet] {line}"),
                alive=_alive(),
            )
            work.outcome.troubles += troubles
            try:
                self._start(work, fleet, nodes, hostvars)
                lacking = work.look(read=not self._task.check_mode)
                first = members.begin(fleet, lacking, files, settings)
                waves = plan.forecast(first)
                if not self._task.check_mode:
                    work.run(lacking)
            finally:
                work.close()
        finally:
            for node in nodes.values():
                node.close()
        outcome = work.outcome
        result["changed"] = (
            any(lacking.values()) if self._task.check_mode else bool(outcome.brought)
        )
        result["waves"] = [[words.transfer(item, first.pieces) for item in wave] for wave in waves]
        result["resumed"] = dict(outcome.resumed)
        result["troubles"] = outcome.troubles
        result["lines"] = (
            words.planned(waves, first.pieces)
            if self._task.check_mode
            else words.done(outcome.brought, outcome.resumed)
        )
        return result

    def _connect_all(
        self, fleet: dict[str, members.Member], hostvars: Any, troubles: list[str]
    ) -> dict[str, SshNode]:
        # Templated here, one after the other: templating is not made for threads.
        ways = {name: _connect.of_host(hostvars[name], self._play_context) for name in fleet}

        def connect(name: str) -> SshNode | str:
            try:
                return _connect.ssh_node(ways[name], name)
            except (NodeError, SshSettingsError, AnsibleError) as error:
                return f"{name}: takes no part: {error}"

        with ThreadPoolExecutor(max_workers=len(fleet) or 1) as pool:
            found = dict(zip(fleet, pool.map(connect, fleet), strict=True))
        troubles += [node for node in found.values() if isinstance(node, str)]
        return {name: node for name, node in found.items() if isinstance(node, SshNode)}

    def _start(
        self,
        work: conductor.Conductor,
        fleet: dict[str, members.Member],
        nodes: dict[str, SshNode],
        hostvars: Any,
    ) -> None:
        """Start every node's agent."""
        content = program.archive()
        for name, node in nodes.items():
            python = str(hostvars[name].get("ansible_python_interpreter", "/usr/bin/python3"))
            member = fleet[name]
            peers = [
                other.address
                for other in fleet.values()
                if other.address and member.address and other.network == member.network
            ]
            command = commands.unit(
                program.starter(
                    python if python.startswith("/") else "/usr/bin/python3", len(content)
                ),
                [str(Path(folder.dest).parent) for folder in member.folders],
                peers,
            )
            try:
                work.add(Line(name, node.talk(command), content, work.hear), name)
            except NodeError as error:
                work.outcome.trouble(f"{name}: takes no part: {error}")


def _alive() -> Callable[[], bool]:
    """Tells whether the play's own process is still there: this one is in a session of its own."""
    parent = os.getppid()
    return lambda: os.getppid() == parent


def _members(
    nodes: list[dict[str, Any]],
) -> tuple[dict[str, members.Member], dict[str, Path]]:
    """Who takes part, and where the controller has each file."""
    fleet: dict[str, members.Member] = {}
    files: dict[str, Path] = {}
    for node in nodes:
        folders = []
        for folder in node["folders"]:
            # Plain values: what came through variables is tagged.
            plain = [
                {**one, "name": str(one["name"]), "size": int(one["size"])}
                for one in folder["files"]
            ]
            wanted = tuple(_verified.parse_wanted(plain))
            folders.append(members.Folder(folder["dest"], folder["record"], wanted))
            if folder["src"]:
                files.update((entry.sha256, Path(folder["src"], entry.name)) for entry in wanted)
        own = {key: node[key] for key in ("name", "address", "port", "network", "takes")}
        fleet[node["name"]] = members.Member(folders=tuple(folders), **own)
    return fleet, files
