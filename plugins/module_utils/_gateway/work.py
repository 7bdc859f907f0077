# SPDX-License-Identifier: Apache-2.0
"""Take a node out of a router, and put it in again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._gateway import config as files
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import router as routers
from ansible_collections.sm120.sglang.plugins.module_utils._gateway.router import GatewayError

_POLL_SECONDS = 0.25
_JOB_SECONDS = 30.0
# A request may be on its way when the router has dropped the worker, and from about 0.5.16 on an
# engine's count is some tenths of a second old.
_IDLE_LOOKS = 3
_IDLE_SECONDS = 0.7


@dataclass(frozen=True)
class Host:
    """The gateway that is worked on: its configuration, the state's folder, its router."""

    config: files.Config
    state: Path
    router: routers.Router


@dataclass(frozen=True)
class Left:
    """How a node left.

    Attributes:
        changed: Whether the router or its memory was changed.
        running: Requests that its engine still had at the end; None when it did not say.
        seconds: How long it took.
    """

    changed: bool
    running: int | None
    seconds: float


def _ticks(seconds: float, every: float) -> Iterator[None]:
    """Yield at once, then again and again until the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(every, left))


def remember(host: Host, node: str, inside: bool, reason: str) -> bool:
    """Keep whether a node is in; returns whether that is new."""
    with files.changing(host.state) as members:
        known = members.get(node)
        if known and (known["inside"], known["reason"]) == (inside, reason):
            return False
        members[node] = {"inside": inside, "reason": reason, "since": round(time.time(), 1)}
    return True


def forget(host: Host, node: str) -> bool:
    """Forget a node that the inventory has no more; returns whether it was known."""
    with files.changing(host.state) as members:
        return members.pop(node, None) is not None


def drop(router: routers.Router, url: str) -> bool:
    """Have a router send nothing more to a URL; what runs there goes on.

    Args:
        router: The router.
        url: The worker.

    Returns:
        Whether it was registered.

    Raises:
        GatewayError: The router does not do it.
    """
    found = router.find(url)
    if found is None:
        return False
    router.remove(found)
    for _ in _ticks(_JOB_SECONDS, _POLL_SECONDS):
        if router.find(url) is None:
            return True
    raise GatewayError(
        f"the router still lists {url} {_JOB_SECONDS:.0f} s after it was told to drop it; look at "
        "its log on the gateway"
    )


def leave(host: Host, node: str, reason: str, seconds: float) -> Left:
    """Take a node out, and wait until its engine has finished what runs.

    Args:
        host: The gateway.
        node: The node.
        reason: Why, for those who look while it is out.
        seconds: How long to wait for running requests; 0 does not wait.

    Returns:
        How it went. A router that is not running sends nothing: it counts as left.

    Raises:
        GatewayError: The router goes on sending, or does not say.
    """
    began = time.monotonic()
    url = files.worker_url(host.config, node)
    # First the memory: a router that starts again in this moment must not add it.
    changed = remember(host, node, False, reason)
    try:
        changed |= drop(host.router, url)
    except routers.RefusedError:
        changed |= False
    left = _wait_idle(lambda: routers.running(url, host.config.keys.get(node, "")), seconds)
    return Left(changed, left, time.monotonic() - began)


def _wait_idle(look: Callable[[], int | None], seconds: float) -> int | None:
    left: int | None = None
    idle = 0
    if seconds <= 0:
        return left
    for _ in _ticks(seconds, _IDLE_SECONDS):
        left = look()
        idle = idle + 1 if left == 0 else 0
        if idle >= _IDLE_LOOKS:
            break
    return left


def join(host: Host, node: str, seconds: float) -> bool:
    """Put a node in, and wait until the router sends to it.

    Args:
        host: The gateway.
        node: The node, whose engine has proved itself.
        seconds: How long to wait.

    Returns:
        Whether the router or its memory was changed.

    Raises:
        GatewayError: The router does not take it; what it said, and what to do.
    """
    url, key = files.worker_url(host.config, node), host.config.keys.get(node, "")
    found = host.router.find(url)
    if found is not None and found.healthy:
        return remember(host, node, True, "")
    if not routers.takes_key(url, key):
        raise GatewayError(
            f"{url} refuses the key that this gateway has for {node}: run the deployment without "
            "--limit, so that engine and gateway get the same engine_api_key"
        )
    asked = "" if found else host.router.add(url, key)
    complaint = ""
    for _ in _ticks(seconds, _POLL_SECONDS):
        # Asked in this order: an earlier job may have added it between the two.
        complaint = host.router.complaint(asked) if asked else ""
        found = host.router.find(url)
        if found is not None and found.healthy:
            remember(host, node, True, "")
            return True
        if complaint and found is None:
            break
    said = "it is listed and its health check fails" if found else complaint or "not listed yet"
    raise GatewayError(
        f"the router did not take {url} within {seconds:.0f} s: {said}. Requests go to the other "
        f"nodes. Look whether {url}/health answers from the gateway (address, firewall, key), and "
        "run the deployment again"
    )
