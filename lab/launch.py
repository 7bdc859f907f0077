# SPDX-License-Identifier: Apache-2.0
"""Start a program that outlives this one, recorded before it exists."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lab.process import Process, identify
from lab.state import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


_DESCRIPTORS = 4096


def spawn_detached(
    command: Sequence[str],
    environ: Mapping[str, str],
    log: Path,
    prepare: Callable[[Process], None],
) -> None:
    """Run a program in a session of its own, as nobody's child.

    Args:
        command: argument list; the first is a path or found on PATH.
        environ: its environment.
        log: file that gets its output, emptied first.
        prepare: called in the new process, with its identity, just before it becomes the program.
            So a caller that is killed at any moment leaves either no process or a recorded one.

    Raises:
        LabError: it could not be started.
    """
    read_end, write_end = os.pipe()  # closed on exec: end of file means started
    child = os.fork()
    if child == 0:
        _become(command, environ, log, prepare, write_end)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as pipe:
        error = pipe.read()
    os.waitpid(child, 0)
    if error:
        raise LabError(f"cannot start {command[0]}: {error}")


def _become(
    command: Sequence[str],
    environ: Mapping[str, str],
    log: Path,
    prepare: Callable[[Process], None],
    write_end: int,
) -> None:
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDONLY)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        # What the caller had open is not the node's: a lock would be held for as long as it runs.
        os.closerange(3, write_end)
        os.closerange(write_end + 1, _DESCRIPTORS)
        myself = identify(os.getpid())
        if myself is None:
            raise LabError("/proc does not show this process")
        prepare(myself)
        os.execvpe(command[0], list(command), environ)  # noqa: S606
    except BaseException as error:  # a copy of the caller: nothing may get back into its code
        os.write(write_end, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(127)
