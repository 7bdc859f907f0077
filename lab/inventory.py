# SPDX-License-Identifier: Apache-2.0
"""The lab's nodes as an Ansible inventory."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from lab.ssh import ssh_options
from lab.state import SSH_PORT, SSH_USER, Lab, address_base, node_name

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP = "engines"
# How many of the lab's last nodes are gateways instead of engines.
GATEWAYS = "LAB_GATEWAYS"
GATEWAY_GROUP = "gateways"


def addresses(lab: Lab) -> list[tuple[str, str, int]]:
    """Nodes to list.

    Args:
        lab: which lab.

    Returns:
        (name, address, port) of every recorded node, running or not; with none recorded, the
        node that `up` would make: a play then says that it is unreachable instead of `no hosts`.
    """
    recorded = [(node.name, node.address, node.port) for node in lab.nodes_recorded()]
    return recorded or [(node_name(1), f"{address_base()}1", SSH_PORT)]


def host_variables(lab: Lab, address: str, port: int) -> dict[str, Any]:
    """Variables of one node.

    Args:
        lab: which lab.
        address: its address.
        port: its SSH port.

    Returns:
        Connection variables, and the address of its engine and for the other nodes.
    """
    return {
        "ansible_host": address,
        "ansible_port": port,
        "ansible_user": SSH_USER,
        "ansible_ssh_private_key_file": str(lab.key),
        # Ansible splits this text as a shell does.
        "ansible_ssh_common_args": shlex.join(ssh_options(lab)),
        "ansible_python_interpreter": "/usr/bin/python3",
        "engine_host": address,
        # Nodes pass wheels and models on among themselves, where there is more than one.
        "distribution_address": address,
    }


def listing(lab: Lab, nodes: Iterable[tuple[str, str, int]]) -> dict[str, Any]:
    """What an inventory script prints for `--list`.

    Args:
        lab: which lab.
        nodes: (name, address, port) of each node.

    Returns:
        The groups and, in `_meta`, all host variables.
    """
    variables = {name: host_variables(lab, address, port) for name, address, port in nodes}
    names = list(variables)
    first = len(names) - int(os.environ.get(GATEWAYS) or 0)
    found: dict[str, Any] = {
        "_meta": {"hostvars": variables},
        "all": {"children": [GROUP]},
        GROUP: {"hosts": names[:first]},
    }
    if names[first:]:
        found["all"]["children"].append(GATEWAY_GROUP)
        found[GATEWAY_GROUP] = {"hosts": names[first:]}
    for name in names[first:]:
        variables[name]["gateway_host"] = variables[name].pop("engine_host")
    return found
