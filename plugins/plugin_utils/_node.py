# SPDX-License-Identifier: Apache-2.0
"""A node as the controller's plugins see it, and the controller itself as one."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.plugin_utils._tunnel import plain_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import requests


class NodeError(Exception):
    """The node cannot be reached or used; the text names the cause and the remedy."""


class ForwardingRefusedError(NodeError):
    """The node's SSH server forbids TCP forwarding."""


@dataclass(frozen=True)
class Completed:
    """A finished command."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Become:
    """How to run a command as root: plain sudo, with its password where it needs one."""

    executable: str = "sudo"
    password: str = ""

    def wrap(self, command: Sequence[str]) -> tuple[list[str], str]:
        """The command under sudo, and what to write to its input."""
        if self.password:
            return [self.executable, "-S", "-p", "", "--", *command], self.password + "\n"
        return [self.executable, "-n", "--", *command], ""


class Follow(ABC):
    """A running command whose lines are read as they come."""

    @abstractmethod
    def __iter__(self) -> Iterator[str]:
        """Yield lines until the command ends or `close` is called."""

    @abstractmethod
    def close(self) -> None:
        """End the command; may be called from another thread, and more than once."""


class Talk(Follow):
    """A running command that is also written to."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Write to its input.

        Raises:
            NodeError: the connection is lost, or the command has ended.
        """

    @abstractmethod
    def end(self) -> None:
        """End its input; it goes on to its own end."""

    @abstractmethod
    def errors(self) -> str:
        """What it wrote to its error output."""


class Node(ABC):
    """A node to look at: over SSH, or this machine itself."""

    def __init__(self, become: Become | None = None) -> None:
        self._become = become

    def run(self, command: Sequence[str], *, timeout: float, root: bool = False) -> Completed:
        """Run a command to its end.

        Raises:
            NodeError: the connection is lost or the command takes longer than `timeout` seconds.
        """
        argv, given = self._wrapped(command, root)
        return self._run(argv, given, timeout)

    def follow(self, command: Sequence[str], *, root: bool = False) -> Follow:
        """Start a command and follow its output."""
        argv, given = self._wrapped(command, root)
        return self._follow(argv, given)

    def _wrapped(self, command: Sequence[str], root: bool) -> tuple[list[str], str]:
        if root and self._become is not None:
            return self._become.wrap(command)
        return list(command), ""

    @abstractmethod
    def _run(self, argv: list[str], given: str, timeout: float) -> Completed: ...

    @abstractmethod
    def _follow(self, argv: list[str], given: str) -> Follow: ...

    @abstractmethod
    def http(self) -> requests.Session:
        """A session whose `http://HOST:PORT` are the node's own addresses."""

    @abstractmethod
    def close(self) -> None:
        """End the connection and everything started over it."""


class LocalNode(Node):
    """The controller itself (`ansible_connection=local`)."""

    def _run(self, argv: list[str], given: str, timeout: float) -> Completed:
        try:
            done = subprocess.run(
                argv,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NodeError(f"`{argv[0]}` did not end within {timeout:g} s") from error
        except OSError as error:
            raise NodeError(f"cannot run `{argv[0]}`: {error.strerror}") from error
        return Completed(done.returncode, done.stdout, done.stderr)

    def _follow(self, argv: list[str], given: str) -> Follow:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise NodeError(f"cannot run `{argv[0]}`: {error.strerror}") from error
        return _LocalFollow(process, given)

    def http(self) -> requests.Session:
        return plain_session()

    def close(self) -> None:
        """Nothing is kept open."""


class _LocalFollow(Follow):
    def __init__(self, process: subprocess.Popen[str], given: str) -> None:
        self._process = process
        if process.stdin:
            with suppress(OSError):
                process.stdin.write(given)
                process.stdin.close()

    def __iter__(self) -> Iterator[str]:
        with suppress(ValueError):  # the pipe was closed under the reader
            yield from self._process.stdout or ()

    def close(self) -> None:
        # Under sudo the signal goes to sudo, which passes it on.
        with suppress(OSError):
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
