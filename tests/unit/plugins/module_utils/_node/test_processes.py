# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import processes
from ansible_collections.sm120.sglang.plugins.module_utils._node.processes import Process

RECORDINGS = Path(__file__).parents[4] / "recordings/node/nvidia-smi"
UNIT, UID = "sglang.service", 990
GPU0 = "GPU-3df206c5-7fa0-b86b-3e16-a6e06918f70b"


def process(pid: int, parent: int = 1, **over: object) -> Process:
    values = {"uid": UID, "unit": "session-3.scope", "command": "python", "ours": True, **over}
    return Process(pid, parent, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], []),
        # In the unit's own cgroup, whatever it runs.
        ([process(5, 4, unit=UNIT, ours=False, uid=0)], [5]),
        # Its starter is gone, and so are its children's.
        ([process(5), process(6, 5)], [5, 6]),
        # Somebody's experiment below a living shell.
        ([process(4, 1, ours=False, uid=1000), process(5, 4)], []),
        # Another service's, another user's, or other code.
        ([process(5, unit="other.service")], []),
        ([process(5, uid=1000)], []),
        ([process(5, ours=False)], []),
    ],
)
def test_what_a_unit_left_behind(listed: list[Process], expected: list[int]) -> None:
    assert [entry.pid for entry in processes.orphans(listed, UNIT, UID)] == expected


def text(name: str) -> str:
    return (RECORDINGS / f"{name}.txt").read_text()


def test_gpu_memory_is_read_as_the_driver_prints_it() -> None:
    holders = processes.parse_holders(text("apps-held"))
    assert [(holder.pid, holder.mib) for holder in holders] == [(578, 4614), (577, 102918)]
    gpus = processes.parse_gpus(text("gpus-held"))
    assert [(gpu.index, gpu.used, gpu.free) for gpu in gpus] == [(0, 107547, 35610), (1, 4, 143153)]
    assert processes.parse_holders("") == []
    # In a container the driver may not tell.
    assert processes.parse_holders(f"{GPU0}, 7, a, b, [N/A]\n")[0].mib == 0


def test_memory_is_free_when_the_old_engine_holds_none_and_what_it_held_is_gone() -> None:
    gpus, holders = (
        processes.parse_gpus(text("gpus-held")),
        processes.parse_holders(text("apps-held")),
    )
    limits = processes.memory_limits(gpus, holders, {577})
    assert limits == {GPU0: 107547 - 102918 + 512}
    held = processes.memory_held(gpus, holders, {577}, limits)
    assert held == ["GPU 0: the old engine's process 577 holds memory"]
    later = processes.parse_gpus(text("gpus-after-kill"))
    others = processes.parse_holders(text("apps-after-kill"))
    # The other process is a stranger: its memory is not waited for.
    assert processes.memory_held(later, others, {577}, limits) == []
    # The process is gone from the list, its memory is not.
    assert processes.memory_held(gpus, others, {577}, limits) == [
        "GPU 0: 107547 MiB in use, 102406 more than expected"
    ]
    assert processes.memory_limits(gpus, holders, set()) == {}


def test_a_process_of_a_release_is_found_and_ended(tmp_path: Path) -> None:
    """A copy of the interpreter inside the folder stands for a release's own code."""
    program = tmp_path / "r1" / "venv" / "bin" / "sleep"
    program.parent.mkdir(parents=True)
    shutil.copy2(shutil.which("sleep") or "", program)
    # Started by a process that ends: an orphan, as after a crash.
    starter = (
        "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3).pid)"
    )
    command = [sys.executable, "-c", starter, str(program), "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    try:
        seen = processes.read_processes(os.geteuid(), tmp_path)
        mine = {entry.pid: entry for entry in seen if entry.ours}
        assert set(mine) == {pid}
        assert mine[pid].command == "sleep"
        assert not {entry.pid: entry for entry in seen}[os.getpid()].ours
        assert processes.end([pid], 5.0) == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); "
    command = [sys.executable, "-c", code + "time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        began = time.monotonic()
        assert processes.end([child.pid], 0.4) == []
        assert time.monotonic() - began < 2
    assert child.returncode == -signal.SIGKILL
