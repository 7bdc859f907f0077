# SPDX-License-Identifier: Apache-2.0
"""Whether the nodes of one engine reach each other, by what each of them read."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._decide import Verdict
from ansible_collections.sm120.sglang.plugins.module_utils._node.peers import (
    OPEN,
    REFUSED,
    SILENT,
)


def judge(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Verdict]:
    """Judge how a node reaches the others.

    Args:
        node: The reading of `node_facts` with `peers`.
        wanted: `address` (its own), `port` (of the rendezvous), `rank`, `unit`.

    Returns:
        One verdict a check; none for an engine on one node.
    """
    peers = node.get("peers") or {}
    if not peers:
        return []
    found = [_address(peers["own"], wanted["address"]), _loopback(peers["own"], wanted["address"])]
    found.append(_reach(peers["others"], wanted["port"]))
    found.append(_route(peers))
    if wanted["rank"] == 0:
        found.append(_port(peers["listeners"], wanted))
    return found


def _verdict(check: str, wrong: Iterable[str], fine: str, remedy: str) -> Verdict:
    text = "; ".join(wrong)
    return {
        "id": check,
        "verdict": "fail" if text else "ok",
        "read": text or fine,
        "remedy": remedy if text else "",
    }


def _address(own: Mapping[str, Any], address: str) -> Verdict:
    wrong = []
    if own["problem"]:
        wrong.append(own["problem"])
    elif not own["interface"]:
        wrong.append(f"{address} ({', '.join(own['addresses'])}) is on no interface of this node")
    return _verdict(
        "group_address",
        wrong,
        f"{address} is on {own['interface']}",
        "set engine_group_address to the node's address in the network that joins the GPUs",
    )


def _loopback(own: Mapping[str, Any], address: str) -> Verdict:
    looped = [one for one in own["addresses"] if _is_loopback(one)]
    wrong = [f"{address} is {', '.join(looped)}, which only this node itself reaches"]
    return _verdict(
        "group_loopback",
        wrong if looped else [],
        f"{address} is no loopback address",
        "set engine_group_address; on Debian a node's own name means 127.0.1.1 in /etc/hosts",
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _reach(others: Mapping[str, Any], port: int) -> Verdict:
    wrong = []
    for name, seen in others.items():
        if seen["reach"] in (OPEN, REFUSED):
            continue
        where = ", ".join(seen["addresses"][:1])
        silent = "a firewall drops it" if seen["reach"] == SILENT else "no way there"
        wrong.append(f"{name} {f'({where}) ' if where else ''}port {port}: {seen['problem']}")
        wrong[-1] += f", {silent}" if where else ""
    return _verdict(
        "group_reach",
        wrong,
        f"answers from {', '.join(others)}",
        "let all TCP ports through between these nodes: beside the rendezvous, gloo and NCCL take "
        "ports as they come",
    )


def _route(peers: Mapping[str, Any]) -> Verdict:
    """Only among interfaces that are known; the way to a name of its own goes over loopback."""
    own = peers["own"]["interface"]
    wrong = [
        f"{name} is reached over {seen['interface']}, and {own} has this node's address"
        for name, seen in peers["others"].items()
        if own and seen["interface"] and seen["interface"] != own
    ]
    return _verdict(
        "group_route",
        wrong,
        f"the others are reached over {own}",
        "set engine_group_address on all nodes to addresses of one network",
    )


def _port(listeners: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]) -> Verdict:
    """The store of torch listens on all addresses of the head, so any listener is in its way."""
    wrong = [
        f"{entry['address']}:{entry['port']} is taken by pid {entry['pid']} ({entry['command']}, "
        f"{entry['unit'] or 'no unit'})"
        for entry in listeners
        if entry["unit"] != wanted["unit"]
    ]
    return _verdict(
        "group_port",
        wrong,
        f"port {wanted['port']} is free or our engine's own",
        "stop who holds it, or choose another engine_group_port",
    )
