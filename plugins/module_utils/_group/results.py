# SPDX-License-Identifier: Apache-2.0
"""What came of a step on all nodes of one engine, and what all of them do about it.

Every function gets what each node said, by node, and answers the same on each of them: that is how
the nodes of one engine act together without a word between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import (
    _going_back,
    _lifecycle,
    _unforeseen,
)

# A node that names another one's death tells less than that one itself.
_FOLLOWS = "another-node-died"


def absent(members: Sequence[str], said: Mapping[str, Any], wanted: object) -> list[str]:
    """The nodes that did not come as far as saying `wanted`."""
    return [member for member in members if said.get(member) != wanted]


def unstopped(members: Sequence[str], results: Mapping[str, Any]) -> list[str]:
    """Sentences about the nodes on which the engine was not stopped, or is somebody else's.

    Args:
        members: The nodes.
        results: Node to the result of `engine_switch` with `state=stopped`.
    """
    found = []
    for member in members:
        result = results.get(member) or {}
        if result.get("foreign"):
            found.append(f"{member}: somebody else has deployed meanwhile")
        elif "release" not in result:
            found.append(f"{member}: {_message(result)}")
    return found


def unfreed(members: Sequence[str], results: Mapping[str, Any]) -> list[str]:
    """Sentences about the nodes on which the stopped engine's GPU memory is not back.

    Args:
        members: The nodes.
        results: Node to the result of `engine_switch`.
    """
    said = {member: results.get(member) or {} for member in members}
    return [f"{name}: {_message(one)}" for name, one in said.items() if one.get("memory_lost")]


def _message(result: Mapping[str, Any]) -> str:
    return str(_unforeseen.with_reason(result).get("msg") or "it cannot be reached any more")


def unswitched(members: Sequence[str], results: Mapping[str, Any]) -> dict[str, Any]:
    """The refusal of a switch that failed on a node; empty where all switched.

    Args:
        members: The nodes.
        results: Node to the result of `engine_switch`.
    """
    failed = [member for member in members if "release" not in (results.get(member) or {})]
    if not failed:
        return {}
    messages = [f"{member}: {_message(results.get(member) or {})}" for member in failed]
    lost = {"memory_lost": True} if unfreed(failed, results) else {}
    return {"msg": "\n".join(messages), **lost}


def refusal(members: Sequence[str], refusals: Mapping[str, Any]) -> dict[str, Any]:
    """What speaks against a launch, of all that its nodes say; empty where none refuses it.

    Args:
        members: The nodes, the head first.
        refusals: Node to what it has against the launch: a result with `msg`, empty for nothing. A
            node that says nothing has dropped out of the run.

    Returns:
        The one that tells most: not what only names another node's failure.
    """
    found = []
    for number, member in enumerate(members):
        one = refusals.get(member)
        if one is None:
            one = {"msg": f"{member}: {_message({})}", "no_verdict": True}
        if one:
            echo = bool(one.get("lost_to")) or one.get("cause", {}).get("signature") == _FOLLOWS
            found.append(((bool(one.get("no_verdict")), echo, number), one))
    return dict(min(found, key=lambda entry: entry[0])[1]) if found else {}


def back(host: str, members: Sequence[str], nodes: Mapping[str, Any], failed: str) -> str:
    """The launch that a node goes back to by itself when a launch of its whole engine failed.

    Args:
        host: The node.
        members: The engine's nodes.
        nodes: Node to its reading.
        failed: Digest of the launch.

    Returns:
        A launch of the same engine that all of its nodes have; or each node's own, where they were
        engines of their own before; empty where there is no such thing on one of them.
    """
    targets = {
        member: _lifecycle.automatic_target(nodes[member], failed) if member in nodes else ""
        for member in members
    }
    return _agreed(host, members, nodes, targets)


def returns(host: str, members: Sequence[str], nodes: Mapping[str, Any], failed: str) -> str:
    """The launch to put back on a node when that of a rollback by hand failed (`back` otherwise).

    It is the one that ran until then, and passed its gate, on each of them.
    """
    targets = {
        member: _going_back.return_target(nodes[member], failed) if member in nodes else ""
        for member in members
    }
    return _agreed(host, members, nodes, targets)


def _agreed(
    host: str, members: Sequence[str], nodes: Mapping[str, Any], targets: Mapping[str, str]
) -> str:
    """A node's own target, where the targets of all are one engine's or each node's own."""
    if not all(targets.values()):
        return ""
    records = [nodes[member]["launches"]["records"][targets[member]] for member in members]
    engines = [record.get("gate", {}).get("group", {}).get("members") for record in records]
    alone = not any(engines)
    together = len(set(targets.values())) == 1 and all(one == list(members) for one in engines)
    return targets[host] if alone or together else ""


def runs(host: str, members: Sequence[str], nodes: Mapping[str, Any]) -> str:
    """The launch that an engine runs, as one of its nodes sees it.

    Args:
        host: The node.
        members: The engine's nodes.
        nodes: Node to its reading.

    Returns:
        What runs on this node; empty where nothing runs on one of the others: then the engine
        does not serve, whatever is left of it.
    """
    running = [_lifecycle.runs(nodes[member]) for member in members if member in nodes]
    return _lifecycle.runs(nodes[host]) if all(running) else ""


def crashed(members: Sequence[str], nodes: Mapping[str, Any]) -> bool:
    """Whether the engine died by itself on one of its nodes: without it the others are no engine.

    Args:
        members: The engine's nodes.
        nodes: Node to its reading.
    """
    return any(_going_back.crashed(nodes[member]) for member in members if member in nodes)


def choice_problems(members: Sequence[str], choices: Mapping[str, Any]) -> list[str]:
    """Why the nodes of one engine cannot go back together.

    Args:
        members: The nodes.
        choices: Node to what it would go back to: `launch`, `error`, and `members`, the nodes of
            the engine that had that launch (empty for an engine on one node).

    Returns:
        Sentences; none where all go back to one launch of this engine, or each to one of its own.
    """
    missing = [member for member in members if member not in choices]
    if missing:
        return [f"{', '.join(missing)}: it is not part of this run, or could not be read"]
    errors = [
        f"{member}: {choices[member]['error']}" for member in members if choices[member]["error"]
    ]
    if errors:
        return errors
    engines = [list(choices[member]["members"]) for member in members]
    launches = {member: choices[member]["launch"] for member in members}
    if not any(engines):
        return []
    if len(set(launches.values())) > 1 or any(one != list(members) for one in engines):
        text = ", ".join(f"{member} to {launch}" for member, launch in launches.items())
        return [f"the nodes would not go back to one launch of this engine: {text}"]
    return []
