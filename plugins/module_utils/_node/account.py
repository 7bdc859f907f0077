# SPDX-License-Identifier: Apache-2.0
"""Run a program as the engine's user."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any


class AccountError(RuntimeError):
    """The user cannot be had; the message says why."""


def become(user: str) -> tuple[pwd.struct_passwd, dict[str, Any]]:
    """What it takes to run as another user.

    Args:
        user: The account.

    Returns:
        The account, and arguments for `subprocess`; none where this process is that user already.

    Raises:
        AccountError: There is no such user, or this process has no right to become it.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise AccountError(f"there is no user {user}") from None
    if os.geteuid() == 0:
        groups = os.getgrouplist(user, account.pw_gid)
        return account, {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
    if os.geteuid() != account.pw_uid:
        raise AccountError(f"only root can become {user}")
    return account, {}


def run_as(
    user: str, command: Sequence[str], environment: Mapping[str, object]
) -> subprocess.CompletedProcess[str]:
    """Run a program as another user, with an environment of its own.

    Args:
        user: The account.
        command: Program and arguments.
        environment: Variables beside a bare PATH, a UTF-8 locale, and HOME, which is a folder
            that ends with the program: libraries such as flashinfer write there when imported.

    Returns:
        The finished process; its exit status is not checked. Without such a user, the right to
        become it, or the program, nothing runs and the status is 1.
    """
    try:
        account, identity = become(user)
    except AccountError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
    with tempfile.TemporaryDirectory() as home:
        if identity:
            os.chown(home, account.pw_uid, account.pw_gid)
        variables = {"PATH": "/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8"}
        variables.update({name: str(value) for name, value in environment.items()})
        try:
            return subprocess.run(
                list(command),
                env=variables,
                cwd="/",
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                **identity,
            )
        except OSError as error:
            return subprocess.CompletedProcess(command, 1, "", str(error))


def last_line(text: str) -> str:
    """The last line of a program's output, which is where Python names the exception."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
