# SPDX-License-Identifier: Apache-2.0
"""A tiny HTTP server whose answers a test scripts."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS = "127.120.8.2"


@dataclass
class Web:
    """The server: `respond(path, body, headers)` gives status and body; `seen` are the requests."""

    respond: Callable[[str, Any, dict[str, str]], tuple[int, Any]]
    address: str = ADDRESS
    port: int = 0
    protocol: str = "HTTP/1.1"
    seen: list[tuple[str, Any]] = field(default_factory=list)

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [path for path, _body in self.seen]


@contextmanager
def running_web(
    respond: Callable[[str, Any, dict[str, str]], tuple[int, Any]],
    *,
    protocol: str = "HTTP/1.1",
) -> Iterator[Web]:
    """Serve on a free port of a loopback address."""
    web = Web(respond, protocol=protocol)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_GET(self) -> None:
            self._serve(None)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._serve(json.loads(self.rfile.read(length) or b"null"))

        def _serve(self, body: Any) -> None:
            web.seen.append((self.path, body))
            status, answer = web.respond(self.path, body, dict(self.headers))
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the client gave up

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((ADDRESS, 0), Handler)
    server.daemon_threads = True
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
