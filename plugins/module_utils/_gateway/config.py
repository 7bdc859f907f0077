# SPDX-License-Identifier: Apache-2.0
"""What a gateway's host keeps: where its router listens, which engines it may send to, who is in.

`gateway.json` and `worker-keys.json` are the role's, from the inventory; `admin.key` is made on the
host and never leaves it. `members.json` is the host's own memory of who gets requests and, of those
who do not, why not: a router that starts again asks it, and never sends to a node that was taken
out, or that has not proved itself yet.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from ansible_collections.sm120.sglang.plugins.module_utils import _verified
from ansible_collections.sm120.sglang.plugins.module_utils._gateway.router import GatewayError

FOLDER = Path("/etc/sglang-gateway")
STATE = Path("/var/lib/sglang-gateway")
CONFIG = "gateway.json"
KEYS = "worker-keys.json"
ADMIN = "admin.key"
MEMBERS = "members.json"


@dataclass(frozen=True)
class Config:
    """A gateway's configuration.

    Attributes:
        url: Where its router listens.
        workers: Node to the URL of its engine.
        keys: Node to its engine's key, empty for none.
        admin: Key of the router's control plane.
    """

    url: str
    workers: Mapping[str, str]
    keys: Mapping[str, str] = field(default_factory=dict)
    admin: str = ""


def load(folder: Path) -> Config:
    """Read the configuration.

    Args:
        folder: Where it lies.

    Returns:
        The configuration.

    Raises:
        GatewayError: A file is missing or damaged.
    """
    try:
        shown = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        keys = json.loads((folder / KEYS).read_text(encoding="utf-8"))
        admin = (folder / ADMIN).read_text(encoding="ascii").strip()
        return Config(str(shown["url"]), dict(shown["workers"]), dict(keys), admin)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GatewayError(
            f"{folder} holds no whole configuration of a gateway ({error}): run the deployment "
            "without --limit, or take this host out of the group gateways"
        ) from error


def worker_url(config: Config, node: str) -> str:
    """Where a node's engine is.

    Raises:
        GatewayError: The gateway does not know the node.
    """
    try:
        return config.workers[node]
    except KeyError:
        known = ", ".join(sorted(config.workers)) or "none"
        raise GatewayError(
            f"this gateway has no worker {node} (it has: {known}): run the deployment without "
            "--limit, so that the gateway learns of it"
        ) from None


class Member(TypedDict):
    """Whether a node gets requests.

    Attributes:
        inside: Whether it does.
        reason: Why not; empty for one that does.
        since: Since when, seconds since the epoch.
    """

    inside: bool
    reason: str
    since: float


def read_members(state: Path) -> dict[str, Member]:
    """Every node that was ever put in or out; one that is not there has never been in."""
    found: dict[str, Member] = {}
    for node, entry in _verified.load_record(state / MEMBERS).items():
        if isinstance(entry, dict):
            found[str(node)] = {
                "inside": entry.get("inside") is True,
                "reason": str(entry.get("reason", "")),
                "since": float(entry.get("since", 0.0)),
            }
    return found


@contextlib.contextmanager
def changing(state: Path) -> Iterator[dict[str, Member]]:
    """Change who is in and out; nodes of one batch do so at the same time.

    Args:
        state: The state's folder.

    Yields:
        The members; what was changed in them is kept, by one rename.
    """
    with (state / ".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        members = read_members(state)
        before = {node: dict(member) for node, member in members.items()}
        yield members
        if members != before:
            _verified.save_record(state / MEMBERS, members)


def admin_key_fits(folder: Path) -> bool:
    """Whether the control plane's key is there, whole, and readable by its owner alone."""
    try:
        status = (folder / ADMIN).stat()
        text = (folder / ADMIN).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return False
    return len(text) >= 32 and status.st_mode & 0o077 == 0 and status.st_uid == os.geteuid()
