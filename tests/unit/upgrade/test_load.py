# SPDX-License-Identifier: Apache-2.0
"""The clients against a server that answers, breaks off, hangs and refuses, on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.upgrade import load
from tests.upgrade.load import Direct, Engine, Load, Question, question
from tests.upgrade.records import Outcome, classify, read

EXPECTED = " one two"
STREAM, WHOLE = ({"stream": stream} for stream in (True, False))


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"delta": {"reasoning_content": text, "content": None}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


class Handler(BaseHTTPRequestHandler):
    """Behaves as the path says."""

    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(self.server.health)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        getattr(self, self.path.strip("/").replace("/", "_"))(body)

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def right(self, body: dict[str, Any]) -> None:
        if body["stream"]:
            parts = event(" one") + event(" two", "length") + b"data: [DONE]\n\n"
        else:
            choice = {"message": {"content": EXPECTED}, "finish_reason": "length"}
            parts = json.dumps({"choices": [choice]}).encode()
        self.answer(200, parts)

    def breaks_off(self, body: dict[str, Any]) -> None:
        self.answer(200, event(" one"), length=10_000)

    def ends_early(self, body: dict[str, Any]) -> None:
        self.answer(200, event(" one") + event(" two"))

    def says_nothing(self, body: dict[str, Any]) -> None:
        self.close_connection = True

    def tells_an_error(self, body: dict[str, Any]) -> None:
        self.answer(200, event(" one") + b'data: {"error": {"message": "dead"}}\n\n')

    def unavailable(self, body: dict[str, Any]) -> None:
        self.answer(503, b"no")

    def fails(self, body: dict[str, Any]) -> None:
        self.answer(500, b"no")

    def hangs(self, body: dict[str, Any]) -> None:
        self.server.released.wait(10)

    def trickles(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while not self.server.released.wait(0.05):
                self.wfile.write(event(" one"))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.health = 200
        self.released = threading.Event()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def engine(server: Server) -> Engine:
    engine = Engine("127.0.0.1", server.server_address[1], "key")
    engine.look()
    return engine


@pytest.mark.parametrize(
    ("path", "body", "outcome"),
    [
        ("/right", STREAM, Outcome.ANSWERED),
        ("/right", WHOLE, Outcome.ANSWERED),
        ("/breaks_off", STREAM, Outcome.CUT),
        ("/breaks_off", WHOLE, Outcome.CUT),
        ("/ends_early", STREAM, Outcome.CUT),
        ("/says_nothing", STREAM, Outcome.CUT),
        ("/says_nothing", WHOLE, Outcome.CUT),
        ("/tells_an_error", STREAM, Outcome.CUT),
        ("/unavailable", WHOLE, Outcome.REFUSED),
        ("/fails", STREAM, Outcome.FAILED),
        ("/hangs", STREAM, Outcome.TIMEOUT),
        ("/hangs", WHOLE, Outcome.TIMEOUT),
        ("/trickles", STREAM, Outcome.TIMEOUT),
    ],
)
def test_what_a_client_sees(
    engine: Engine,
    path: str,
    body: dict[str, Any],
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "REQUEST_SECONDS", 0.5)
    seen = engine.ask(Question("any", path, body, EXPECTED))
    assert classify(seen, EXPECTED) is outcome, seen


def test_nothing_is_sent_to_an_engine_that_is_not_healthy(server: Server, engine: Engine) -> None:
    server.health = 503
    engine.look()
    seen = engine.ask(Question("any", "/right", WHOLE, EXPECTED))
    assert (seen.status, classify(seen, EXPECTED)) == (503, Outcome.REFUSED)


def test_a_client_without_a_proxy_sends_whatever_the_health(server: Server) -> None:
    server.health = 503
    direct = Direct("127.0.0.1", server.server_address[1], "key")
    direct.look()
    seen = direct.ask(Question("any", "/right", WHOLE, EXPECTED))
    assert classify(seen, EXPECTED) is Outcome.ANSWERED, seen


def test_where_nobody_listens_a_client_knows_it_at_once(server: Server, engine: Engine) -> None:
    server.shutdown()
    server.server_close()
    for healthy in (True, False):  # also before the proxy has noticed
        engine.healthy = healthy
        seen = engine.ask(Question("any", "/right", WHOLE, EXPECTED))
        assert classify(seen, EXPECTED) is Outcome.REFUSED, seen
    engine.look()
    assert not engine.healthy


def test_every_request_is_written_down_twice(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    asking = Load(engine, "kimi-lab", path, clients=2)
    began = time.time()
    asking.start()
    deadline = time.monotonic() + 10
    while len(asking.records()) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    asking.stop()
    assert asking.open() == []
    found = read(path.read_text().splitlines())
    assert found == sorted(asking.records(), key=lambda record: record.number)
    assert len(path.read_text().splitlines()) == 2 * len(found)
    # The server knows no such paths: an honest failure, never an answer.
    assert {record.outcome for record in found} <= {Outcome.CUT, Outcome.FAILED}
    assert asking.answers(began) == 0


def test_questions_differ_and_have_answers_of_their_own() -> None:
    asked = [question(number, "kimi-lab") for number in range(1, 41)]
    assert len({item.kind for item in asked}) == 4
    assert len({json.dumps(item.body) for item in asked}) == 40
    assert len({item.expected for item in asked}) > 20
    assert question(7, "kimi-lab") == question(7, "kimi-lab")
