# SPDX-License-Identifier: Apache-2.0
"""Run a program of the node to its end; that it is not there is an answer, too."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

NOT_THERE, NOT_ALLOWED, TOO_LONG = 127, 126, 124
"""Exit statuses, as a shell and `timeout` give them."""


def run(command: Sequence[str], seconds: float | None = None, **how: Any) -> tuple[int, str]:
    """Run a command without input.

    Args:
        command: The program and its arguments.
        seconds: When it is ended; None for never.
        how: Further arguments of `subprocess.run`, such as `env` or `user`.

    Returns:
        The exit status, and both streams together as text.
    """
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            **how,
        )
    except FileNotFoundError:
        return NOT_THERE, f"{command[0]}: not installed"
    except subprocess.TimeoutExpired as error:
        out = error.stdout or ""
        told = out.decode(errors="replace") if isinstance(out, bytes) else out
        return TOO_LONG, f"{told}no end after {seconds:g} s"
    except OSError as error:
        return NOT_ALLOWED, error.strerror or str(error)
    return done.returncode, done.stdout
