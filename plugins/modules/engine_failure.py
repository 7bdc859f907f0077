#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep what is known of a launch that failed, before it is replaced."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_failure
short_description: Keep what is known of a launch that failed, before it is replaced
description:
  - Copies the log of the failed start, the message and the configuration without secrets to a
    folder of C(/var/lib/sglang/failures) that root alone reads. The ten newest are kept.
  - A journal that does not answer is left after 60 s, and what came of it is kept.
options:
  unit:
    description: The engine's unit.
    type: str
    required: true
  invocation:
    description: systemd's identifier of the failed start; the unit's last one when empty.
    type: str
    default: ""
  launch:
    description: The launch's digest.
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
  message:
    description: What failed and why.
    type: str
    required: true
  by_hand:
    description: Whether the launch is left by hand, and did not fail by a verdict of the gate.
    type: bool
    default: false
  files:
    description: Configuration files to copy.
    type: list
    elements: path
    default: []
  secrets:
    description: The file with the secrets, whose values are taken out of everything kept.
    type: path
    default: /etc/sglang/secrets.yaml
  config:
    description: The configuration folder with the launch records.
    type: path
    default: /etc/sglang
  folder:
    description: The folder of all failures.
    type: path
    default: /var/lib/sglang/failures
attributes:
  check_mode:
    description: Nothing is kept.
    support: full
  diff_mode:
    description: A log has no useful diff.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Keep the failed start's log
  sm120.sglang.engine_failure:
    unit: sglang.service
    launch: 0123456789abcdef
    release: lab-0.5.9-0123456789ab
    message: the engine is dead
"""

RETURN = r"""
folder:
  description: Where it is kept.
  type: str
  returned: always
differences:
  description: >-
    What differs from the launch that served, a phrase each; empty when none has, or this is the
    one.
  type: list
  elements: str
  returned: always
"""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _changes,
    _command,
    _failures,
    _launches,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import redact

_LINES = "20000"
_SECONDS = 60.0


def read_journal(unit: str, invocation: str) -> str:
    """The log of one start, what systemd said about it among it.

    A journal that hangs must not keep the old engine from coming back: what came of it within
    `_SECONDS` is returned, and says so.
    """
    if not invocation:
        show = ["systemctl", "show", unit, "--property=InvocationID", "--value"]
        status, told = _command.run(show, _SECONDS)
        invocation = told.strip() if status == 0 else ""
    chosen = [f"--unit={unit}"]
    if invocation:
        chosen = [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"INVOCATION_ID={invocation}"]
    command = ["journalctl", "--no-pager", "--quiet", "--output=short-precise", "--lines", _LINES]
    _status, text = _command.run([*command, *chosen], _SECONDS)
    return text


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def compare(
    config: Path, launch: str, release: str, files: Mapping[str, str], secrets: Iterable[str]
) -> list[str]:
    """What differs from the launch that served, without secrets.

    Args:
        config: The configuration folder with the launch records.
        launch: Digest of the launch that failed.
        release: Its release.
        files: Name to content of its files.
        secrets: Values that may stand nowhere.

    Returns:
        Phrases; none when no launch has served, its record cannot be read, or it is this one.
    """
    # A damaged record must not keep the old engine from coming back.
    try:
        served = _launches.read(config)[_launches.SERVING]
        if served in ("", launch):
            return []
        record, kept = _launches.load_files(config, served)
    except (_launches.LaunchRecordError, OSError, KeyError, TypeError, ValueError):
        return []
    before = _changes.read({file.stored: file.content for file in kept})
    found = _changes.differences(before, _changes.read(files), (record["release"], release))
    if record["release"] != release:
        found.insert(0, f"release {record['release']} -> {release}")
    hidden = list(secrets)
    return [redact(phrase, hidden) for phrase in found]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "invocation": {"type": "str", "default": ""},
            "launch": {"type": "str", "required": True},
            "release": {"type": "str", "required": True},
            "stack": {"type": "str", "default": ""},
            "message": {"type": "str", "required": True},
            "by_hand": {"type": "bool", "default": False},
            "files": {"type": "list", "elements": "path", "default": []},
            "secrets": {"type": "path", "default": "/etc/sglang/secrets.yaml", "no_log": False},
            "config": {"type": "path", "default": "/etc/sglang"},
            "folder": {"type": "path", "default": str(_failures.FOLDER)},
        },
        supports_check_mode=True,
    )
    asked = module.params
    failure = _failures.Failure(
        asked["launch"],
        asked["release"],
        asked["stack"],
        round(time.time()),
        asked["message"],
        asked["by_hand"],
    )
    place = Path(asked["folder"])
    copies = {Path(path).name: _text(path) for path in asked["files"] if path != asked["secrets"]}
    secrets = _failures.secrets_in(_text(asked["secrets"]))
    differences = compare(Path(asked["config"]), failure.launch, failure.release, copies, secrets)
    if module.check_mode:
        folder = place / _failures.name_of(failure)
        module.exit_json(changed=True, folder=str(folder), differences=differences)
    try:
        folder = _failures.keep(
            place, failure, read_journal(asked["unit"], asked["invocation"]), copies, secrets
        )
    except OSError as error:
        # A full disk must not keep the old engine from coming back.
        module.warn(f"the failed start's log could not be kept: {error}")
        module.exit_json(changed=False, folder="nowhere (see the warning)", differences=differences)
    module.exit_json(changed=True, folder=str(folder), differences=differences)


if __name__ == "__main__":
    main()
