# SPDX-License-Identifier: Apache-2.0
"""`requests` over a connection that opens its sockets on the node."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, Protocol
from urllib.parse import urlparse

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

if TYPE_CHECKING:
    import paramiko


class Opener(Protocol):
    """Whatever opens a connection to one of the node's own addresses."""

    def open_tcp(self, host: str, port: int, timeout: float | None) -> ChannelSocket:
        """Open it; raises ConnectionRefusedError when nobody listens there."""


def plain_session() -> requests.Session:
    """A session without the controller's own proxy settings."""
    session = requests.Session()
    session.trust_env = False  # no proxy and no .netrc of the controller on the way to a loopback
    return session


class ChannelSocket:
    """As much of a socket as http.client and urllib3 use, over a channel.

    A channel ends at once when closed; a socket lives on until the files made from it are closed
    too, and http.client relies on that for answers with `Connection: close`.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._files = 0
        self._closed = False

    def makefile(self, mode: str = "rb", buffering: int | None = None) -> IO[bytes]:
        if mode != "rb":
            raise ValueError(f"only reading is supported, not {mode!r}")
        self._files += 1
        return io.BufferedReader(_ChannelReader(self), buffering or io.DEFAULT_BUFFER_SIZE)

    def recv_into(self, buffer: Any) -> int:
        data = self._channel.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def sendall(self, data: bytes) -> None:
        self._channel.sendall(data)

    def settimeout(self, timeout: float | None) -> None:
        self._channel.settimeout(timeout)

    def fileno(self) -> int:
        return self._channel.fileno()

    def shutdown(self, how: int) -> None:
        self._channel.shutdown(how)

    def close(self) -> None:
        self._closed = True
        self._end_if_unused()

    def release(self) -> None:
        self._files -= 1
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._closed and self._files <= 0:
            self._channel.close()


class _ChannelReader(io.RawIOBase):
    def __init__(self, owner: ChannelSocket) -> None:
        self._owner = owner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._owner.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._owner.release()


class _TunnelConnection(HTTPConnection):
    def __init__(self, *args: Any, opener: Opener, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opener = opener

    def connect(self) -> None:
        timeout = self.timeout if isinstance(self.timeout, (int, float)) else None
        self.sock = self._opener.open_tcp(self.host, self.port or 80, timeout)


class _TunnelPool(HTTPConnectionPool):
    ConnectionCls = _TunnelConnection


class TunnelAdapter(HTTPAdapter):
    """Sends requests through channels of one node's connection."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._pools: dict[tuple[str, int], _TunnelPool] = {}
        super().__init__(max_retries=0)

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: Any,  # noqa: ARG002
        proxies: Any = None,  # noqa: ARG002
        cert: Any = None,  # noqa: ARG002
    ) -> HTTPConnectionPool:
        """One pool per address; proxies and certificates have no meaning here."""
        return self.get_connection(request.url or "")

    def get_connection(self, url: Any, proxies: Any = None) -> HTTPConnectionPool:  # noqa: ARG002
        """The same for requests before 2.32."""
        parts = urlparse(url)
        where = (parts.hostname or "", parts.port or 80)
        if where not in self._pools:
            self._pools[where] = _TunnelPool(*where, opener=self._opener)
        return self._pools[where]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        super().close()
