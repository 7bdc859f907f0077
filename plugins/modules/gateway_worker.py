#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Take a node out of a gateway's router, or put it in."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_worker
short_description: Take a node out of a router before a switch, put it in after the gate
description:
  - Runs on the gateway and asks the router there, by its control plane's own key.
  - The gateway remembers who is out and why. A router that starts again sends nothing to them, and
    the next deployment puts in whoever has proved itself.
options:
  node:
    description: The node, as the inventory names it. Either this or O(url).
    type: str
  url:
    description: A worker that is nobody's in the inventory, with O(state=absent).
    type: str
  state:
    description:
      - V(out) sends nothing more to the node and lets its running requests end. V(in) sends to it
        again. V(absent) forgets a node that the inventory has no more, or a worker by its O(url).
    type: str
    choices: [in, out, absent]
    required: true
  reason:
    description: Why the node is out, for the next plan and the status.
    type: str
    default: ""
  timeout:
    description:
      - Seconds. For V(out) the time that running requests get; 0 does not wait for them. For V(in)
        the time that the router gets to find the engine healthy.
    type: int
    default: 60
  config:
    description: The folder of the gateway's configuration.
    type: path
    default: /etc/sglang-gateway
  memory:
    description: The folder in which the gateway remembers who gets requests.
    type: path
    default: /var/lib/sglang-gateway
attributes:
  check_mode:
    description: Says whether something would change.
    support: full
  diff_mode:
    description: Its state is one word.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Take the node out, and let its requests end
  sm120.sglang.gateway_worker:
    node: "{{ inventory_hostname }}"
    state: out
    reason: its engine is being switched
    timeout: 120
  delegate_to: gateway1
"""

RETURN = r"""
running:
  description: Requests that the engine still had when the time was over; null where it did not say.
  type: int
  returned: when taken out with a timeout
seconds:
  description: How long it took.
  type: float
  returned: when taken out
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import config as files
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import router as routers
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import work


def act(asked: dict[str, Any], host: work.Host) -> dict[str, Any]:
    """Do what is asked.

    Args:
        asked: The module's parameters.
        host: The gateway.

    Returns:
        The module's result.

    Raises:
        routers.GatewayError: It cannot be done.
    """
    if asked["url"]:
        return {"changed": work.drop(host.router, asked["url"])}
    if asked["state"] == "absent":
        return {"changed": work.forget(host, asked["node"])}
    if asked["state"] == "in":
        return {"changed": work.join(host, asked["node"], asked["timeout"])}
    left = work.leave(host, asked["node"], asked["reason"], asked["timeout"])
    result: dict[str, Any] = {"changed": left.changed, "seconds": round(left.seconds, 1)}
    if asked["timeout"]:
        result["running"] = left.running
    return result


def foresee(asked: dict[str, Any], host: work.Host) -> bool:
    """Whether `act` would change something."""
    url = asked["url"] or host.config.workers.get(asked["node"], "")
    listed = bool(url) and host.router.find(url) is not None
    if asked["url"]:
        return listed
    member = files.read_members(host.state).get(asked["node"])
    if asked["state"] == "absent":
        return member is not None
    inside = asked["state"] == "in"
    return listed != inside or member is None or member["inside"] != inside


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str"},
            "url": {"type": "str"},
            "state": {"type": "str", "choices": ["in", "out", "absent"], "required": True},
            "reason": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 60},
            "config": {"type": "path", "default": str(files.FOLDER)},
            "memory": {"type": "path", "default": str(files.STATE)},
        },
        required_one_of=[["node", "url"]],
        mutually_exclusive=[["node", "url"]],
        supports_check_mode=True,
    )
    asked = module.params
    if asked["url"] and asked["state"] != "absent":
        module.fail_json(msg="url goes with state absent alone; name the node")
    try:
        known = files.load(Path(asked["config"]))
        router = routers.Router(known.url, known.admin)
        host = work.Host(known, Path(asked["memory"]), router)
        if module.check_mode:
            module.exit_json(changed=foresee(asked, host))
        module.exit_json(**act(asked, host))
    except routers.GatewayError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
