# SPDX-License-Identifier: Apache-2.0
"""The HTTP APIs of SGLang's router and, for its running requests, of an engine behind it.

As sglang-router 0.3.2 has them (github.com/sgl-project/sglang, sgl-model-gateway/src/server.rs and
core/worker_service.rs): adding and removing a worker are jobs that end after the answer, adding
waits until the worker's /health is 200, and a removed worker's running requests go on.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SECONDS = 10.0


class GatewayError(RuntimeError):
    """The router cannot do what is asked; the message says why and what to do."""


class RefusedError(GatewayError):
    """Nobody listens at the address."""


@dataclass(frozen=True)
class Worker:
    """An engine as a router knows it.

    Attributes:
        id: The router's own name for it.
        url: Where requests go.
        healthy: Whether it gets requests.
        load: Its running requests, as far as the router's policy counts them.
    """

    id: str
    url: str
    healthy: bool
    load: int


def same_url(one: str, other: str) -> bool:
    """Whether two URLs name one worker; a router keeps a trailing slash as it was given."""
    return one.rstrip("/") == other.rstrip("/")


def parse_workers(answer: object) -> list[Worker]:
    """Read the answer to `GET /workers`.

    Args:
        answer: Parsed JSON.

    Returns:
        The workers by URL; those that are still being added are not among them.

    Raises:
        GatewayError: It is no such answer.
    """
    try:
        entries = answer["workers"]  # type: ignore[index]
        found = [
            Worker(
                str(entry["id"]), str(entry["url"]), entry["is_healthy"] is True, int(entry["load"])
            )
            for entry in entries
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise GatewayError(
            f"the router's list of workers cannot be read: {type(error).__name__} {error}; is "
            "something else listening on gateway_port?"
        ) from error
    return sorted(found, key=lambda worker: worker.url)


def parse_running(answer: object) -> int | None:
    """Read an engine's answer to `GET /v1/loads` (SGLang 0.5.9 to 0.5.23).

    Args:
        answer: Parsed JSON.

    Returns:
        Requests that run or wait, over all data-parallel ranks; None where it does not say.
    """
    if not isinstance(answer, Mapping) or not isinstance(answer.get("loads"), list):
        return None
    total = 0
    for rank in answer["loads"]:
        counts = [rank.get("num_running_reqs"), rank.get("num_waiting_reqs")]
        if not all(isinstance(count, int) for count in counts):
            return None
        total += sum(counts)
    return total


def request(
    url: str, key: str, *, method: str = "GET", body: object = None, seconds: float = _SECONDS
) -> Any:
    """Make one request, never through a proxy.

    Args:
        url: What to ask.
        key: Sent as a bearer token unless empty.
        method: The HTTP method.
        body: Sent as JSON unless None.
        seconds: How long to wait.

    Returns:
        The parsed answer; None for one that is no JSON.

    Raises:
        RefusedError: Nobody listens there.
        GatewayError: Any other failure, with the status where there is one.
    """
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data=data, method=method)  # noqa: S310 - the role's own URL
    asked.add_header("Content-Type", "application/json")
    if key:
        asked.add_header("Authorization", f"Bearer {key}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=seconds) as answer:
            text = answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace").strip()[:300]
        raise GatewayError(f"{method} {url}: {error.code} {said}".rstrip()) from error
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        kind = RefusedError if isinstance(reason, ConnectionRefusedError) else GatewayError
        raise kind(f"{method} {url}: {reason}") from error
    try:
        return json.loads(text)
    except ValueError:
        return None


class Router:
    """A running router.

    Args:
        url: Where it listens.
        key: The key of its control plane.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self._key = key

    def workers(self) -> list[Worker]:
        """The registered workers.

        Raises:
            GatewayError: The router does not answer, or not as one.
        """
        return parse_workers(request(f"{self.url}/workers", self._key))

    def find(self, url: str) -> Worker | None:
        """The worker with this URL; None while it is not registered."""
        return next((worker for worker in self.workers() if same_url(worker.url, url)), None)

    def add(self, url: str, key: str) -> str:
        """Begin to add a worker; returns the router's id for it, to ask what became of it."""
        body = {"url": url, **({"api_key": key} if key else {})}
        answer = request(f"{self.url}/workers", self._key, method="POST", body=body)
        return str((answer or {}).get("worker_id", ""))

    def remove(self, worker: Worker) -> None:
        """Begin to remove a worker; its running requests go on."""
        request(f"{self.url}/workers/{worker.id}", self._key, method="DELETE")

    def complaint(self, worker_id: str) -> str:
        """Why the last job about a worker failed, in the router's words; empty if it did not."""
        try:
            answer = request(f"{self.url}/workers/{worker_id}", self._key)
        except GatewayError:
            return ""
        status = (answer or {}).get("job_status") or {}
        return str(status.get("message") or "") if status.get("status") == "failed" else ""


def running(url: str, key: str, seconds: float = _SECONDS) -> int | None:
    """Requests that an engine has.

    Args:
        url: The engine.
        key: Its key.
        seconds: How long to wait for an answer.

    Returns:
        Those that run or wait; 0 where nobody listens any more, None where it does not say.
    """
    try:
        return parse_running(
            request(f"{url.rstrip('/')}/v1/loads?include=core", key, seconds=seconds)
        )
    except RefusedError:
        return 0
    except GatewayError:
        return None


def takes_key(url: str, key: str) -> bool:
    """Whether an engine answers to a key; its health check needs none and cannot tell.

    Args:
        url: The engine.
        key: What a router would send.

    Returns:
        False where the engine refuses it; True in any other case, which the router finds out.
    """
    try:
        request(f"{url.rstrip('/')}/v1/models", key)
    except GatewayError as error:
        cause = error.__cause__
        return not (isinstance(cause, urllib.error.HTTPError) and cause.code in (401, 403))
    return True
