#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep a launch that passed its gate, to be able to go back to it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_record
short_description: Keep a launch that passed its gate, to be able to go back to it
description:
  - Copies the configuration files as they are on the node, with the release and what the gate
    needs to judge it again, into C(launches/LAUNCH) below O(config), for root alone.
  - Points C(serving) to it; the launch that served before becomes C(before).
options:
  config:
    description: The folder of the configuration and of the launch records.
    type: path
    default: /etc/sglang
  launch:
    description: The launch's digest. The C(engine.env) on the node must be this launch's.
    type: str
    required: true
  release:
    description: The release's id.
    type: str
    required: true
  stack:
    description: The stack's name.
    type: str
    default: ""
  files:
    description: The configuration files, by path.
    type: list
    elements: path
    required: true
  ready_seconds:
    description: Seconds from the unit's start to ready; 0 when this start was not watched.
    type: float
    default: 0
  accept_length:
    description: As the gate measured it.
    type: float
  gate:
    description: Parameters of M(sm120.sglang.engine_gate), without the API key.
    type: dict
    default: {}
  answer:
    description: What the engine answered to the gate's known question.
    type: str
    default: ""
  rolled_back_from:
    description: The launch that was left by hand; the next plan says so.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Reports whether the launch would be new.
    support: full
  diff_mode:
    description: Shows the links.
    support: full
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Keep what proved itself
  sm120.sglang.launch_record:
    launch: 0123456789abcdef
    release: lab-0.5.9-0123456789ab
    files: [/etc/systemd/system/sglang.service, /etc/sglang/engine.env]
"""

RETURN = r"""
before:
  description: The launch to go back to, empty without one.
  type: str
  returned: always
"""

import grp
import pwd
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _launches, _os_errors


def read_file(path: str) -> _launches.File | None:
    """A configuration file as it is now, None without one."""
    place = Path(path)
    try:
        status, content = place.stat(), place.read_text(encoding="utf-8")
    except OSError:
        return None
    return _launches.File(
        path,
        f"{status.st_mode & 0o7777:04o}",
        pwd.getpwuid(status.st_uid).pw_name,
        grp.getgrgid(status.st_gid).gr_name,
        content,
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "path", "default": "/etc/sglang"},
            "launch": {"type": "str", "required": True},
            "release": {"type": "str", "required": True},
            "stack": {"type": "str", "default": ""},
            "files": {"type": "list", "elements": "path", "required": True},
            "ready_seconds": {"type": "float", "default": 0.0},
            "accept_length": {"type": "float"},
            "gate": {"type": "dict", "default": {}},
            "answer": {"type": "str", "default": ""},
            "rolled_back_from": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    asked = module.params
    config, launch = Path(asked["config"]), asked["launch"]
    if module.check_mode:
        module.exit_json(**announced(_launches.read(config), launch))
    try:
        with _launches.changing(config):
            result = keep(asked, config, launch)
    except OSError as error:
        told = _os_errors.explain(error, config)
        module.fail_json(msg=f"the launch serves, but cannot be gone back to: {told}")
    except _launches.LaunchRecordError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


def announced(known: dict[str, Any], launch: str) -> dict[str, Any]:
    """The module's result as far as the links go; `known` is what `_launches.read` returned."""
    old = known[_launches.SERVING]
    return {
        "changed": old != launch,
        "before": old if old != launch else known[_launches.BEFORE],
        "diff": {"before": f"serving -> {old or 'nothing'}\n", "after": f"serving -> {launch}\n"},
    }


def keep(asked: dict[str, Any], config: Path, launch: str) -> dict[str, Any]:
    """Write the record; returns the module's result.

    Raises:
        _launches.LaunchRecordError: The configuration on the node is another launch's.
        OSError: It cannot be written.
    """
    known = _launches.read(config)
    result = announced(known, launch)
    files = [entry for entry in map(read_file, asked["files"]) if entry is not None]
    environment = next((f for f in files if f.stored == _launches.ENVIRONMENT), None)
    if environment is None or _launches.launch_of(environment.content) != launch:
        raise _launches.LaunchRecordError(
            f"the configuration on the node is not that of launch {launch}: somebody else has "
            "deployed meanwhile; run again"
        )
    record = _launches.Launch(
        launch=launch,
        release=asked["release"],
        stack=asked["stack"],
        gated_at=round(time.time()),
        ready_seconds=asked["ready_seconds"]
        or known["records"].get(launch, {}).get("ready_seconds"),
        accept_length=asked["accept_length"],
        gate=asked["gate"],
        answer=asked["answer"],
    )
    result["changed"] |= _launches.save(config, record, files)
    result["changed"] |= _launches.mark_serving(config, launch)
    if left := asked["rolled_back_from"]:
        _launches.note_rollback(config, left["launch"], left["release"], record.gated_at)
    else:
        _launches.forget_rollback(config)
    return result


if __name__ == "__main__":
    main()
