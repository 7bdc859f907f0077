#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Have the node itself put back what served, if a benchmark ends without doing so."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_guard
short_description: Have the node put back what served, if a benchmark is interrupted
description:
  - V(armed) starts a unit on the node that restores the launch O(original) from its record and
    starts it, when the lease of O(seconds) runs out or the machine is started anew. It needs
    neither the controller nor a connection.
  - Arming again renews the lease and adds O(launch) to the benchmark's own launches. Any other
    configuration is somebody else's deployment and is left alone.
  - V(restored) puts back at once what an interrupted benchmark left, and takes the unit away.
options:
  state:
    description: What shall be.
    type: str
    choices: [armed, restored]
    required: true
  original:
    description: Digest of the recorded launch to put back.
    type: str
  launch:
    description: Digest of the launch that the benchmark is about to serve.
    type: str
  seconds:
    description: The lease.
    type: float
    default: 600
  root:
    description: The product's folder.
    type: path
  unit:
    description: The engine's unit.
    type: str
  user:
    description: The engine's user.
    type: str
  config:
    description: The folder of the configuration and of the launch records.
    type: path
    default: /etc/sglang
attributes:
  check_mode:
    description: Tells whether something would be armed or put back.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Have the node put back what serves, unless this is renewed within ten minutes
  sm120.sglang.benchmark_guard:
    state: armed
    original: 0123456789abcdef
    launch: fedcba9876543210
    seconds: 600
    root: /opt/sglang
    unit: sglang.service
    user: sglang

- name: Put back what an interrupted benchmark left
  sm120.sglang.benchmark_guard:
    state: restored
"""

RETURN = r"""
pending:
  description: Whether a benchmark was not finished.
  type: bool
  returned: always
restarted:
  description: Whether the engine was restarted to put back what served.
  type: bool
  returned: always
launch:
  description: The launch that was put back, empty for none.
  type: str
  returned: always
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import guard


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["armed", "restored"], "required": True},
            "original": {"type": "str"},
            "launch": {"type": "str"},
            "seconds": {"type": "float", "default": 600.0},
            "root": {"type": "path"},
            "unit": {"type": "str"},
            "user": {"type": "str"},
            "config": {"type": "path", "default": "/etc/sglang"},
        },
        required_if=[("state", "armed", ("original", "root", "unit", "user"))],
        supports_check_mode=True,
    )
    try:
        result = act(module.params, check=module.check_mode)
    except guard.GuardError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


def act(asked: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """Do what is asked; returns the module's result.

    Raises:
        guard.GuardError: It cannot be done.
    """
    pending = guard.load(guard.STATE)
    result: dict[str, Any] = {
        "changed": asked["state"] == "armed" or pending is not None,
        "pending": pending is not None,
        "restarted": False,
        "launch": pending.original if pending is not None else "",
    }
    if check:
        return result
    if asked["state"] == "restored":
        result["restarted"] = guard.restore(guard.STATE, "")
        return result
    wanted = guard.Pending(
        original=asked["original"],
        launches=(asked["launch"],) if asked["launch"] else (),
        root=asked["root"],
        unit=asked["unit"],
        user=asked["user"],
        config=asked["config"],
        started=round(time.time()),
    )
    guard.arm(guard.STATE, wanted, asked["seconds"])
    return result


if __name__ == "__main__":
    main()
