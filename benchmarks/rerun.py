# SPDX-License-Identifier: Apache-2.0
"""What a re-run costs on nodes that are as they should be, and what a first deployment costs.

    python -m benchmarks.rerun [--nodes 1,5,20] [--times 3]

Everything is measured in one run, on lab nodes of its own (as root): the floor, a playbook with one
trivial module over the same warm connection; a deployment to a bare node; re-runs on one node whose
engine serves and answers; re-runs on many. Runs alternate with the floor, the median counts. Ratios
are what to look at: the seconds are this machine's and this hour's.

The nodes of a fleet share the first node's file system and have only their changes apart. Where the
memory does not hold an engine for each, none runs there, and the table says so: such a re-run reads
and decides for each node, and leaves the roles engine and health_gate out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LAB = Path(os.environ.get("LAB_STATE") or REPOSITORY / ".lab")
RESULT = REPOSITORY / "build" / "benchmarks" / "rerun.json"
SHARED = ("rootfs", "wheelhouse", "models", "wheels")
ADDRESSES = {"one": "127.120.2.", "fleet": "127.120.3."}
ENGINE_GIB = 2.0  # one lab engine with what its node needs (measured: 1.5)
SPARE_GIB = 3.0
RERUN_LIMIT = 3.0
FLEET_LIMIT = 0.35
STOPPED = ["--skip-tags", "engine,health_gate"]
TRIVIAL = [{"hosts": "engines", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}]}]


@dataclass
class Row:
    """One line of the table; `ratio` is to the floor, or as `against` says."""

    what: str
    nodes: int
    seconds: float
    runs: list[float]
    ratio: float = 0.0
    limit: float | None = None
    against: str = "floor"


class Fleet:
    """Lab nodes of this benchmark."""

    def __init__(self, name: str, like: Fleet | None = None) -> None:
        """Make the lab's folder; downloads are shared with the operator's lab.

        With `like`, an engine's key is that fleet's: with another one the launch would differ.
        """
        self.state = LAB / f"bench-{name}"
        self.state.mkdir(parents=True, exist_ok=True)
        for shared in SHARED:
            link = self.state / shared
            if not link.is_symlink():
                link.symlink_to(Path("..") / shared)
        if like is not None:
            shutil.rmtree(self.state / "secrets", ignore_errors=True)
            shutil.copytree(like.state / "secrets", self.state / "secrets")
        self.environment = {
            **os.environ,
            "LAB_STATE": str(self.state),
            "LAB_ADDRESS_BASE": ADDRESSES[name],
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "PYTHONPATH": f"{REPOSITORY / 'collections'}:{REPOSITORY}",
        }

    def lab(self, *words: str) -> None:
        """Run one command of the lab."""
        command = [sys.executable, "-m", "lab", *words]
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")

    def play(self, playbook: Path, *words: str, changes: bool = False) -> float:
        """Run a playbook; returns the seconds. One that changes something ends the benchmark."""
        command = [sys.executable, "-m", "ansible", "playbook", *words, str(playbook)]
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        if done.returncode or (not changes and re.search(r"changed=[1-9]", done.stdout)):
            raise SystemExit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return seconds


@contextmanager
def merged(upper: Path, base: Path) -> Iterator[Path]:
    """A node's file system, read only: what new nodes may stand on."""
    place = Path(tempfile.mkdtemp(prefix="bench-base-"))
    try:
        # Short links: the options are a list with commas and colons.
        for name, target in (("upper", upper), ("base", base)):
            (place / name).symlink_to(target)
        (place / "root").mkdir()
        options = "ro,lowerdir=upper:base"
        subprocess.run(
            ["mount", "-t", "overlay", "bench", "-o", options, "root"], cwd=place, check=True
        )
        try:
            yield place / "root"
        finally:
            subprocess.run(["umount", str(place / "root")], check=True)
    finally:
        shutil.rmtree(place)


def memory_gib() -> float:
    """Memory that programs could still have."""
    found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text("ascii"))
    return int(found[1]) / 1048576 if found else 0.0


def alternating(
    fleet: Fleet, trivial: Path, times: int, *words: str
) -> tuple[list[float], list[float]]:
    """Times of the floor and of re-runs, in turn, after one of each that does not count."""
    floors, runs = [], []
    for number in range(times + 1):
        floor = fleet.play(trivial)
        run = fleet.play(REPOSITORY / "deploy.yml", *words)
        if number:
            floors.append(floor)
            runs.append(run)
    return floors, runs


def measure(counts: Sequence[int], times: int, trivial: Path) -> list[Row]:
    """Deploy to one node, measure it, then measure fleets that stand on its file system."""
    one = Fleet("one")
    one.lab("down")
    one.lab("up", "--nodes", "1")
    rows: list[Row] = []
    try:
        first = one.play(REPOSITORY / "deploy.yml", changes=True)
        floors, runs = alternating(one, trivial, times)
        floor, single = statistics.median(floors), statistics.median(runs)
        rows.append(Row("floor: one trivial module", 1, floor, floors, 1.0))
        rows.append(Row("first deployment, bare node", 1, first, [first], first / floor))
        rows.append(Row("re-run, engine serves", 1, single, runs, single / floor, RERUN_LIMIT))
        # Nodes that stand on its files must not start an engine each by themselves.
        one.lab("ssh", "lab-1", "--", "sudo", "systemctl", "disable", "--now", "sglang.service")
        one.lab("kill", "lab-1")
        node = one.state / "nodes" / "lab-1"
        with merged(node / "upper", (node / "lower").resolve()) as base:
            for count in [count for count in counts if count > 1]:
                rows += measure_fleet(count, times, trivial, base, (one, single))
    finally:
        one.lab("down")
    return rows


def measure_fleet(
    count: int, times: int, trivial: Path, base: Path, alone: tuple[Fleet, float]
) -> list[Row]:
    """Re-runs on many nodes, against as many re-runs on the one that they stand on."""
    one, single = alone
    fleet = Fleet("fleet", like=one)
    fleet.lab("down")
    fleet.lab("up", "--nodes", str(count), "--base", str(base))
    running = memory_gib() - SPARE_GIB >= count * ENGINE_GIB
    words = [] if running else [*STOPPED, "-e", f"engine_host={ADDRESSES['one']}1"]
    try:
        # Each engine has its own address, so the first run starts it with that.
        fleet.play(REPOSITORY / "deploy.yml", *words, changes=True)
        floors, runs = alternating(fleet, trivial, times, *words)
    finally:
        fleet.lab("down")
    floor, seconds = statistics.median(floors), statistics.median(runs)
    what = "re-run, engines serve" if running else "re-run, engines stopped for want of memory"
    return [
        Row("floor: one trivial module", count, floor, floors, 1.0),
        Row(what, count, seconds, runs, seconds / floor),
        Row(
            "  a node of it, against one alone",
            count,
            seconds / count,
            [run / count for run in runs],
            seconds / count / single,
            FLEET_LIMIT,
            "re-run of one node",
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, store it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="1,5,20", help="sizes of the fleets")
    parser.add_argument("--times", type=int, default=3, help="runs of each; the median counts")
    options = parser.parse_args(arguments)
    counts = [int(word) for word in options.nodes.split(",")]
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        trivial = Path(place) / "trivial.yml"
        trivial.write_text(json.dumps(TRIVIAL), encoding="utf-8")
        rows = measure(counts, options.times, trivial)
    print(f"{'what':44} {'nodes':>5} {'s':>7} {'ratio':>7}  verdict")
    for row in rows:
        said = (
            ""
            if row.limit is None
            else f"{'ok' if row.ratio <= row.limit else 'OVER'} ({row.limit:g})"
        )
        print(f"{row.what:44} {row.nodes:5} {row.seconds:7.2f} {row.ratio:7.2f}  {said}")
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    stored = {
        "load": os.getloadavg(),
        "cores": os.cpu_count(),
        "rows": [asdict(row) for row in rows],
    }
    RESULT.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
