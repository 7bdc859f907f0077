# SPDX-License-Identifier: Apache-2.0
"""When to ask a starting engine what, and what its answers mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

MODEL_INFO_INTERVAL = 1.0
"""Seconds between two `/model_info`; it costs the engine nothing."""
READINESS_INTERVAL = 5.0
"""Seconds between two readiness requests: before SGLang 0.5.20 each is a one-token generation."""
HEALTH_TIMEOUT = 30.0
"""Seconds a client gives `/health`: the engine itself takes up to 20 (0.5.9 http_server.py:503)."""
MODEL_INFO_TIMEOUT = 5.0

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _UNAVAILABLE = 200, 401, 403, 404, 503


@dataclass(frozen=True)
class Answer:
    """What came of one request: an HTTP status, or `error` when there was none.

    `refused` tells a closed port (still loading, or dead) from other errors, `late` an answer that
    did not come in the time that it had.
    """

    status: int = 0
    body: Any = None
    error: str = ""
    refused: bool = False
    late: bool = False

    @property
    def unauthorized(self) -> bool:
        """Whether the engine did not take the API key."""
        return self.status in (_UNAUTHORIZED, _FORBIDDEN)


class Ask(Enum):
    """The next request to send; the value is its path."""

    MODEL_INFO = "/model_info"
    READY = "/ready"
    HEALTH = "/health"

    @property
    def timeout(self) -> float:
        """Seconds to give the request."""
        return HEALTH_TIMEOUT if self is Ask.HEALTH else MODEL_INFO_TIMEOUT


@dataclass
class Readiness:
    """Decides one engine's readiness from the answers to a few well spaced requests.

    The port opens only once all schedulers have loaded; then `/model_info` answers while the
    warm-up still runs, and `/health` is 503 until it ends (0.5.9 to 0.5.23). `/ready` came with
    0.5.20 and generates nothing; a release without it answers 404 once and is asked `/health`
    from then on. At most one request is in flight: `next` is not called before `answered`.

    Of an engine over several nodes only the first (`rank` 0) is all that. The others answer
    `/health` with 200 and everything else with 404, as soon as their schedulers have loaded
    (0.5.9 srt/entrypoints/engine.py:1052, 0.5.23 :1281).
    """

    ready: bool = False
    unauthorized: bool = False
    model_info: dict[str, Any] | None = None
    last: Answer | None = None
    has_ready: bool = True
    rank: int = 0
    _sent: float = float("-inf")
    _pause: float = 0.0

    @property
    def up(self) -> bool:
        """Whether the engine's HTTP server answers."""
        return self.model_info is not None

    def hurry(self) -> None:
        """The journal says "ready": confirm it soon rather than at the next turn."""
        self._pause = min(self._pause, MODEL_INFO_INTERVAL)

    def next(self, now: float) -> tuple[Ask, float]:
        """The next request, and the monotonic time from which it may be sent."""
        confirm = Ask.READY if self.has_ready and not self.rank else Ask.HEALTH
        return confirm if self.up or self.rank else Ask.MODEL_INFO, max(
            now, self._sent + self._pause
        )

    def sent(self, ask: Ask, now: float) -> None:
        """Note that a request goes out at monotonic time `now`."""
        self._sent = now
        costly = ask is Ask.HEALTH and not self.rank
        self._pause = READINESS_INTERVAL if costly else MODEL_INFO_INTERVAL

    def answered(self, ask: Ask, answer: Answer) -> None:
        """Take the answer to a request."""
        self.last = answer
        if answer.refused:
            self.model_info = None  # closed, or closed again
        elif ask is Ask.MODEL_INFO:
            self.unauthorized = answer.unauthorized
            if answer.status == _OK and isinstance(answer.body, dict):
                self.model_info = answer.body
                self._pause = 0.0
        elif answer.status == _OK:
            self.ready = True
        elif ask is Ask.READY and answer.status in (_UNAUTHORIZED, _NOT_FOUND):
            # A release that has it answers 200 or 503, key or no key.
            self.has_ready = False
            self._pause = 0.0

    def waiting_for(self) -> str:
        """What stands between now and ready, in words, with the last answer."""
        last = self.last
        if last is None:
            return "nothing has been asked yet"
        if not self.up:
            if last.refused:
                return "the port is still closed (the engine opens it once everything is loaded)"
            path = Ask.HEALTH.value if self.rank else Ask.MODEL_INFO.value
            return f"{path} answers {last.error or last.status}"
        path = "/ready" if self.has_ready else "/health"
        if last.status == _UNAVAILABLE:
            return f"the port is open but {path} answers 503: still warming up, or hung"
        return f"the port is open but {path} answers {last.error or last.status}"


ENGINE_FIELDS = (
    "model_path",
    "served_model_name",
    "model_type",
    "architectures",
    "is_generation",
    "has_image_understanding",
    "weight_version",
    "reasoning_parser",
    "tool_call_parser",
)


def describe_engine(model_info: dict[str, Any]) -> dict[str, Any]:
    """The part of `/model_info` that identifies the engine; never all of it, by principle."""
    return {name: model_info[name] for name in ENGINE_FIELDS if name in model_info}
