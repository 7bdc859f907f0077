# SPDX-License-Identifier: Apache-2.0
"""Prove that a release's tree works on this node, as the engine's user."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _stack
from ansible_collections.sm120.sglang.plugins.module_utils._proof import (
    imports,
    linker,
    probe_imports,
    process,
    room,
)


@dataclass(frozen=True)
class Asked:
    """What is to be proved.

    Attributes:
        user: As whom.
        environment: The engine's variables.
        modules: Python modules to import, torch first.
        gpu: Whether the stack is for GPUs.
        deadline: Seconds after which the proof is stopped and has failed.
    """

    user: str
    environment: Mapping[str, object]
    modules: Sequence[str]
    gpu: bool
    deadline: float


class ReleaseProofError(RuntimeError):
    """A release cannot work here.

    Attributes:
        problems: One sentence a problem.
    """

    def __init__(self, release: str, problems: Sequence[str]) -> None:
        """Say what is wrong with which release."""
        self.problems = list(problems)
        super().__init__(f"release {release} cannot work here: {'; '.join(problems)}")


def prove(root: Path, release: str, tree: Path, asked: Asked) -> dict[str, Any]:
    """Compare a release with its lock, import it, use every GPU that has room once.

    Args:
        root: The product's folder.
        release: The release's id.
        tree: Where it lies; nothing is written there.
        asked: What is to be proved.

    Returns:
        `imports`, `gpus`, `seconds` and `left_out` (see `room.Room`), to be recorded.

    Raises:
        ReleaseProofError: It does not work.
        OSError: It cannot be read.
        _stack.StackError: Its lock is none.
        account.AccountError: There is no such user.
    """
    cards = room.read(asked.environment) if asked.gpu else room.Room()
    gpu = asked.gpu and not cards.none
    lock = _stack.parse_lock((tree / "stack.lock").read_text(encoding="utf-8"), "stack.lock")
    ended = process.run_program(
        asked.user,
        tree / "venv" / "bin" / "python",
        inspect.getsource(probe_imports),
        json.dumps({"modules": list(asked.modules), "gpu": gpu}),
        environment={**asked.environment, **cards.environment},
        deadline=asked.deadline,
        scratch=process.scratch(root),
    )
    report = imports.read_report(ended.output)
    how = imports.how_it_ended(ended.status, ended.timed_out, asked.deadline, ended.errors)
    problems = imports.judge(report, lock, gpu, how, demangle)
    if ended.left:
        problems.append(
            f"processes {', '.join(map(str, ended.left))} cannot be ended: they wait in the "
            "driver; look for Xid errors with `journalctl -k`, reset the GPUs or power-cycle the "
            "node"
        )
    if problems:
        raise ReleaseProofError(release, problems)
    return {
        "imports": report.imports,
        "gpus": report.gpus.get("gpus", []),
        "seconds": ended.seconds,
        "left_out": cards.left_out,
    }


def demangle(symbol: str) -> str:
    """A symbol in readable form, by c++filt where the node has it (binutils)."""
    program = shutil.which("c++filt")
    if program is None:
        return linker.readable(symbol)
    done = subprocess.run([program, symbol], capture_output=True, text=True, check=False)
    return done.stdout.strip() or linker.readable(symbol)
