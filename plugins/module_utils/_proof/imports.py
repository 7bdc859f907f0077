# SPDX-License-Identifier: Apache-2.0
"""Judge what the program `probe_imports` said. All functions are pure."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._built import compare_installed
from ansible_collections.sm120.sglang.plugins.module_utils._proof import linker
from ansible_collections.sm120.sglang.plugins.module_utils._proof.probe_imports import MARKER
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin, normalise


@dataclass
class Report:
    """What the program said.

    Attributes:
        step: The step that it was in last, `end` when it came to its end.
        installed: Normalised package to version, as importlib.metadata has them.
        python: The interpreter's version.
        imports: One answer a module.
        gpus: The answer of all GPUs, empty without.
        triton: Triton's answer, empty without.
    """

    step: str = ""
    installed: dict[str, str] = field(default_factory=dict)
    python: str = ""
    imports: list[dict[str, Any]] = field(default_factory=list)
    gpus: dict[str, Any] = field(default_factory=dict)
    triton: dict[str, Any] = field(default_factory=dict)


def read_report(output: str) -> Report:
    """Read the program's output; lines without its marker are the packages' own."""
    report = Report()
    for line in output.splitlines():
        if not line.startswith(MARKER):
            continue
        answer = json.loads(line.removeprefix(MARKER))
        if "step" in answer:
            report.step = " ".join(str(value) for value in answer.values())
        elif "installed" in answer:
            report.installed = {normalise(k): v for k, v in answer["installed"].items()}
            report.python = answer["python"]
        elif "module" in answer:
            report.imports.append(answer)
        elif "gpus" in answer:
            report.gpus = answer
        elif "triton" in answer:
            report.triton = answer["triton"]
    return report


def judge(
    report: Report,
    lock: Sequence[Pin],
    gpu: bool,
    ended: str = "",
    demangle: Callable[[str], str] | None = None,
) -> list[str]:
    """Decide whether the release can work here.

    Args:
        report: What the program said.
        lock: The release's lock.
        gpu: Whether the stack is for GPUs.
        ended: How the program ended, when not by itself (see `how_it_ended`).
        demangle: See `linker.explain`.

    Returns:
        One sentence a problem; empty when all is well.
    """
    problems = []
    if report.installed:
        problems += compare_installed({pin.name: pin.version for pin in lock}, report.installed)
    for answer in report.imports:
        if "error" in answer:
            problems.append(_import_problem(answer, report.installed, demangle))
    if ended:
        problems.append(f"the proof {ended} in step '{report.step or 'start'}'")
    elif report.step != "end" and not problems:
        problems.append(f"the proof ended in step '{report.step or 'start'}' without a word")
    if gpu and report.gpus:
        problems += _gpu_problems(report)
    if report.triton and not report.triton["right"]:
        problems.append(f"triton {report.triton['version']}: a kernel gave a wrong result")
    return problems


def how_it_ended(status: int, timed_out: bool, deadline: float, stderr: str) -> str:
    """Words for a program that did not end well, empty for one that did.

    Args:
        status: Exit status, negative for a signal.
        timed_out: Whether it was stopped at its deadline.
        deadline: That deadline in seconds.
        stderr: Its error output.
    """
    if timed_out:
        return f"did not end within {deadline:.0f} s and was stopped"
    if status == 0:
        return ""
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"was ended by {name}"
    lines = stderr.strip().splitlines()
    return f"failed ({lines[-1][:500] if lines else f'status {status}'})"


def _import_problem(
    answer: Mapping[str, Any],
    installed: Mapping[str, str],
    demangle: Callable[[str], str] | None,
) -> str:
    mismatch = linker.explain(answer["error"], installed, demangle)
    if mismatch is not None:
        return f"import {answer['module']}: {mismatch.sentence()}"
    lines = answer["error"].strip().splitlines() or [""]
    return f"import {answer['module']}: {answer['type']}: {lines[-1][:500]}"


def _gpu_problems(report: Report) -> Iterable[str]:
    answers = report.gpus["gpus"]
    torch = f"torch {report.installed.get('torch', '')}"
    if not answers:
        yield (
            f"{torch} (CUDA {report.gpus['cuda']}) sees no GPU as the engine's user; compare "
            "nvidia-smi, the driver's version, and the user's access to /dev/nvidia*"
        )
    for answer in answers:
        label = f"GPU {answer['gpu']} ({answer.get('name', 'unknown')})"
        if "capability" in answer:
            major, minor = answer["capability"]
            if not covers(report.gpus["architectures"], major, minor):
                yield (
                    f"{torch} x {label}: no code for capability {major}.{minor} "
                    f"(sm_{major}{minor}) among {', '.join(report.gpus['architectures'])}; take a "
                    "build that has it"
                )
        if "error" in answer:
            yield f"{label}: {answer['error']}"
        elif not answer["right"]:
            yield f"{label}: a kernel gave a wrong result; test the card's memory"


def covers(architectures: Iterable[str], major: int, minor: int) -> bool:
    """Whether a build has machine code that runs on a capability.

    Args:
        architectures: As `torch.cuda.get_arch_list()` gives them; PTX (`compute_*`) does not
            count, since it is compiled at first use, for minutes.
        major: The capability's major number.
        minor: Its minor number; code for a lower minor of the same major runs too.
    """
    for name in architectures:
        digits = name.removeprefix("sm_")
        if name.startswith("sm_") and digits.isdigit():
            if int(digits[:-1]) == major and int(digits[-1]) <= minor:
                return True
        elif name in (f"sm_{major}{minor}a", f"sm_{major}{minor}f"):
            return True
    return False
