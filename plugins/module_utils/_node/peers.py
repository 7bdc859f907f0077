# SPDX-License-Identifier: Apache-2.0
"""How a node reaches the other nodes of its engine; sends them nothing but a connection's start."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._node import service

OPEN, REFUSED, SILENT, UNREACHABLE = "open", "refused", "silent", "unreachable"
"""What came of connecting: somebody listens, nobody does, no answer, no way there."""

_CONNECT_SECONDS = 3.0
_COMMAND_SECONDS = 5.0
_MOST_AT_ONCE = 16


def read_peers(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Read what the checks of an engine over several nodes need.

    Args:
        asked: `own` (this node's address), `port` (of the rendezvous), and `others`, node to
            `address` and `port`.

    Returns:
        `own` with `addresses`, `interface` and `problem`; `listeners`, who holds the port here
        (`service.read_ports`); and `others`, node to `addresses`, `interface` (on the way there),
        `reach` (one of the constants) and `problem`.
    """
    others: Mapping[str, Any] = asked.get("others", {})
    with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
        answers = pool.map(_other, others.values())
        return {
            "own": _own(asked["own"]),
            "listeners": service.read_ports([int(asked["port"])]),
            "others": dict(zip(others, answers, strict=True)),
        }


def _own(address: str) -> dict[str, Any]:
    addresses, problem = _resolve(address)
    found: dict[str, Any] = {"addresses": addresses, "interface": "", "problem": problem}
    if addresses:
        shown = _ip("address", "show", "to", addresses[0])
        names = [entry["ifname"] for entry in shown if entry.get("ifname")]
        # All of 127.0.0.0/8 is this node's, and none but the first is shown.
        names += [entry["dev"] for entry in _route(addresses[0]) if entry.get("type") == "local"]
        found["interface"] = names[0] if names else ""
    return found


def _other(entry: Mapping[str, Any]) -> dict[str, Any]:
    addresses, problem = _resolve(entry["address"])
    found: dict[str, Any] = {
        "addresses": addresses,
        "interface": "",
        "reach": UNREACHABLE,
        "problem": problem,
    }
    if addresses:
        found["interface"] = next((one.get("dev", "") for one in _route(addresses[0])), "")
        found["reach"], found["problem"] = _connect(addresses[0], int(entry["port"]))
    return found


def _resolve(address: str) -> tuple[list[str], str]:
    try:
        entries = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return [], f"{address}: {error.strerror or error}"
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries)), ""


def _connect(address: str, port: int) -> tuple[str, str]:
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_SECONDS):
            return OPEN, ""
    except ConnectionRefusedError:
        return REFUSED, ""
    except TimeoutError:
        return SILENT, f"no answer within {_CONNECT_SECONDS:.0f} s"
    except OSError as error:
        return UNREACHABLE, str(error.strerror or error)


def _route(address: str) -> list[dict[str, Any]]:
    return _ip("route", "get", address)


def _ip(*words: str) -> list[dict[str, Any]]:
    """What iproute2 says, nothing where it fails or is not there."""
    try:
        done = subprocess.run(
            ["ip", "-json", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )
        found = json.loads(done.stdout or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return [entry for entry in found if isinstance(entry, dict) and entry]
