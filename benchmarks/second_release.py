# SPDX-License-Identifier: Apache-2.0
"""What another release costs on a node that has its wheels already, against pip.

    python -m benchmarks.second_release [--times 2] [--other lab-0.5.10.post1]

On a lab node of its own (as root), after a first deployment, in turn: the play builds, patches,
audits, proves and seals a release of the same lock with other patches, beside the serving engine;
and pip installs the same lock from the same wheels on the same node into a new virtual environment,
with bytecode, which is all that it does. Two rows stand against pip, the median counts:

- the installation: the play's task that ends with a tree of the same lock, with bytecode, as the
  controller sees it, the connection and the start of its module included;
- the whole play, from the start of Ansible to its end.

Then the play once with another stack, of which only some wheels are on the node: it brings, unpacks
and compiles the others. That has no like in pip's runs, and no verdict.
"""

from __future__ import annotations

import argparse
import base64
import ensurepip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rerun import REPOSITORY, Fleet

RESULT = REPOSITORY / "build" / "benchmarks" / "second_release.json"
LIMIT = 8.0
BUILD = "sm120.sglang.engine_release : Build the release beside the serving one"
# Each selection is another release: the patches are part of its name.
PATCHES = ("kimi_k25_eagle3_delegation", "sm120_allreduce_sizes", "sm120_symm_mem_world_sizes")
PREPARE = """set -eu
rm -rf /var/tmp/bench && mkdir -p /var/tmp/bench && cd /var/tmp/bench
base64 -d > {name} <<'END'
{wheel}
END
cp /opt/sglang/current/stack.lock lock
"""
INSTALL = """set -eu
cd /var/tmp/bench && rm -rf venv && python3 -m venv --without-pip venv
export PYTHONPATH=$PWD/{name} PIP_DISABLE_PIP_VERSION_CHECK=1
venv/bin/python -m pip install --quiet --no-index --no-deps --no-cache-dir \\
  --find-links /opt/sglang/wheels --requirement lock
"""


def pip_wheel() -> Path:
    """The pip that comes with Python."""
    (found,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    return found


def on_node(fleet: Fleet, script: str) -> float:
    """Run a script on the node as root; returns the seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "lab", "ssh", "lab-1", "--", "sudo", "sh", "-s"],
        cwd=REPOSITORY,
        env=fleet.environment,
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"on the node: {done.stdout}{done.stderr}")
    return time.perf_counter() - start


def selections(times: int) -> list[list[str]]:
    """As many different selections of patches, none of them the default."""
    if times >= len(PATCHES):
        raise SystemExit(f"--times is below {len(PATCHES)}: each run builds another release")
    return [[PATCHES[0], *PATCHES[1:number]] for number in range(1, times + 1)][::-1]


@dataclass
class Play:
    """One run of the play: its seconds, and those of its tasks."""

    seconds: float
    tasks: list[tuple[str, float]]

    def of(self, name: str) -> float:
        """Seconds of one task."""
        (found,) = (seconds for task, seconds in self.tasks if task == name)
        return found


def play(fleet: Fleet, **extra: object) -> Play:
    """Build another release on the node."""
    with tempfile.NamedTemporaryFile() as file:
        fleet.environment |= {
            "ANSIBLE_CALLBACK_PLUGINS": str(REPOSITORY / "benchmarks" / "callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": "task_seconds",
            "TASK_SECONDS": file.name,
        }
        words = ["--tags", "engine_release,source_patches", "-e", json.dumps(extra)]
        seconds = fleet.play(REPOSITORY / "deploy.yml", *words, changes=True)
        return Play(seconds, json.loads(Path(file.name).read_text(encoding="utf-8")))


def measure(times: int, other: str) -> tuple[list[Play], list[float], Play | None]:
    """Each build of the same lock, seconds of each installation by pip, and the other build."""
    fleet = Fleet("one")
    fleet.lab("down")
    fleet.lab("up", "--nodes", "1")
    wheel = pip_wheel()
    plays, installed = [], []
    try:
        fleet.play(REPOSITORY / "deploy.yml", changes=True)
        content = base64.b64encode(wheel.read_bytes()).decode()
        on_node(fleet, PREPARE.format(name=wheel.name, wheel=content))
        for chosen in selections(times):
            plays.append(play(fleet, source_patches_ids=chosen))
            installed.append(on_node(fleet, INSTALL.format(name=wheel.name)))
        return plays, installed, play(fleet, engine_release_stack=other) if other else None
    finally:
        fleet.lab("down")


def steps(played: Play, least: float = 0.3) -> list[str]:
    """Lines about the tasks that took longest, in their order."""
    rows = [(name, seconds) for name, seconds in played.tasks if seconds >= least]
    rest = played.seconds - sum(seconds for _, seconds in rows)
    rows.append(("Ansible's start, and all other tasks", rest))
    return [f"  {name.rpartition(' : ')[2]:70} {seconds:7.1f}" for name, seconds in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, store it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=2, help="runs of each; the median counts")
    parser.add_argument(
        "--other", default="lab-0.5.10.post1", help="another stack, run once; empty for none"
    )
    options = parser.parse_args(arguments)
    plays, installed, other = measure(options.times, options.other)
    theirs = statistics.median(installed)
    ours = {
        "the installation alone, in the play": [one.of(BUILD) for one in plays],
        "the whole play: build, patch, audit, prove, seal": [one.seconds for one in plays],
    }
    print(f"{'what':60} {'s':>7} {'ratio':>6}  verdict")
    print(f"{'pip installs the lock':60} {theirs:7.1f} {1:6.1f}")
    stored: dict[str, object] = {"load": os.getloadavg(), "pip": installed}
    for what, runs in ours.items():
        ratio = theirs / statistics.median(runs)
        said = "ok" if ratio >= LIMIT else "UNDER"
        print(f"{what:60} {theirs / ratio:7.1f} {ratio:6.1f}  {said} ({LIMIT:g})")
        stored[what] = {"runs": runs, "ratio": ratio}
    stored["tasks"] = [one.tasks for one in plays]
    print("the last of these plays:", *steps(plays[-1]), sep="\n")
    if other is not None:
        print(f"{f'the whole play, once, to {options.other}':60} {other.seconds:7.1f}")
        print(*steps(other), sep="\n")
        stored[options.other] = [other.seconds, other.tasks]
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
