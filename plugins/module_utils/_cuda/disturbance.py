# SPDX-License-Identifier: Apache-2.0
"""Decide which changes of the CUDA stack take an engine out of service, and what follows for it.

A driver is replaced as a whole: programs that run keep the old libraries, and every new one fails
until the kernel module is the new one too. A reboot ends whatever runs. Locks, repositories,
compilers and files that wait for a reboot disturb nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._cuda import files

# What a boot alone reads: where a reboot is allowed, the role reboots for it.
_AT_BOOT = {files.OPTIONS: "module options", files.GRUB: "kernel arguments"}


def disturbing(plan: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What of a plan disturbs an engine that runs on the node.

    Args:
        plan: What `decide.plan` gave.
        wanted: The role's wish, as for `decide.plan`.

    Returns:
        Phrases such as "driver: 580.95.05 -> newest of branch 590"; none for a plan that is refused
        as a whole, since nothing of it is done.
    """
    if plan["problems"] or wanted["driver"] != "manage":
        return []
    reboots = bool(wanted["allow_reboot"])
    # An interrupted dpkg may be one in the middle of the driver.
    items = {"driver", "dpkg"} if reboots else {"driver"} if plan["driver"] is not None else set()
    told = [
        f"{entry['item']}: {entry['reason']}"
        for entry in plan["differences"]
        if entry["item"] in items
    ]
    if reboots:
        changed = [file["path"] for file in plan["files"]]
        told += [f"{_AT_BOOT[path]}: need a reboot" for path in changed if path in _AT_BOOT]
    return told


def turn_line(told: Sequence[str], serving: bool, serial: object) -> list[str]:
    """What the plan of a node says about the changes that disturb it.

    Args:
        told: What `disturbing` gave.
        serving: Whether an engine runs on the node.
        serial: `deploy_serial`.

    Returns:
        At most one sentence.
    """
    if not told or not serving:
        return []
    return [
        (
            f"the engine goes down for its host ({'; '.join(told)}): in turn with the others "
            f"(deploy_serial {serial}), before anything else is done, and what serves has to prove "
            "itself again"
        )
    ]


def obstacles(node: Mapping[str, Any], allow_restart: bool) -> list[str]:
    """Why the host must not be changed under the engine that runs on it.

    Args:
        node: The reading.
        allow_restart: `engine_allow_restart`.

    Returns:
        Sentences, each with its remedy. What never passed its gate could not be told from what
        came back broken, and what is not whole would not start again.
    """
    launch = node["unit"]["launch"]
    record = node["launches"]["records"].get(launch)
    found = []
    if not allow_restart:
        found.append(
            "the engine serves and would go down for it. Run again with "
            "-e '{\"engine_allow_restart\": true}' when it may"
        )
    if record is None:
        found.append(
            f"what runs (launch {launch or 'unknown'}) never passed its gate here, so nobody could "
            "tell whether it comes back as it was. Have it proved first with --skip-tags "
            "cuda_stack, or stop it with playbooks/stop.yml"
        )
    elif record["release"] not in node["releases"]["complete"]:
        found.append(
            f"release {record['release']}, which serves, is not whole on the node and would not "
            "start again. Have it built first with --skip-tags cuda_stack"
        )
    return found


def runs_on(before: Mapping[str, Any], now: Mapping[str, Any], broke: bool) -> bool:
    """Whether a change that failed has left the engine alone.

    Args:
        before: The reading before the change.
        now: The one after it.
        broke: Whether the change failed. One that was made has to be proved in any case.
    """
    then, unit = before["unit"], now["unit"]
    same = unit["invocation_id"] == then["invocation_id"]
    return broke and same and unit["active_state"] == "active"
