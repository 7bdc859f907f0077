# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import account

ME = pwd.getpwuid(os.geteuid()).pw_name
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
USERS = [ME, pytest.param("nobody", marks=needs_root)]


@pytest.mark.parametrize("user", USERS)
def test_a_program_runs_as_the_user_with_its_own_environment(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAK", "1")
    script = 'id -u; id -g; id -G; pwd; echo "$A|$B|$LC_ALL|$LEAK"; touch "$HOME/x"; echo "$HOME"'
    done = account.run_as(user, ["sh", "-c", script], {"A": "two words", "B": 2})
    entry = pwd.getpwnam(user)
    uid, gid, groups, folder, variables, home = done.stdout.splitlines()
    assert (uid, gid, folder) == (str(entry.pw_uid), str(entry.pw_gid), "/")
    assert variables == "two words|2|C.UTF-8|"
    if user != ME:
        assert set(groups.split()) == set(map(str, os.getgrouplist(user, entry.pw_gid)))
    assert (done.returncode, done.stderr) == (0, "")
    assert not Path(home).exists()  # what was written there went with it


def test_the_environment_given_wins() -> None:
    done = account.run_as(ME, ["sh", "-c", 'echo "$HOME"'], {"HOME": "/cache"})
    assert done.stdout == "/cache\n"


@pytest.mark.parametrize("user", USERS)
def test_a_failing_program_is_reported(user: str) -> None:
    done = account.run_as(user, ["sh", "-c", "echo out; printf '\\377' >&2; exit 3"], {})
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "�")


def test_a_user_that_is_not_there() -> None:
    done = account.run_as("no-such-user-here", ["true"], {})
    assert (done.returncode, done.stderr) == (1, "there is no user no-such-user-here")


def test_a_program_that_is_not_there() -> None:
    done = account.run_as(ME, ["/no/such/program"], {})
    assert done.returncode == 1
    assert "No such file or directory: '/no/such/program'" in done.stderr


def test_only_root_becomes_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    done = account.run_as("nobody", ["true"], {})
    assert (done.returncode, done.stderr) == (1, "only root can become nobody")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Traceback (most recent call last):\n  File\nImportError: no x\n", "ImportError: no x"),
        ("one", "one"),
        ("one\n\n \n", "one"),
        ("", "no output"),
        ("\n \n", "no output"),
    ],
)
def test_the_last_line(text: str, expected: str) -> None:
    assert account.last_line(text) == expected
