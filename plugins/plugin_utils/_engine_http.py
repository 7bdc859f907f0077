# SPDX-License-Identifier: Apache-2.0
"""Requests to one engine, each ending in an `Answer`: a refused port is an answer too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_DEPTH = 12


class EngineHTTP:
    """The HTTP server of one engine; `where` is its address and port."""

    def __init__(self, session: requests.Session, host: str, port: int, api_key: str = "") -> None:
        bare = host.strip("[]")
        self.where = f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
        self._base = f"http://{self.where}"
        self._session = session
        if api_key:
            session.headers["Authorization"] = f"Bearer {api_key}"

    def get(self, path: str, timeout: float) -> Answer:
        """Send a GET request; `timeout` in seconds covers connecting and each read."""
        return self._send("GET", path, None, timeout)

    def post(self, path: str, body: Mapping[str, Any], timeout: float) -> Answer:
        """Send a POST request with a JSON body."""
        return self._send("POST", path, body, timeout)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float
    ) -> Answer:
        try:
            response = self._session.request(
                method, self._base + path, json=body, timeout=timeout, allow_redirects=False
            )
        except requests.Timeout:
            return Answer(error=f"no answer within {timeout:g} s", late=True)
        except requests.RequestException as error:
            refused = _caused_by(error, ConnectionRefusedError)
            return Answer(error="connection refused" if refused else _brief(error), refused=refused)
        try:
            content = response.json()
        except ValueError:
            content = response.text
        return Answer(status=response.status_code, body=content)


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an exception of this kind is anywhere below; requests and urllib3 wrap in layers."""
    waiting: list[BaseException | None] = [error]
    for _step in range(_MAX_DEPTH):
        if not waiting:
            return False
        one = waiting.pop()
        if one is None:
            continue
        if isinstance(one, kind):
            return True
        waiting += [one.__cause__, one.__context__, getattr(one, "reason", None)]
        waiting += [item for item in one.args if isinstance(item, BaseException)]
    return False


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]
