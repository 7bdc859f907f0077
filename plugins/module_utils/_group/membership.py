# SPDX-License-Identifier: Apache-2.0
"""Which nodes form one engine, by the inventory alone; everything here is pure.

`engine_group` of a node names an inventory group. Its hosts, in the inventory's order, form one
engine: the order is the rank (`--node-rank`), and the first, the head, alone serves HTTP.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import options_of

# The role gives them; by hand they would make an engine of which nobody knows the other nodes.
OWN_ARGUMENTS = ("nnodes", "node-rank", "dist-init-addr", "nccl-init-addr")
# With --enable-dp-attention the ports behind the rendezvous are used too, one after the other
# (0.5.9 server_args.py:5665-5671: 5 of them; 0.5.23 :840: 6).
ATTENTION_PORTS = 6


@dataclass(frozen=True)
class Group:
    """The engine that a node belongs to.

    Attributes:
        name: The inventory group's name; empty for an engine on one node.
        members: Its nodes by rank.
        rank: This node's.
    """

    name: str
    members: tuple[str, ...]
    rank: int = 0

    @property
    def size(self) -> int:
        """How many nodes."""
        return len(self.members)

    @property
    def head(self) -> str:
        """The node that serves HTTP."""
        return self.members[0]


def group_of(host: str, name: str, groups: Mapping[str, Sequence[str]]) -> Group:
    """The engine of a node.

    Args:
        host: The node.
        name: Its `engine_group`.
        groups: The inventory's groups.

    Returns:
        The engine; the node's own where the declaration cannot be used (`problems` says why).
    """
    members = tuple(groups.get(name, ())) if name else ()
    if host not in members or len(members) < 2:
        return Group("", (host,))
    return Group(name, members, members.index(host))


def units(
    hosts: Iterable[str], named: Mapping[str, str], groups: Mapping[str, Sequence[str]]
) -> list[tuple[str, ...]]:
    """Group nodes by engine.

    Args:
        hosts: Nodes, in the inventory's order.
        named: Node to `engine_group`.
        groups: The inventory's groups.

    Returns:
        For each engine those of its nodes that are among `hosts`, the head first, in the order in
        which the first node of each comes.
    """
    wanted = list(dict.fromkeys(hosts))
    found: dict[tuple[str, ...], None] = {}
    for host in wanted:
        members = group_of(host, named.get(host, ""), groups).members
        found.setdefault(tuple(member for member in members if member in wanted))
    return list(found)


def problems(
    host: str,
    named: Mapping[str, str],
    groups: Mapping[str, Sequence[str]],
    here: Iterable[str],
) -> list[str]:
    """What is wrong with the declaration of one node's engine.

    Args:
        host: The node.
        named: Node to `engine_group`, of this node and of the hosts of its group.
        groups: The inventory's groups.
        here: The nodes of this run.

    Returns:
        Sentences with cause and remedy; none for a node whose `engine_group` is empty.
    """
    name = named.get(host, "")
    if not name:
        return []
    if name not in groups:
        close = difflib.get_close_matches(name, groups, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return [f"engine_group: the inventory has no group '{name}'{hint}"]
    members = list(groups[name])
    if host not in members:
        return [
            (
                f"engine_group: {host} says {name}, and is not in that group "
                f"({', '.join(members) or 'it is empty'}). Remedy: add it there, or leave the "
                "variable out"
            )
        ]
    found = []
    if len(members) < 2:
        found.append(
            f"engine_group: the group {name} has {host} alone. Remedy: add the other nodes of its "
            "engine, or leave the variable out"
        )
    found += [
        f"engine_group: {member} is in the group {name}, and its own engine_group is "
        f"{repr(named[member]) if named.get(member) else 'not set'}: a node belongs to one engine. "
        f"Remedy: set engine_group for the whole group, and put {member} into one such group only"
        for member in members
        if named.get(member, "") != name
    ]
    if strangers := [member for member in members if member not in groups.get("engines", ())]:
        found.append(
            f"engine_group: {', '.join(strangers)} of {name} is not in the group engines. Remedy: "
            f"make {name} a child of engines"
        )
    present = set(here)
    if missing := [member for member in members if member not in present]:
        found.append(
            f"engine_group: {', '.join(missing)} of {name} is not part of this run, and the nodes "
            f"of one engine start, stop and go back together. Remedy: --limit {name}, or no --limit"
        )
    return found


def size_problems(group: Group, wanted: Mapping[str, Any]) -> list[str]:
    """What of a node's launch does not fit the engine's nodes.

    Args:
        group: The node's engine.
        wanted: `tp_size`, `gpus` (of each node; 0 where the engine runs on CPUs), `port` (of HTTP),
            `group_port`, and `arguments`, the operator's, names with dashes.

    Returns:
        Sentences with cause and remedy. For an engine on one node only what belongs to several.
    """
    arguments = wanted["arguments"]
    if group.size < 2:
        return [
            f"engine_arguments.{name}: an engine over several nodes is declared by engine_group, "
            "so that all its nodes are known. Remedy: remove it; see docs/groups.md"
            for name, harmless in (("nnodes", "1"), ("node-rank", "0"))
            if str(arguments.get(name, harmless)) != harmless
        ]
    found = [
        f"engine_arguments.{name}: engine_group {group.name} decides it. Remedy: remove it"
        for name in OWN_ARGUMENTS
        if name in arguments
    ]
    found += _ranks(group, wanted)
    port, rendezvous = int(wanted["port"]), int(wanted["group_port"])
    last = rendezvous
    if arguments.get("enable-dp-attention") is True:
        last += ATTENTION_PORTS
    if rendezvous <= port <= last:
        among = "" if last == rendezvous else f" to {last} (enable-dp-attention)"
        found.append(
            f"engine_group_port: {rendezvous}{among} and engine_port {port} clash. Remedy: choose "
            "another one"
        )
    return found


def _ranks(group: Group, wanted: Mapping[str, Any]) -> list[str]:
    """Whether the ranks can be dealt out to the nodes.

    SGLang asserts that the nodes divide TP times PP (0.5.9 server_args.py:5132, 0.5.23
    srt/arg_groups/validation_hook.py:179); a rank without a GPU dies at start.
    """
    stages = int(wanted["arguments"].get("pp-size", 1))
    size = int(wanted["arguments"].get("tp-size", wanted["tp_size"]))
    product = "engine_tp_size" if stages == 1 else "engine_tp_size times pp-size"
    ranks, gpus = size * stages, int(wanted["gpus"])
    if ranks % group.size:
        return [
            (
                f"engine_tp_size: {product} is {ranks}, which {group.size} nodes cannot share. "
                f"Remedy: a multiple of {group.size}"
            )
        ]
    if gpus and ranks != group.size * gpus:
        return [
            (
                f"engine_tp_size: {product} is {ranks}, and the {group.size} nodes of {group.name} "
                f"have {group.size} x {gpus} GPUs (cuda_stack_gpus). Remedy: {group.size * gpus}"
            )
        ]
    return []


def differences(group: Group, said: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the nodes of one engine do not agree on.

    Args:
        group: The engine.
        said: Node to what it would be launched with: `release`, `models`, `arguments` (a list of
            words, without those that have to differ), `address`.

    Returns:
        Sentences that name the head's value and the other's.
    """
    missing = [member for member in group.members if member not in said]
    if missing:
        return [
            (
                f"{', '.join(missing)} of {group.name} could not be judged, so nothing is known of "
                "the whole engine. Remedy: what is said of it in this run"
            )
        ]
    found, head = [], said[group.head]
    for member in group.members[1:]:
        other = said[member]
        for key, what in (("release", "release"), ("models", "models")):
            if other[key] != head[key]:
                found.append(
                    f"{what}: {group.head} has {_text(head[key])}, {member} {_text(other[key])}"
                )
        ours, theirs = options_of(head["arguments"]), options_of(other["arguments"])
        found += [
            f"--{name}: {group.head} has {_value(ours, name)}, {member} {_value(theirs, name)}"
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        ]
    found = [
        f"the nodes of {group.name} are one engine and differ in {one}. Remedy: set it once, for "
        f"the group {group.name}"
        for one in found
    ]
    for number, member in enumerate(group.members):
        twins = [m for m in group.members[:number] if said[m]["address"] == said[member]["address"]]
        found += [
            f"engine_group_address: {twin} and {member} both have {said[member]['address']}. "
            "Remedy: each node's own"
            for twin in twins
        ]
    return found


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _value(options: Mapping[str, Sequence[str]], name: str) -> str:
    return (" ".join(options[name]) or "it") if name in options else "none"
