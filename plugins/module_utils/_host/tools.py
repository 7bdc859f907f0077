# SPDX-License-Identifier: Apache-2.0
"""Run the host's own tools, each within its own time, in one language."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Driver tools without persistence mode initialise every GPU at each call: seconds on 8 of them.
GPU_SECONDS = 45.0
SECONDS = 15.0
_LIMIT = 8 << 20  # characters; a kernel log or an endless tool must not fill the node's memory
# A read from /proc/sys asks the kernel for a buffer of this size; above 4 MiB it refuses.
_FILE_LIMIT = 1 << 20
_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")


@dataclass(frozen=True)
class Output:
    """What a tool said.

    Attributes:
        state: `ok`, `failed` (another exit status than 0), `missing` (no such program) or
            `timeout` (killed after its time).
        text: Standard output.
        error: Standard error.
    """

    state: str
    text: str = ""
    error: str = ""

    @property
    def said(self) -> str:
        """Both streams in one line, cut to a length that fits into a message."""
        return " ".join(f"{self.text} {self.error}".split())[:300]


class Tools:
    """The tools of one system.

    Args:
        root: Root of the system. "/" is the running one: its tools are found on PATH. Another
            root is a recorded one: its tools are those inside it, never those of this machine.
    """

    def __init__(self, root: Path) -> None:
        self._path = os.pathsep.join(str(root / folder) for folder in _PATH)
        if root == Path("/"):
            self._path = os.pathsep.join([os.environ.get("PATH", ""), self._path])

    def run(self, name: str, *words: str, seconds: float = SECONDS) -> Output:
        """Run a tool to its end or to the end of its time.

        Args:
            name: The program.
            *words: Its arguments.
            seconds: How long it may take.

        Returns:
            What it said; never an exception.
        """
        program = shutil.which(name, path=self._path)
        if program is None:
            return Output("missing")
        # LANGUAGE wins over LC_ALL in GNU gettext: both are set.
        clean = {"PATH": self._path, "LC_ALL": "C", "LANGUAGE": "C", "HOME": "/"}
        try:
            process = subprocess.Popen(
                [program, *words],
                env=clean,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return Output("failed", error=str(error))
        try:
            streams = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # A process that waits in the driver does not die of a signal: it is not waited for.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=1)
            return Output("timeout", error=f"no answer within {seconds:.0f} s")
        text, errors = (stream[:_LIMIT].decode("utf-8", "replace") for stream in streams)
        return Output("ok" if process.returncode == 0 else "failed", text, errors)


def read_text(path: Path) -> str:
    """A file's text without the white space at its ends; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_FILE_LIMIT).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def read_int(path: Path) -> int | None:
    """The whole number that a file holds, None when it holds none."""
    try:
        return int(read_text(path), 0)
    except ValueError:
        return None
