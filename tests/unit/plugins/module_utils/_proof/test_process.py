# SPDX-License-Identifier: Apache-2.0
"""Real processes: what a proof's program starts, hangs in or leaves behind."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import account
from ansible_collections.sm120.sglang.plugins.module_utils._proof import process

ME = getpass.getuser()
PYTHON = Path(sys.executable)


def run(source: str, deadline: float = 10.0, **environment: str) -> process.Ended:
    return process.run_program(
        ME, PYTHON, source, "the argument", environment=environment, deadline=deadline
    )


def test_a_program_has_its_argument_environment_and_home() -> None:
    ended = run(
        "import os, sys; print(sys.argv[1], os.environ['A'], os.path.isdir(os.environ['HOME']));"
        "print('e', file=sys.stderr)",
        A="b",
        HOME="/nowhere",
    )
    assert (ended.status, ended.output) == (0, "the argument b True\n")
    assert (ended.errors, ended.timed_out, ended.left) == ("e\n", False, ())


def test_a_hanging_program_is_ended_with_all_that_it_started() -> None:
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        began = time.monotonic()
        ended = run(
            "import os, sys, time\n"
            "for _ in range(3):\n"
            "    if os.fork() == 0: time.sleep(60)\n"
            "os.setpgid(0, 0) if os.getpid() != os.getsid(0) else None\n"
            "print(os.getsid(0), flush=True); time.sleep(60)\n",
            deadline=1.0,
        )
        assert ended.timed_out
        assert time.monotonic() - began < 8
        assert ended.left == ()
        assert process.session_members(int(ended.output)) == ()
        assert other.poll() is None  # only its own
    finally:
        other.kill()
        other.wait()


def test_what_a_program_leaves_behind_is_ended() -> None:
    ended = run(
        "import os, time\nprint(os.getpid(), flush=True)\nif os.fork() == 0: time.sleep(60)"
    )
    assert (ended.status, ended.timed_out) == (0, False)
    assert process.session_members(int(ended.output)) == ()


def test_home_lies_in_the_products_cache_and_ends_with_the_program(tmp_path: Path) -> None:
    assert process.scratch(tmp_path) is None
    (tmp_path / "cache").mkdir()
    place = process.scratch(tmp_path)
    ended = process.run_program(
        ME,
        PYTHON,
        "import os; print(os.environ['HOME'])",
        "",
        environment={},
        deadline=10,
        scratch=place,
    )
    assert Path(ended.output.strip()).parent == place
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_crash_has_its_signal() -> None:
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").status == -11


def test_an_interpreter_that_is_not_there() -> None:
    ended = process.run_program(ME, Path("/nowhere/python"), "", "", environment={}, deadline=1.0)
    assert ended.status == 1
    assert "/nowhere/python" in ended.errors


def test_a_user_that_is_not_there() -> None:
    with pytest.raises(account.AccountError, match="there is no user nobody-here"):
        process.run_program("nobody-here", PYTHON, "", "", environment={}, deadline=1.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_program_runs_as_the_engines_user() -> None:
    ended = process.run_program(
        "nobody",
        Path("/usr/bin/python3"),
        "import os; print(os.geteuid()); open(os.path.expanduser('~/x'), 'w').close()",
        "",
        environment={},
        deadline=10.0,
    )
    assert ended.status == 0, ended.errors
    assert int(ended.output) != 0
