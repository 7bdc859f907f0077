# SPDX-License-Identifier: Apache-2.0
"""What the launch of a node says about the other nodes of its engine; everything here is pure."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._group.membership import Group

# Arguments that differ between the nodes of one engine.
PER_NODE = ("node-rank", "host", "port")


def endpoint(address: str, port: int) -> str:
    """Address and port as `--dist-init-addr` takes them; an IPv6 address in brackets."""
    try:
        bare = ipaddress.ip_address(address)
    except ValueError:
        return f"{address}:{port}"
    return f"[{bare}]:{port}" if bare.version == 6 else f"{bare}:{port}"


def arguments(group: Group, address: str, port: int) -> dict[str, Any]:
    """The server arguments that make a node one of an engine.

    Args:
        group: The engine.
        address: The head's, for the other nodes.
        port: Of the rendezvous, on the head.

    Returns:
        Names without dashes; none for an engine on one node, whose launch stays as it was.
    """
    if group.size < 2:
        return {}
    return {
        "nnodes": group.size,
        "node-rank": group.rank,
        "dist-init-addr": endpoint(address, port),
    }


def environment(peers: Mapping[str, Any]) -> dict[str, str]:
    """The variables that bind a node's traffic to the interface of its own address.

    gloo takes the address that the node's own name resolves to, on Debian 127.0.1.1, and NCCL the
    first interface that is up; both then wait for nodes that cannot reach them. SGLang hands
    requests from node to node by an address of its own choice, the default route's (0.5.9
    srt/utils/common.py:2944, 0.5.23 srt/utils/network.py:391).

    Args:
        peers: The reading (`_node.peers`); empty for an engine on one node.

    Returns:
        Variables; none where the reading found no interface, which is refused elsewhere.
    """
    own = peers.get("own", {})
    name, addresses = own.get("interface", ""), own.get("addresses", [])
    if not name or not addresses:
        return {}
    return {
        "GLOO_SOCKET_IFNAME": name,
        # Without "=" it is a prefix: eth1 would take eth10 too (NCCL's environment variables).
        "NCCL_SOCKET_IFNAME": f"={name}",
        "SGLANG_HOST_IP": addresses[0],
    }


def common_words(words: Sequence[str]) -> list[str]:
    """An argument list without what differs between the nodes of one engine."""
    found, skip = [], False
    for word in words:
        if word.startswith("--"):
            skip = word[2:].partition("=")[0] in PER_NODE
        if not skip:
            found.append(word)
    return found


def digest(own: Sequence[str]) -> str:
    """Name the launch of an engine by its nodes' own digests, in the order of their ranks.

    It stands on all nodes, so a change on one of them is another launch for each.
    """
    text = json.dumps(list(own))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
