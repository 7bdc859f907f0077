#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Switch the engine to another launch: release, configuration, restart, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_switch
short_description: Switch the engine to another launch, or back to one that served
description:
  - Writes what needs space first, then stops the engine, waits until its processes are gone and
    their GPU memory is free, replaces the configuration, points C(current) to the release by one
    rename, and starts. What happens while nothing serves takes milliseconds on the node.
  - A stop finishes running requests, as far as the unit's C(TimeoutStopSec) allows.
  - Processes that the unit left behind are ended. Others that hold GPU memory are named, and
    left alone.
  - Killed at any point, it leaves a node that the next deployment understands and finishes.
options:
  root:
    description: The product's folder.
    type: path
    required: true
  unit:
    description: The engine's unit.
    type: str
    required: true
  user:
    description: The engine's user.
    type: str
    required: true
  config:
    description: The folder of the configuration and of the launch records.
    type: path
    default: /etc/sglang
  release:
    description: The release to run. Either this with O(files), or O(launch).
    type: str
  files:
    description: Configuration files.
    type: list
    elements: dict
    default: []
    suboptions: &file
      path:
        description: Where it belongs.
        type: path
        required: true
      content:
        description: Its content.
        type: str
        required: true
      mode:
        description: Its mode, four octal digits.
        type: str
        required: true
      owner:
        description: Its owner.
        type: str
        required: true
      group:
        description: Its group.
        type: str
        required: true
  secret_files:
    description: Configuration files whose content is never shown; like O(files).
    type: list
    elements: dict
    default: []
    suboptions: *file
  owned:
    description: Every path that O(files) may ever name; what is not among them now is removed.
    type: list
    elements: path
    default: []
  aside:
    description: Drop-ins and units of others that systemd shall ignore; renamed, not removed.
    type: list
    elements: path
    default: []
  launch:
    description: Restore this recorded launch, with the files that it had.
    type: str
  expect:
    description:
      - Switch only while the configuration on the node is still this launch's. Keeps a rollback
        from undoing what somebody else has deployed meanwhile.
    type: str
  planned:
    description:
      - systemd's identifier of the start that the plan was made for, empty where nothing ran. When
        another run has started the same launch since, it is not started once more.
    type: str
  state:
    description:
      - V(switched) runs what is named. V(stopped) stops the engine with everything that it left
        behind, and changes nothing else; with O(expect) only while the configuration is that
        launch's.
    type: str
    choices: [switched, stopped]
    default: switched
  restart:
    description: Whether the engine is stopped and started; without, only files are written.
    type: bool
    default: true
  drain:
    description: Whether running requests are finished first; without, processes are killed.
    type: bool
    default: true
  enabled:
    description: Whether the unit starts at boot; left as it is when not given.
    type: bool
  memory_timeout:
    description:
      - Seconds to wait for the old engine's GPU memory. If then a process of it still holds some,
        or more than a tenth of a card is missing, nothing is started; less is a warning.
    type: int
    default: 60
  guarded:
    description:
      - Whether this is a benchmark's own switch, which M(sm120.sglang.benchmark_guard) undoes. Any
        other switch or stop ends an interrupted benchmark.
    type: bool
    default: false
attributes:
  check_mode:
    description: Shows what would be written and switched.
    support: full
  diff_mode:
    description:
      - Shows files and links; of O(secret_files) only whether they differ.
      - In O(files), values of variables with a secret's name, such as C(HF_TOKEN), are hidden.
    support: full
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Go back to a launch that served
  sm120.sglang.engine_switch:
    root: /opt/sglang
    unit: sglang.service
    user: sglang
    launch: 0123456789abcdef
"""

RETURN = r"""
release:
  description: The release that is current now.
  type: str
  returned: always
previous:
  description: The release that was current before, empty without one.
  type: str
  returned: always
stopping_seconds:
  description: Seconds from the request to stop until the last process was gone; running requests
    were answered in that time.
  type: float
  returned: always
between_seconds:
  description: Seconds from there until the new engine was started.
  type: float
  returned: always
ended:
  description: Processes that the unit had left behind and that were ended.
  type: list
  elements: str
  returned: always
touched:
  description: Whether the engine was stopped before the switch failed.
  type: bool
  returned: on failure
memory_lost:
  description:
    - Whether the old engine did not give its GPU memory back, so that no launch can start on this
      node; C(msg) then says who holds it. A switch fails for it, a stop does not.
  type: bool
  returned: with O(state=stopped), and on failure of a switch
foreign:
  description: Whether nothing was done because the configuration is no longer that of O(expect).
  type: bool
  returned: always
"""

import traceback
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _launches,
    _release,
    _switch,
    _unforeseen,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import guard
from ansible_collections.sm120.sglang.plugins.module_utils._launches import File
from ansible_collections.sm120.sglang.plugins.module_utils._node import overrides, service


def _file_spec(secret: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        name: {"type": "str", "required": True} for name in ("content", "mode", "owner", "group")
    }
    options["path"] = {"type": "path", "required": True}
    options["content"]["no_log"] = secret
    return {"type": "list", "elements": "dict", "default": [], "options": options}


SPEC: dict[str, Any] = {
    "root": {"type": "path", "required": True},
    "unit": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "config": {"type": "path", "default": "/etc/sglang"},
    "release": {"type": "str"},
    "files": _file_spec(secret=False),
    "secret_files": _file_spec(secret=True),
    "owned": {"type": "list", "elements": "path", "default": []},
    "aside": {"type": "list", "elements": "path", "default": []},
    "launch": {"type": "str"},
    "expect": {"type": "str"},
    "planned": {"type": "str"},
    "state": {"type": "str", "choices": ["switched", "stopped"], "default": "switched"},
    "restart": {"type": "bool", "default": True},
    "drain": {"type": "bool", "default": True},
    "enabled": {"type": "bool"},
    "memory_timeout": {"type": "int", "default": 60},
    "guarded": {"type": "bool", "default": False},
}


def wanted_of(asked: dict[str, Any], config: Path) -> tuple[_switch.Wanted, list[str]]:
    """What shall run, and the paths whose content is not shown.

    Raises:
        _launches.LaunchRecordError: The launch is not recorded.
    """
    if asked["launch"]:
        record, files = _launches.load_files(config, asked["launch"])
        secret = [entry.path for entry in files if entry.mode == "0600"]
        release = str(record["release"])
    else:
        files = [File(**entry) for entry in asked["files"] + asked["secret_files"]]
        secret = [entry["path"] for entry in asked["secret_files"]]
        release = asked["release"]
    absent = set(asked["owned"]) - {entry.path for entry in files}
    wanted = _switch.Wanted(release, tuple(files), tuple(sorted(absent)), tuple(asked["aside"]))
    return wanted, secret


def other_changes(root: Path, config: Path, wanted: _switch.Wanted) -> list[dict[str, str]]:
    """Ansible's diff of links, and of what is set aside."""
    now = _release.linked(root, "current") or ""
    found = []
    if now != wanted.release:
        links = {"before": f"current -> {now or 'nothing'}\n", "after": ""}
        found.append({**links, "after": f"current -> {wanted.release}\n"})
    else:
        back = _switch.goes_back_to(root, config, wanted.release)
        wrong = _release.wrong_previous(root, back)
        if wrong:
            links = {"before": f"previous -> {wrong}\n", "after": ""}
            found.append({**links, "after": f"previous -> {back or 'nothing'}\n"})
    return found + [
        {"before": f"{path}\n", "after": f"{path}{overrides.ASIDE}\n"} for path in wanted.aside
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=SPEC,
        required_if=[("state", "switched", ("release", "launch"), True)],
        mutually_exclusive=[["release", "launch"], ["files", "launch"]],
        supports_check_mode=True,
    )
    asked = module.params
    root, config = Path(asked["root"]), Path(asked["config"])
    node = _switch.Node(root, asked["unit"], asked["user"], asked["memory_timeout"])
    if asked["state"] == "stopped":
        module.exit_json(**stop(module, node, config))
    try:
        wanted, secret = wanted_of(asked, config)
    except _launches.LaunchRecordError as error:
        module.fail_json(msg=str(error), touched=False, foreign=False)
    old = _release.linked(root, "current") or ""
    diffs = _switch.diff(_switch.different(wanted.files), secret)
    diffs += other_changes(root, config, wanted)
    reread = service.unread(node.unit)
    enable = asked["enabled"] is not None and asked["enabled"] != service.enabled(node.unit)
    stale = [path for path in wanted.absent if Path(path).exists()]
    result: dict[str, Any] = {
        "changed": bool(diffs or stale or reread or enable or asked["restart"]),
        "release": wanted.release,
        "previous": old,
        "diff": diffs,
        "ended": [],
        "stopping_seconds": 0.0,
        "between_seconds": 0.0,
        "foreign": False,
    }
    if module.check_mode:
        module.exit_json(**result)
    try:
        with _release.build_lock(root, "switching"):
            if foreign(asked, config):
                module.fail_json(
                    msg=f"the configuration on the node is no longer that of launch "
                    f"{asked['expect']}: somebody else has deployed meanwhile, and nothing was "
                    "undone",
                    touched=False,
                    foreign=True,
                )
            restart = asked["restart"]
            if restart and asked["planned"] is not None:
                restart = not _switch.overtaken(node, wanted, asked["planned"])
            result["changed"] = bool(diffs or stale or reread or enable or restart)
            report = _switch.switch(node, wanted, config, restart=restart, drain=asked["drain"])
            if enable:
                _switch.enable(node.unit, asked["enabled"])
            if not asked["guarded"]:
                result["changed"] |= guard.disarm(guard.STATE)
    except _switch.SwitchError as error:
        module.fail_json(
            msg=str(error), touched=error.touched, memory_lost=error.memory_lost, foreign=False
        )
    except (_release.ReleaseError, guard.GuardError) as error:
        module.fail_json(msg=str(error), touched=False, foreign=False)
    except Exception as error:
        module.fail_json(
            msg=_unforeseen.sentence("the switch", error),
            touched=not service.running(node.unit),
            foreign=False,
            exception=traceback.format_exc(),
        )
    for warning in report.warnings:
        module.warn(warning)
    result["ended"] = report.ended
    result["stopping_seconds"] = round(report.stopping, 3)
    result["between_seconds"] = round(report.between, 3)
    module.exit_json(**result)


def stop(module: AnsibleModule, node: _switch.Node, config: Path) -> dict[str, Any]:
    """Stop the engine; returns the module's result."""
    current = _release.linked(node.root, "current") or ""
    result: dict[str, Any] = {
        "changed": False,
        "release": current,
        "previous": current,
        "ended": [],
        "stopping_seconds": 0.0,
        "between_seconds": 0.0,
        "memory_lost": False,
        "foreign": foreign(module.params, config),
    }
    if result["foreign"]:
        return result
    result["changed"] = service.running(node.unit)
    if not module.check_mode:
        try:
            # Else an interrupted benchmark's guard would start it again.
            guard.disarm(guard.STATE)
            report = _switch.stop(node, drain=module.params["drain"])
        except _switch.SwitchError as error:
            module.fail_json(msg=str(error), touched=True, foreign=False)
        except guard.GuardError as error:
            module.fail_json(msg=str(error), touched=False, foreign=False)
        for warning in report.warnings:
            module.warn(warning)
        result["changed"] |= bool(report.ended)
        result["ended"] = report.ended
        result["stopping_seconds"] = round(report.stopping, 3)
        if report.lost:
            result.update(memory_lost=True, msg=report.memory_refusal())
    return result


def foreign(asked: dict[str, Any], config: Path) -> bool:
    """Whether the configuration on the node is another launch's than the expected one."""
    if not asked["expect"]:
        return False
    try:
        text = (config / _launches.ENVIRONMENT).read_text(encoding="utf-8")
    except OSError:
        return True
    return bool(_launches.launch_of(text) != asked["expect"])


if __name__ == "__main__":
    main()
