# SPDX-License-Identifier: Apache-2.0
"""Whether a gateway's router sends requests where it should, and on which release it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.sm120.sglang.plugins.module_utils import _decide, _prune
from ansible_collections.sm120.sglang.plugins.module_utils._decide import Difference
from ansible_collections.sm120.sglang.plugins.module_utils._gateway.router import same_url
from ansible_collections.sm120.sglang.plugins.module_utils._stack import LAYOUT_VERSION

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


class Choice(TypedDict):
    """The Python that runs the router, with its lock, and the release that they give."""

    python: str
    path: str
    lock: str
    release: str
    error: str


def release_id(version: str, python: str, lock_sha256: str) -> str:
    """Name the router's release that these inputs give.

    Args:
        version: The router's version.
        python: The Python version.
        lock_sha256: Digest of the lock's bytes.

    Returns:
        `router-VERSION-` and 12 hexadecimal digits.
    """
    inputs = json.dumps([LAYOUT_VERSION, python, lock_sha256])
    return f"router-{version}-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}"


def choose(
    version: str, locks: Mapping[str, Mapping[str, str]], pythons: Mapping[str, str]
) -> Choice:
    """Choose the host's Python for a router.

    Args:
        version: The router's version.
        locks: Python version to the lock's `path` and the `release` that it gives.
        pythons: The host's interpreters, version to path.

    Returns:
        The choice, the newest Python first; `error` says why there is none.
    """
    for python in sorted(locks, key=lambda text: [int(part) for part in text.split(".")])[::-1]:
        if python in pythons:
            return {
                "python": python,
                "path": pythons[python],
                "lock": locks[python]["path"],
                "release": locks[python]["release"],
                "error": "",
            }
    have = ", ".join(sorted(pythons)) or "none"
    return {
        "python": "",
        "path": "",
        "lock": "",
        "release": "",
        "error": f"router {version} is locked for Python {', '.join(sorted(locks))}, this host has "
        f"{have}: install one of them",
    }


def worker_address(host: str, reachable: str) -> str:
    """The address at which other hosts reach an engine.

    Args:
        host: The address that it listens on.
        reachable: The host's own name or address, for an engine that listens on all.

    Returns:
        The address, an IPv6 one in brackets.
    """
    address = reachable if host in _ANY else host
    return f"[{address}]" if ":" in address else address


def workers(
    nodes: Iterable[str],
    hosts: Mapping[str, str],
    ports: Mapping[str, int],
    machines: Mapping[str, str],
) -> dict[str, str]:
    """The URLs of the inventory's engines.

    Args:
        nodes: The nodes that answer for an engine.
        hosts: Node to the address that its engine listens on.
        ports: Node to its engine's port.
        machines: Node to the address by which its host is reached, empty for its own name.

    Returns:
        Node to URL.
    """
    return {
        node: f"http://{worker_address(hosts[node], machines.get(node) or node)}:{ports[node]}"
        for node in nodes
    }


def problems(
    node: Mapping[str, Any],
    choice: Choice,
    gateway: str,
    hosts: Mapping[str, str],
    machines: Mapping[str, str],
) -> list[str]:
    """Why a host cannot be this gateway.

    Args:
        node: The reading, with the ports that the router wants.
        choice: The router's Python.
        gateway: The host.
        hosts: Node to the address that its engine listens on.
        machines: Node and gateway to the address by which the host is reached.

    Returns:
        One sentence each.
    """
    found = [choice["error"]] if choice["error"] else []
    if not hosts:
        found.append("the inventory has no engines for it: name nodes in the group 'engines'")
    here = machines.get(gateway) or gateway
    found += [
        f"the engine of {name} listens on {address} alone, which {gateway} cannot reach: set "
        f"engine_host of {name} to an address of its own, behind a firewall"
        for name, address in sorted(hosts.items())
        if address in _LOOPBACK and (machines.get(name) or name) != here
    ]
    found += [
        f"port {entry['port']} is taken by "
        + (f"pid {entry['pid']} ({entry['command']})" if entry["pid"] else "another process")
        + ": stop it, or choose another gateway_port or gateway_metrics_port"
        for entry in node["ports"]
        if entry["unit"] != node["unit"]["name"]
    ]
    return found


def plan(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, list[Difference]]:
    """What differs on a gateway.

    Args:
        node: The reading (`gateway_facts`).
        wanted: `release`, `launch`, `files`, `enabled`, `workers` (node to URL), `keep`.

    Returns:
        Differences of the release, of configuration and process, of what the router lists and
        remembers beyond the inventory, and releases to remove.
    """
    seen, unit = node["gateway"], node["unit"]
    # Of what the router reads only by itself, a change reaches it without a restart.
    read_once = [entry for entry in wanted["files"] if not entry["path"].endswith(".json")]
    read_again = [entry for entry in wanted["files"] if entry["path"].endswith(".json")]
    service = _decide.files(node, read_once, wanted["launch"])
    service += _decide.files(node, read_again, "")
    service += _decide.engine(node, wanted["release"], wanted["launch"], wanted["enabled"])
    if not seen["admin_key"]:
        reason = "missing, damaged or not root's alone"
        service.append({"item": "key of the control plane", "reason": reason, "restart": True})
    elif (
        unit["active_state"] == "active"
        and seen["error"]
        and not any(entry["restart"] for entry in service)
    ):
        service.append({"item": "router", "reason": seen["error"], "restart": True})
    rest: list[Difference] = [
        {"item": f"worker {url}", "reason": "is nobody's in the inventory", "restart": False}
        for url in strangers(seen["listed"], wanted["workers"])
    ]
    rest += [
        {"item": f"member {name}", "reason": "is not in the inventory any more", "restart": False}
        for name in sorted(set(seen["members"]) - set(wanted["workers"]))
    ]
    return {
        "gateway_release": _decide.release(node, wanted["release"]),
        "gateway": [{**entry, "item": _renamed(entry["item"])} for entry in service],
        "gateway_workers": rest,
        "gateway_old": [
            {"item": f"release {name}", "reason": "older than gateway_keep", "restart": False}
            for name in _prune.removable(node, wanted["release"], wanted["keep"])
        ],
    }


def _renamed(item: str) -> str:
    return "router" if item == "engine" else item


def lines(differences: Mapping[str, Iterable[Mapping[str, Any]]], running: bool) -> list[str]:
    """Render a gateway's plan for people.

    Args:
        differences: What `plan` gave.
        running: Whether the router runs now.

    Returns:
        One line a difference, and one that says whether the router restarts.
    """
    found = [
        f"{part}: {entry['item']}: {entry['reason']}"
        for part, entries in differences.items()
        for entry in entries
    ]
    if not restart_reasons(differences):
        return [*found, "the router goes on without a restart"]
    how = "RESTARTS: it refuses connections for a moment" if running else "starts"
    return [*found, f"the router {how}"]


def restart_reasons(differences: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """The differences for which a router has to restart, as phrases."""
    return [
        f"{entry['item']} {entry['reason']}"
        for entries in differences.values()
        for entry in entries
        if entry["restart"]
    ]


def strangers(listed: Iterable[Mapping[str, Any]], known: Mapping[str, str]) -> list[str]:
    """URLs that a router sends to and that are nobody's in the inventory.

    Args:
        listed: The router's workers, each with `url`.
        known: Node to URL.

    Returns:
        The URLs as the router has them.
    """
    return sorted(
        str(entry["url"])
        for entry in listed
        if not any(same_url(str(entry["url"]), url) for url in known.values())
    )


def membership(node: str, readings: Mapping[str, Mapping[str, Any]]) -> list[Difference]:
    """Why a node has to be added to routers.

    Args:
        node: The node.
        readings: Gateway to its reading (`gateway_facts`, its `gateway`), empty for one that was
            not asked.

    Returns:
        One difference for each gateway that does not send requests there as it should; none needs
        a restart of the engine.
    """
    return [
        {"item": f"gateway {gateway}", "reason": reason, "restart": False}
        for gateway, reading in readings.items()
        if reading and (reason := _missing(node, reading))
    ]


def _missing(node: str, reading: Mapping[str, Any]) -> str:
    if reading["error"]:
        return f"cannot be asked: {reading['error']}"
    url = reading["workers"].get(node)
    if url is None:
        return "does not know this node"
    member = reading["members"].get(node, {"inside": False, "reason": ""})
    if not any(same_url(str(entry["url"]), url) for entry in reading["listed"]):
        why = member["reason"] or ("it lost it" if member["inside"] else "it was never added")
        return f"sends no requests here: {why}"
    if not member["inside"]:
        return f"sends requests here although it was taken out: {member['reason']}"
    return ""


def summary(reading: Mapping[str, Any], known: Mapping[str, str]) -> str:
    """Who gets requests and who does not, in one line.

    Args:
        reading: `gateway_facts`, its `gateway`.
        known: Node to URL.

    Returns:
        Such as `sends to a, b; not to c (its engine is being switched)`.
    """
    if reading["error"]:
        return f"cannot be asked: {reading['error']}"
    one = {**reading, "workers": dict(known)}
    out = {node: _missing(node, one).partition(": ")[2] for node in known if _missing(node, one)}
    inside = ", ".join(node for node in known if node not in out) or "nobody yet"
    rest = ", ".join(f"{node} ({why})" for node, why in out.items())
    return f"sends to {inside}" + (f"; not to {rest}" if rest else "")
