#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Read everything about a gateway that its role and the deployment decide on, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_facts
short_description: Read a gateway, and what its router sends to, in one round trip
description:
  - Reads the host itself and the running router, not stamps of earlier runs.
  - Changes nothing.
options:
  config:
    description: The folder of the configuration.
    type: path
    default: /etc/sglang-gateway
  state:
    description: The folder in which the gateway remembers who gets requests.
    type: path
    default: /var/lib/sglang-gateway
  root:
    description:
      - The folder of the router's releases. Only the router is read, not the host, when it is not
        given.
    type: path
  releases:
    description: Ids of the releases that may be wanted.
    type: list
    elements: str
    default: []
  unit:
    description: The router's unit.
    type: str
    default: sglang-gateway.service
  user:
    description: The router's user.
    type: str
    default: sglang-gateway
  files:
    description: Configuration files to read digests and modes of.
    type: list
    elements: path
    default: []
  ports:
    description: Ports whose listeners matter.
    type: list
    elements: int
    default: []
  wait:
    description: Seconds to wait for a router that was just started; 0 asks once.
    type: int
    default: 0
attributes:
  check_mode:
    description: The same in check mode.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Ask the gateways which engines they send to
  sm120.sglang.gateway_facts:
  delegate_to: "{{ item }}"
  loop: "{{ groups['gateways'] }}"
  run_once: true
  register: gateways
"""

RETURN = r"""
gateway:
  description:
    - C(workers), node to URL by the gateway's configuration; C(members), node to C(inside),
      C(reason) and C(since); C(listed), the router's own list with C(url), C(healthy) and C(load);
      C(error), why it could not be asked, empty otherwise; C(admin_key), whether the control
      plane's key is whole and root's alone.
  type: dict
  returned: always
system:
  description: System and interpreters.
  type: dict
  returned: with O(root)
releases:
  description: Current, previous, complete and unfinished releases, and what was edited by hand.
  type: dict
  returned: with O(root)
unit:
  description: The unit's state, and the launch that its process was started with.
  type: dict
  returned: with O(root)
files:
  description: Digest, mode and owner of each configuration file.
  type: dict
  returned: with O(root)
ports:
  description: Who listens on the ports.
  type: list
  elements: dict
  returned: with O(root)
user:
  description: The router's user.
  type: dict
  returned: with O(root)
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import config as files
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import router as routers
from ansible_collections.sm120.sglang.plugins.module_utils._node import deployment, service, system

_POLL_SECONDS = 0.25


def read_gateway(config: Path, state: Path) -> dict[str, Any]:
    """What the gateway's router sends to, and what it should.

    Args:
        config: The configuration folder.
        state: The state's folder.

    Returns:
        See the module's `gateway`.
    """
    found: dict[str, Any] = {
        "workers": {},
        "members": files.read_members(state),
        "listed": [],
        "error": "",
        "admin_key": files.admin_key_fits(config),
    }
    try:
        known = files.load(config)
        found["workers"] = dict(known.workers)
        found["listed"] = [asdict(w) for w in routers.Router(known.url, known.admin).workers()]
    except routers.GatewayError as error:
        found["error"] = str(error)
    return found


def read_host(asked: dict[str, Any]) -> dict[str, Any]:
    """What the host is, and what of ours is on it."""
    return {
        "system": system.read_system([], [], []),
        "releases": deployment.read_releases(Path(asked["root"]), asked["releases"]),
        # A router has no parts that it could lose, and no launch is gone back to.
        "unit": {**service.read_unit(asked["unit"]), "titles": []},
        "launches": {"records": {}, "serving": "", "before": ""},
        "files": {path: system.read_file(path) for path in asked["files"]},
        "ports": service.read_ports(asked["ports"]),
        "user": deployment.read_user(asked["user"]),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "path", "default": str(files.FOLDER)},
            "state": {"type": "path", "default": str(files.STATE)},
            "root": {"type": "path"},
            "releases": {"type": "list", "elements": "str", "default": []},
            "unit": {"type": "str", "default": "sglang-gateway.service"},
            "user": {"type": "str", "default": "sglang-gateway"},
            "files": {"type": "list", "elements": "path", "default": []},
            "ports": {"type": "list", "elements": "int", "default": []},
            "wait": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    asked = module.params
    config, state = Path(asked["config"]), Path(asked["state"])
    deadline = time.monotonic() + asked["wait"]
    found = {"gateway": read_gateway(config, state)}
    while found["gateway"]["error"] and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        found = {"gateway": read_gateway(config, state)}
    if asked["root"]:
        found.update(read_host(asked))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
