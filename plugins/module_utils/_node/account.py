# SPDX-License-Identifier: Apache-2.0
"""Run a program as the engine's user."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence


def run_as(
    user: str, command: Sequence[str], environment: Mapping[str, object]
) -> subprocess.CompletedProcess[str]:
    """Run a program as another user, with an environment of its own.

    Args:
        user: The account.
        command: Program and arguments.
        environment: Variables beside a bare PATH, HOME and a UTF-8 locale.

    Returns:
        The finished process; its exit status is not checked.
    """
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8"}
    variables.update({name: str(value) for name, value in environment.items()})
    return subprocess.run(
        ["/usr/sbin/runuser", "-u", user, "--", *command],
        env=variables,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def last_line(text: str) -> str:
    """The last line of a program's output, which is where Python names the exception."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
