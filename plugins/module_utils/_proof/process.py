# SPDX-License-Identifier: Apache-2.0
"""Run a proof's program as the engine's user, with a hard deadline, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._node import account

_END_SECONDS = 10.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Ended:
    """A program that is over.

    Attributes:
        status: Exit status, negative for a signal.
        output: Its standard output.
        errors: Its error output.
        timed_out: Whether it was stopped at its deadline.
        left: Its processes that could not be ended (they wait in a driver).
        seconds: How long it took.
    """

    status: int
    output: str
    errors: str
    timed_out: bool
    left: tuple[int, ...]
    seconds: float


def run_program(
    user: str,
    python: Path,
    source: str,
    argument: str,
    *,
    environment: Mapping[str, object],
    deadline: float,
    scratch: Path | None = None,
) -> Ended:
    """Run a Python program in a session of its own.

    Args:
        user: Whose rights it has.
        python: The interpreter.
        source: The program's text; it is run from a file, which some compilers read again.
        argument: Its one argument.
        environment: Variables beside PATH, HOME (a folder that ends with it) and the locale.
        deadline: Seconds after which the whole session is ended.
        scratch: Folder for its HOME; the system's own when left out. Compilers run what they put
            there, so it must not be mounted without the right to.

    Returns:
        How it ended. Output goes through files, so a process that cannot be ended holds nobody up.

    Raises:
        account.AccountError: The user cannot be had.
    """
    owner, identity = account.become(user)
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as home:
        program = Path(home, "program.py")
        program.write_text(source, encoding="utf-8")
        if identity:
            os.chown(home, owner.pw_uid, owner.pw_gid)
            os.chown(program, owner.pw_uid, owner.pw_gid)
        variables = {"PATH": "/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8"}
        variables.update({name: str(value) for name, value in environment.items()})
        # HOME may be a cache of the engine that does not exist yet.
        variables["HOME"] = home
        began = time.monotonic()
        with tempfile.TemporaryFile("w+b") as output, tempfile.TemporaryFile("w+b") as errors:
            try:
                process = subprocess.Popen(
                    [str(python), "-B", str(program), argument],
                    env=variables,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                    **identity,
                )
            except OSError as error:
                return Ended(1, "", str(error), False, (), 0.0)
            timed_out = False
            try:
                process.wait(deadline)
            except subprocess.TimeoutExpired:
                timed_out = True
            left = end_session(process)
            return Ended(
                process.returncode if process.returncode is not None else -signal.SIGKILL,
                _text(output.fileno()),
                _text(errors.fileno()),
                timed_out,
                left,
                round(time.monotonic() - began, 1),
            )


def scratch(root: Path) -> Path | None:
    """The product's own cache, which may be executed from; /tmp of a hardened node may not."""
    place = root / "cache"
    return place if place.is_dir() else None


def end_session(process: subprocess.Popen[bytes]) -> tuple[int, ...]:
    """End every process of a session that `run_program` began, and no other.

    Args:
        process: The session's first process.

    Returns:
        Process ids that are still there after some seconds.
    """
    end = time.monotonic() + _END_SECONDS
    while True:
        left = session_members(process.pid)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
        if not left or time.monotonic() >= end:
            return left
        time.sleep(_POLL_SECONDS)


def session_members(session: int) -> tuple[int, ...]:
    """Processes of a session that have not ended, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # pid (name) state parent group session: the name may hold spaces and brackets.
        fields = text.rpartition(")")[2].split()
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(int(entry.name))
    return tuple(sorted(found))


def _text(descriptor: int) -> str:
    return Path(f"/proc/self/fd/{descriptor}").read_bytes().decode("utf-8", errors="replace")
