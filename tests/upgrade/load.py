# SPDX-License-Identifier: Apache-2.0
"""Clients that ask an engine all the time, behind what a proxy does, and write down every request.

Of the engine they know what a proxy knows: `/health`, asked again and again. While it is not 200
nothing is sent: a client gets 503 when somebody listens and "connection refused" when nobody does,
and either at once. The answers are known beforehand: the lab's target counts.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import requests

from lab.inventory import addresses, listing
from lab.models.vocabulary import vocabulary, words
from lab.state import Lab, state_dir
from tests.upgrade.records import Outcome, Record, Seen, Trouble, classify

REQUEST_SECONDS = 150.0
"""No request may take longer; above `engine_stop_timeout`, to which a drain is bounded."""
_PORT = 30000
_CONNECT_SECONDS = 5.0
_HEALTH_SECONDS = 30.0
_HEALTH_PAUSE = 0.25
_PAUSE = 2.0


@dataclass(frozen=True)
class Question:
    """A request with its one right answer."""

    kind: str
    path: str
    body: dict[str, Any]
    expected: str


def question(number: int, model: str) -> Question:
    """The question of a number: chat or text, streamed or whole, another answer each time."""
    choose = random.Random(number)  # noqa: S311 - variety, not secrecy
    count = choose.randint(4, 12)
    chat, stream = number % 2 == 0, number % 4 < 2
    known = vocabulary()
    body: dict[str, Any] = {"model": model, "max_tokens": count, "temperature": 0, "stream": stream}
    if chat:
        last, path = ":", "/v1/chat/completions"
        body["messages"] = [{"role": "user", "content": f"Please count, {number}."}]
    else:
        word = choose.choice(words()[:40])
        last, path = f" {word}", "/v1/completions"
        body["prompt"] = f"Count on, {number}: {word}"
    expected = known.text(known.continuation(known.token_id(last), count))
    kind = f"{'chat' if chat else 'text'}, {'streamed' if stream else 'whole'}"
    return Question(kind, path, body, expected)


def said(choice: dict[str, Any]) -> str:
    """The text in one choice of an answer or of a stream's event; thinking is text too."""
    part = choice.get("delta") or choice.get("message") or choice
    names = ("reasoning_content", "content", "text")
    return "".join(part.get(name) or "" for name in names)


def events(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The events of a stream, up to its end mark."""
    for line in lines:
        text = line.decode(errors="replace")
        if text.startswith("data: {"):
            yield json.loads(text.removeprefix("data: "))
        elif text.startswith("data: [DONE]"):
            return


class Engine:
    """The HTTP server that is asked, and what a proxy in front of it knows."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self.address = (host, port)
        self.base = f"http://{host}:{port}"
        self.headers = {"Authorization": f"Bearer {key}"}
        self.healthy = False

    def look(self) -> None:
        """Ask for its health, as a proxy does."""
        try:
            answer = requests.get(
                f"{self.base}/health", timeout=(_CONNECT_SECONDS, _HEALTH_SECONDS)
            )
            self.healthy = answer.status_code == 200
        except requests.RequestException:
            self.healthy = False

    def ask(self, asked: Question) -> Seen:
        """Send one request, or refuse it where a proxy would."""
        if not self.healthy:
            return self._refuse()
        deadline = time.monotonic() + REQUEST_SECONDS
        seen = Seen()
        try:
            with requests.post(
                self.base + asked.path,
                json=asked.body,
                headers=self.headers,
                stream=True,
                timeout=(_CONNECT_SECONDS, REQUEST_SECONDS),
            ) as response:
                seen = replace(seen, status=response.status_code)
                if response.status_code != 200:
                    return replace(seen, error=response.text[:200])
                for event in self._parts(response, stream=bool(asked.body["stream"])):
                    seen = _more(seen, event)
                    if time.monotonic() > deadline:
                        return replace(seen, trouble=Trouble.TIMEOUT)
        except requests.Timeout:
            return replace(seen, trouble=Trouble.TIMEOUT)
        except (requests.RequestException, ValueError) as error:
            refused = "Connection refused" in str(error)
            trouble = Trouble.REFUSED if refused else Trouble.BROKEN
            return replace(seen, trouble=trouble, error=str(error)[:200])
        return seen

    @staticmethod
    def _parts(response: requests.Response, *, stream: bool) -> Iterator[dict[str, Any]]:
        if stream:
            yield from events(response.iter_lines())
        else:
            yield response.json()

    def _refuse(self) -> Seen:
        try:
            with socket.create_connection(self.address, _CONNECT_SECONDS):
                return Seen(status=503, error="not healthy")
        except TimeoutError:
            return Seen(trouble=Trouble.TIMEOUT)
        except OSError as error:
            return Seen(trouble=Trouble.REFUSED, error=str(error))


class Direct(Engine):
    """The same without a proxy: whatever its health, it is sent every request."""

    def look(self) -> None:
        """Ask nothing."""
        self.healthy = True


def _more(seen: Seen, event: dict[str, Any]) -> Seen:
    if "error" in event:
        return replace(seen, error=json.dumps(event["error"])[:200])
    for choice in event.get("choices", []):
        finish = choice.get("finish_reason") or seen.finish
        seen = replace(seen, text=seen.text + said(choice), finish=finish)
    return seen


class Load:
    """Several clients at once; every request is written down when it starts and when it ends."""

    def __init__(self, engine: Engine, model: str, journal: Path, clients: int = 4) -> None:
        self._engine, self._model = engine, model
        self._journal: TextIO = journal.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._next = 0
        self._open: dict[int, Record] = {}
        self._closed: list[Record] = []
        self._done = threading.Event()
        work: list[Callable[[], None]] = [self._watch, *[self._ask] * clients]
        self._threads = [threading.Thread(target=one, daemon=True) for one in work]

    def start(self) -> None:
        """Let the clients begin, with a proxy that knows the engine."""
        self._engine.look()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the clients finish what they asked; afterwards a record without an end is lost."""
        self._done.set()
        for thread in self._threads:
            thread.join(REQUEST_SECONDS + _HEALTH_SECONDS)
        self._journal.close()

    def records(self, since: float = 0.0) -> list[Record]:
        """The closed records that ended since a moment."""
        with self._lock:
            return [r for r in self._closed if r.end is not None and r.end >= since]

    def open(self) -> list[Record]:
        """The requests whose outcome nobody knows yet; after `stop` they are lost."""
        with self._lock:
            return list(self._open.values())

    def answers(self, since: float) -> int:
        """How many right answers came to requests that began after a moment."""
        good = [r for r in self.records(since) if r.outcome is Outcome.ANSWERED]
        return sum(record.start >= since for record in good)

    def _watch(self) -> None:
        while not self._done.is_set():
            self._engine.look()
            self._done.wait(_HEALTH_PAUSE)

    def _ask(self) -> None:
        while not self._done.is_set():
            with self._lock:
                self._next += 1
                asked = question(self._next, self._model)
                record = Record(self._next, asked.kind, time.time())
                self._open[record.number] = record
                self._journal.write(record.line() + "\n")
            seen = self._engine.ask(asked)
            outcome = classify(seen, asked.expected)
            detail = "" if outcome is Outcome.ANSWERED else _describe(seen)
            record = replace(record, end=time.time(), outcome=outcome, detail=detail)
            with self._lock:
                del self._open[record.number]
                self._closed.append(record)
                self._journal.write(record.line() + "\n")
            self._done.wait(_PAUSE)


def _describe(seen: Seen) -> str:
    told = [f"status {seen.status}" if seen.status else "", seen.trouble.value, seen.error]
    if seen.text:
        told.append(f"text {seen.text!r}, finish reason {seen.finish!r}")
    return "; ".join(part for part in told if part)


@contextmanager
def clients(journal: Path, count: int = 4, kind: type[Engine] = Engine) -> Iterator[Load]:
    """Clients of the lab's first node, for as long as the context lasts.

    Args:
        journal: Where the records go.
        count: How many clients ask at the same time.
        kind: Whether there is a proxy that reads the engine's health.
    """
    node = listing(Lab(state_dir()), addresses(Lab(state_dir())))["_meta"]["hostvars"]["lab-1"]
    key = (state_dir() / "secrets" / "api_key").read_text().split()[0]
    load = Load(kind(node["engine_host"], _PORT, key), "kimi-lab", journal, count)
    load.start()
    try:
        yield load
    finally:
        load.stop()
