# SPDX-License-Identifier: Apache-2.0
"""What another release costs on a node that has its wheels already, against pip.

    python -m benchmarks.second_release [--times 3]

On a lab node of its own (as root), after a first deployment, in turn: the play builds, patches,
audits, proves and seals a release of the same lock with other patches, beside the serving engine,
from the start of Ansible to its end; and pip installs the same lock from the same wheels on the
same node into a new virtual environment, which is all that it does. The median counts.
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
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rerun import REPOSITORY, Fleet

RESULT = REPOSITORY / "build" / "benchmarks" / "second_release.json"
LIMIT = 8.0
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


def measure(times: int) -> tuple[list[float], list[float]]:
    """Seconds of each build and of each installation by pip."""
    fleet = Fleet("one")
    fleet.lab("down")
    fleet.lab("up", "--nodes", "1")
    deploy, wheel = REPOSITORY / "deploy.yml", pip_wheel()
    built, installed = [], []
    try:
        fleet.play(deploy, changes=True)
        content = base64.b64encode(wheel.read_bytes()).decode()
        on_node(fleet, PREPARE.format(name=wheel.name, wheel=content))
        for chosen in selections(times):
            words = ["--tags", "engine_release,source_patches"]
            words += ["-e", json.dumps({"source_patches_ids": chosen})]
            built.append(fleet.play(deploy, *words, changes=True))
            installed.append(on_node(fleet, INSTALL.format(name=wheel.name)))
    finally:
        fleet.lab("down")
    return built, installed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, store it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=2, help="runs of each; the median counts")
    options = parser.parse_args(arguments)
    built, installed = measure(options.times)
    ours, theirs = statistics.median(built), statistics.median(installed)
    ratio = theirs / ours
    print(f"{'what':56} {'s':>7} {'ratio':>6}  verdict")
    print(f"{'pip installs the lock':56} {theirs:7.1f} {1:6.1f}")
    said = "ok" if ratio >= LIMIT else "UNDER"
    what = "the play: build, patch, audit, prove, seal another release"
    print(f"{what:56} {ours:7.1f} {ratio:6.1f}  {said} ({LIMIT:g})")
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    stored = {"load": os.getloadavg(), "pip": installed, "play": built, "ratio": ratio}
    RESULT.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
