# SPDX-License-Identifier: Apache-2.0
"""The switch beside a real orphan of a release, with a stand-in for nvidia-smi.

What it answers was recorded on two H200 (tests/recordings/node/nvidia-smi): process 577 is the old
engine's, here the orphan's number stands for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import processes
from ansible_collections.sm120.sglang.plugins.modules import engine_switch

from tests.unit.plugins.module_utils._node.test_processes import RECORDINGS
from tests.unit.plugins.modules.switch_place import NEW, OLD, UNIT, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every question for the GPUs begins a new answer; the last one is given for ever.
_SMI = """#!/bin/sh
cd {folder}
at=$(cat at 2>/dev/null || echo 0)
case "$1" in
--query-gpu=*)
  [ ! -d $((at + 1)) ] || at=$((at + 1))
  echo $at > at
  echo >> asked
  cat $at/gpus
  ;;
--query-compute-apps=*) cat $at/apps ;;
esac
"""
_STARTER = """
import subprocess, sys
print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3, start_new_session=True).pid)
"""


@pytest.fixture
def orphan(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A process that runs a release's own program and whose starter is gone, as after a crash.

    On a node systemd, process 1, adopts it, outside of any service. The tests' own session may have
    a reaper, or be a service: of the reading these two alone are laid down.
    """
    program = place.root / "releases/r1/venv/bin/sleep"
    program.parent.mkdir(parents=True)
    shutil.copy2(shutil.which("sleep") or "", program)
    command = [sys.executable, "-c", _STARTER, str(program), "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    real = processes.read_processes

    def read(uid: int, releases: Path) -> list[processes.Process]:
        seen = real(uid, releases)
        return [replace(one, parent=1, unit="") if one.pid == pid else one for one in seen]

    monkeypatch.setattr(processes, "read_processes", read)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Cards:
    """The stand-in's answers, one after the other."""

    def __init__(self, place: Place, pid: int) -> None:
        self.folder = place.bin.parent / "cards"
        self.pid = str(pid)
        program = place.bin / "nvidia-smi"
        program.write_text(_SMI.format(folder=self.folder))
        program.chmod(0o755)

    def answer(self, number: int, gpus: str, apps: str) -> None:
        at = self.folder / str(number)
        at.mkdir(parents=True)
        (at / "gpus").write_text((RECORDINGS / f"gpus-{gpus}.txt").read_text())
        text = (RECORDINGS / f"apps-{apps}.txt").read_text()
        (at / "apps").write_text(text.replace(" 577,", f" {self.pid},"))

    @property
    def asked(self) -> int:
        return len((self.folder / "asked").read_text().splitlines())


def test_it_ends_an_orphan_and_waits_until_its_memory_is_free(
    run_module: Any, place: Place, orphan: int
) -> None:
    cards = Cards(place, orphan)
    cards.answer(1, "held", "held")
    cards.answer(2, "held", "held")
    cards.answer(3, "held", "after-kill")  # the process is gone, its memory is not
    cards.answer(4, "after-kill", "after-kill")
    done = run_module(engine_switch, place.arguments(NEW, "r2"))
    assert done["ended"] == [f"{orphan} (sleep)"]
    assert processes.end([orphan], 0.1) == []
    assert cards.asked == 4
    assert not done.get("warnings")
    assert place.calls[-1][0] == f"start --no-block {UNIT}"


@pytest.mark.parametrize("apps", ["held", "after-kill"])
def test_without_the_memory_nothing_is_started(
    run_module: Any, place: Place, orphan: int, apps: str
) -> None:
    cards = Cards(place, orphan)
    cards.answer(1, "held", "held")
    cards.answer(2, "held", apps)
    done = run_module(engine_switch, place.arguments(NEW, "r2", memory_timeout=1))
    assert done["failed"]
    assert done["touched"]
    assert "GPU memory is still in use 1 s after the engine stopped: GPU 0: " in done["msg"]
    assert "Holders: GPU 0: pid 578 (/opt/torch/.venv/bin/python3), 4614 MiB" in done["msg"]
    assert "Remedy: end who holds it; " in done["msg"]
    assert done["memory_lost"]
    assert [call[0] for call in place.calls] == [f"stop {UNIT}"]
    assert place.launch() == OLD
    assert not list(place.config.glob(".*.new"))


def test_a_little_that_a_stranger_took_meanwhile_is_a_warning(
    run_module: Any, place: Place, orphan: int
) -> None:
    cards = Cards(place, orphan)
    cards.answer(1, "held", "held")
    cards.answer(2, "after-kill", "after-kill")
    gpus = cards.folder / "2/gpus"
    gpus.write_text(gpus.read_text().replace("4623, 138534", "8623, 134534"))
    done = run_module(engine_switch, place.arguments(NEW, "r2", memory_timeout=1))
    assert "GPU 0: 8623 MiB in use, 3482 more than expected" in str(done["warnings"])
    assert place.calls[-1][0] == f"start --no-block {UNIT}"


def test_a_stop_says_it_too_and_has_stopped(run_module: Any, place: Place, orphan: int) -> None:
    cards = Cards(place, orphan)
    cards.answer(1, "held", "held")
    began = time.monotonic()
    done = run_module(engine_switch, place.arguments(NEW, "r2", state="stopped", memory_timeout=1))
    assert time.monotonic() - began >= 1
    assert "failed" not in done
    assert "GPU memory is still in use" in str(done["warnings"])
    # Whoever starts next on this node, or on another one of the same engine, has to know.
    assert done["memory_lost"]
    assert "Holders: GPU 0: pid 578 " in done["msg"]
    assert "A start without that memory would die" in done["msg"]
