# SPDX-License-Identifier: Apache-2.0
"""Filters: engines over several nodes, for use in roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils import _launch
from ansible_collections.sm120.sglang.plugins.module_utils._group import launch, membership, results
from ansible_collections.sm120.sglang.plugins.module_utils._group.membership import Group

VARIABLE = "engine_group"
ADDRESS = "engine_group_address"
MEMBER = "_preflight_member"


def engine_group(host: str, name: str, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The engine that a node belongs to (`membership.group_of`).

    Args:
        host: The node.
        name: Its `engine_group`.
        groups: Ansible's `groups`.

    Returns:
        `name` (empty for an engine on one node), `members`, `rank`, `size`, `head`.
    """
    # That it is no text is told by `engine_group_problems`.
    group = membership.group_of(host, name if isinstance(name, str) else "", groups)
    return {
        "name": group.name,
        "members": list(group.members),
        "rank": group.rank,
        "size": group.size,
        "head": group.head,
    }


def _group(found: Mapping[str, Any]) -> Group:
    return Group(found["name"], tuple(found["members"]), int(found["rank"]))


def _named(hosts: Iterable[str], hostvars: Mapping[str, Any]) -> dict[str, str]:
    return {host: str(hostvars[host].get(VARIABLE) or "") for host in hosts}


def engine_units(
    hosts: Sequence[str], hostvars: Mapping[str, Any], groups: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Nodes by engine (`membership.units`), the head of each first.

    Args:
        hosts: Nodes, in the inventory's order.
        hostvars: Ansible's `hostvars`.
        groups: Ansible's `groups`.
    """
    return [list(unit) for unit in membership.units(hosts, _named(hosts, hostvars), groups)]


def engine_group_problems(
    host: str,
    name: str,
    hostvars: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]],
    here: Iterable[str],
) -> list[str]:
    """What is wrong with the declaration of a node's engine (`membership.problems`).

    Args:
        host: The node.
        name: Its `engine_group`.
        hostvars: Ansible's `hostvars`.
        groups: Ansible's `groups`.
        here: The nodes of this run.
    """
    if not name:
        return []
    if not isinstance(name, str):
        return [f"engine_group: {name} is not the name of a group. Remedy: a text"]
    return membership.problems(
        host, {**_named(groups.get(name, ()), hostvars), host: name}, groups, here
    )


def group_size_problems(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """`membership.size_problems`.

    Args:
        found: What `engine_group` gave.
        wanted: As there; `arguments` in either spelling.
    """
    try:
        arguments = _launch.dash_names(wanted["arguments"])
        return membership.size_problems(_group(found), {**wanted, "arguments": arguments})
    except _launch.LaunchError as error:
        raise AnsibleFilterError(str(error)) from None  # its own message is whole
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"tp-size, pp-size or a port is not a number: {error}") from None


def _addresses(group: Group, hostvars: Mapping[str, Any]) -> list[str]:
    """By which address each node is reached by the others, in the order of the ranks."""
    return [
        str(hostvars[member].get(ADDRESS) or hostvars[member].get("ansible_host") or member)
        for member in group.members
    ]


def group_arguments(
    found: Mapping[str, Any], hostvars: Mapping[str, Any], port: int
) -> dict[str, Any]:
    """`launch.arguments` for what `engine_group` gave.

    Args:
        found: What `engine_group` gave.
        hostvars: Ansible's `hostvars`.
        port: Of the rendezvous.
    """
    group = _group(found)
    if group.size < 2:
        return {}
    return launch.arguments(group, _addresses(group, hostvars)[0], int(port))


def group_peers(found: Mapping[str, Any], hostvars: Mapping[str, Any], port: int) -> dict[str, Any]:
    """What a node has to read of the others, for `node_facts`.

    Args:
        found: What `engine_group` gave.
        hostvars: Ansible's `hostvars`.
        port: Of the rendezvous.

    Returns:
        Empty for an engine on one node.
    """
    group = _group(found)
    if group.size < 2:
        return {}
    by_name = dict(zip(group.members, _addresses(group, hostvars), strict=True))
    own = by_name.pop(group.members[group.rank])
    others = {name: {"address": address, "port": int(port)} for name, address in by_name.items()}
    return {"own": own, "port": int(port), "others": others}


def _said(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    known = {member: hostvars[member].get(MEMBER) for member in found["members"]}
    return {member: said for member, said in known.items() if said}


def group_differences(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> list[str]:
    """What the nodes of one engine do not agree on (`membership.differences`).

    Args:
        found: What `engine_group` gave.
        hostvars: Ansible's `hostvars`; each node of the engine has said its part there.
    """
    group = _group(found)
    return membership.differences(group, _said(found, hostvars)) if group.size > 1 else []


def group_launch(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> str:
    """The launch of an engine over several nodes, the same for each of them (`launch.digest`).

    Raises:
        AnsibleFilterError: A node has not said its part.
    """
    said = _said(found, hostvars)
    if missing := [member for member in found["members"] if member not in said]:
        raise AnsibleFilterError(
            f"{', '.join(missing)} of {found['name']} could not be judged; nothing was changed here"
        )
    return launch.digest([said[member]["launch"] for member in found["members"]])


def others_restart(found: Mapping[str, Any], host: str, hostvars: Mapping[str, Any]) -> list[str]:
    """Why the other nodes of a node's engine restart: then it restarts too.

    Args:
        found: What `engine_group` gave.
        host: The node.
        hostvars: Ansible's `hostvars`; `_preflight_plan` holds each node's differences.

    Returns:
        A sentence for each other node with such a difference.
    """
    reasons = []
    for member in found["members"]:
        plan = hostvars[member].get("_preflight_plan") or {} if member != host else {}
        why = [one for entries in plan.values() for one in entries if one["restart"]]
        if why:
            reasons.append(f"{member} restarts ({why[0]['item']}: {why[0]['reason']})")
    return reasons


def group_serves(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> bool:
    """Whether the head gave the right answer just now, and nothing differs on any node."""
    plans = [hostvars[member].get("_preflight_plan") for member in found["members"]]
    reading = hostvars[found["head"]].get("_preflight_node") or {}
    answered = (reading.get("answer") or {}).get("verdict") == "ok"
    return answered and all(plan is not None and not any(plan.values()) for plan in plans)


def group_plan(found: Mapping[str, Any], host: str, hostvars: Mapping[str, Any]) -> list[str]:
    """What a plan says of the other nodes of a node's engine; nothing where there are none."""
    group = _group(found)
    if group.size < 2:
        return []
    role = "the head, which alone serves" if group.rank == 0 else f"{group.head} serves for it"
    line = f"node {group.rank + 1} of the {group.size} of the engine {group.name}: {role}"
    own = hostvars[host].get("_preflight_plan") or {}
    told = any(entry["restart"] for entries in own.values() for entry in entries)
    others = [] if told else others_restart(found, host, hostvars)
    return [line, *(f"the whole engine RESTARTS: {reason}" for reason in others)]


def _facts(found: Mapping[str, Any], hostvars: Mapping[str, Any], fact: str) -> dict[str, Any]:
    """A fact or registered result of each node that has it."""
    known = {member: hostvars[member].get(fact) for member in found["members"]}
    return {member: value for member, value in known.items() if value is not None}


def group_absent(
    found: Mapping[str, Any], hostvars: Mapping[str, Any], fact: str, wanted: object
) -> list[str]:
    """`results.absent` for a fact."""
    return results.absent(found["members"], _facts(found, hostvars, fact), wanted)


def group_unstopped(found: Mapping[str, Any], hostvars: Mapping[str, Any], fact: str) -> list[str]:
    """`results.unstopped` for a registered result."""
    return results.unstopped(found["members"], _facts(found, hostvars, fact))


def group_unfreed(found: Mapping[str, Any], hostvars: Mapping[str, Any], fact: str) -> list[str]:
    """`results.unfreed` for a registered result."""
    return results.unfreed(found["members"], _facts(found, hostvars, fact))


def group_unswitched(
    found: Mapping[str, Any], hostvars: Mapping[str, Any], fact: str
) -> dict[str, Any]:
    """`results.unswitched` for a registered result."""
    return results.unswitched(found["members"], _facts(found, hostvars, fact))


def group_refusal(
    found: Mapping[str, Any], hostvars: Mapping[str, Any], fact: str
) -> dict[str, Any]:
    """`results.refusal` for a fact."""
    return results.refusal(found["members"], _facts(found, hostvars, fact))


def group_back(
    found: Mapping[str, Any], host: str, hostvars: Mapping[str, Any], failed: str
) -> str:
    """`results.back` for the readings of this run."""
    nodes = _facts(found, hostvars, "_preflight_node")
    return results.back(host, found["members"], nodes, failed)


def group_runs(found: Mapping[str, Any], host: str, hostvars: Mapping[str, Any]) -> str:
    """`results.runs` for what the role rollback has read; nodes that failed are left out."""
    return results.runs(host, found["members"], _read(found, hostvars))


def group_crashed(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> bool:
    """`results.crashed` for what the role rollback has read; nodes that failed are left out."""
    return results.crashed(found["members"], _read(found, hostvars))


def _read(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    nodes = _facts(found, hostvars, "__rollback_node")
    return {member: node for member, node in nodes.items() if "unit" in node}


def group_returns(
    found: Mapping[str, Any], host: str, hostvars: Mapping[str, Any], failed: str
) -> str:
    """`results.returns` for what the role rollback has read."""
    nodes = _facts(found, hostvars, "__rollback_node")
    return results.returns(host, found["members"], nodes, failed)


def group_choice_problems(found: Mapping[str, Any], hostvars: Mapping[str, Any]) -> list[str]:
    """`results.choice_problems` for what the role rollback has read and chosen on each node."""
    if int(found["size"]) < 2:
        return []
    nodes = _facts(found, hostvars, "__rollback_node")
    choices = {}
    for member, choice in _facts(found, hostvars, "_rollback_choice").items():
        launches = (nodes.get(member) or {}).get("launches", {})
        record = launches.get("records", {}).get(choice["launch"], {})
        members = record.get("gate", {}).get("group", {}).get("members", [])
        choices[member] = {**choice, "members": members}
    return results.choice_problems(found["members"], choices)


def others_unproved(found: Mapping[str, Any], host: str, hostvars: Mapping[str, Any]) -> bool:
    """Whether another node of the engine has no record of the launch that it runs."""
    plans = [
        hostvars[member].get("_preflight_plan") or {}
        for member in found["members"]
        if member != host
    ]
    return any(plan.get("health_gate") for plan in plans)


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "engine_group": engine_group,
        "engine_units": engine_units,
        "engine_group_problems": engine_group_problems,
        "group_size_problems": group_size_problems,
        "group_arguments": group_arguments,
        "group_environment": launch.environment,
        "group_peers": group_peers,
        "group_common_words": launch.common_words,
        "group_differences": group_differences,
        "group_launch": group_launch,
        "group_plan": group_plan,
        "group_serves": group_serves,
        "others_restart": others_restart,
        "others_unproved": others_unproved,
        "group_absent": group_absent,
        "group_unstopped": group_unstopped,
        "group_unfreed": group_unfreed,
        "group_unswitched": group_unswitched,
        "group_refusal": group_refusal,
        "group_back": group_back,
        "group_runs": group_runs,
        "group_crashed": group_crashed,
        "group_returns": group_returns,
        "group_choice_problems": group_choice_problems,
    }
