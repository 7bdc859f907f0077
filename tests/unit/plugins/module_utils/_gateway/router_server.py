# SPDX-License-Identifier: Apache-2.0
"""A server with the worker API of sglang-router 0.3.2, as tests/recordings/router shows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[4] / "recordings" / "router"
ADMIN = "a" * 48


def recorded(name: str) -> Any:
    return json.loads((RECORDINGS / name).read_text())


@dataclass
class Book:
    """What the server knows: registered workers by URL, and how it is to behave."""

    workers: dict[str, dict[str, Any]] = field(default_factory=dict)
    # URL to why adding it fails.
    refuses: dict[str, str] = field(default_factory=dict)
    unhealthy: set[str] = field(default_factory=set)
    keeps: bool = False
    # What the engine at this same address takes; anything where it is None.
    engine_key: str | None = None
    running: list[int] = field(default_factory=lambda: [0])
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def entry(self, url: str) -> dict[str, Any]:
        shape = recorded("workers.json")["workers"][0]
        name = f"00000000-0000-4000-8000-{abs(hash(url)) % 10**12:012d}"
        return {**shape, "id": name, "url": url, "is_healthy": url not in self.unhealthy}


class Handler(BaseHTTPRequestHandler):
    book: Book

    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode() if not isinstance(body, str) else body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> Any:
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length)) if length else None

    def allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {ADMIN}":
            return True
        self.answer(401, "Invalid authentication token")
        return False

    def do_GET(self) -> None:
        self.book.requests.append(("GET", self.path, None))
        if self.path.startswith("/v1/loads"):
            load = recorded("loads-0.5.9.json")
            number = (
                self.book.running.pop(0) if len(self.book.running) > 1 else self.book.running[0]
            )
            load["loads"][0]["num_running_reqs"] = number
            self.answer(200, load)
        elif self.path == "/v1/models":
            wrong = self.book.engine_key not in (None, (self.headers["Authorization"] or "")[7:])
            self.answer(401 if wrong else 200, {})
        elif self.allowed():
            if self.path == "/workers":
                listed = [self.book.entry(url) for url in self.book.workers]
                self.answer(200, {**recorded("workers.json"), "workers": listed})
            else:
                status = recorded("refused.json")
                message = self.book.jobs.get(self.path.rpartition("/")[2], "")
                status["job_status"]["message"] = message
                status["job_status"]["status"] = "failed" if message else "processing"
                self.answer(200, status)

    def do_POST(self) -> None:
        body = self.body()
        self.book.requests.append(("POST", self.path, body))
        if self.allowed():
            entry = self.book.entry(body["url"])
            if body["url"] in self.book.refuses:
                self.book.jobs[entry["id"]] = self.book.refuses[body["url"]]
            else:
                self.book.workers[body["url"]] = body
            self.answer(202, {**recorded("adding.json"), "worker_id": entry["id"]})

    def do_DELETE(self) -> None:
        self.book.requests.append(("DELETE", self.path, None))
        if self.allowed():
            for url in list(self.book.workers):
                if (
                    self.book.entry(url)["id"] == self.path.rpartition("/")[2]
                    and not self.book.keeps
                ):
                    del self.book.workers[url]
            self.answer(202, {"status": "accepted"})


@contextmanager
def serving() -> Iterator[Book]:
    """Run it on a free port of loopback."""
    book = Book()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"book": book}))
    book.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield book
    finally:
        server.shutdown()
        server.server_close()
