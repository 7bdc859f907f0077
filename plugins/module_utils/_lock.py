# SPDX-License-Identifier: Apache-2.0
"""One run at a time: locks that end with the process that holds them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.05
_FOLDER_SECONDS = 60.0


def acquire(descriptor: int, seconds: float) -> None:
    """Lock an open file or folder for this process alone.

    Args:
        descriptor: The open file; closing it ends the lock.
        seconds: How long somebody else may hold it.

    Raises:
        TimeoutError: Somebody else held it for longer.
    """
    give_up = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() >= give_up:
            raise TimeoutError(f"another run has held it for {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def folder(place: Path, seconds: float = _FOLDER_SECONDS) -> Iterator[None]:
    """Hold a folder; a second run waits. Leaves no file behind.

    Args:
        place: The folder; it exists.
        seconds: How long to wait.

    Raises:
        TimeoutError: Somebody else held it for longer.
        OSError: There is no such folder, or it may not be read.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        acquire(descriptor, seconds)
        yield
    finally:
        os.close(descriptor)
