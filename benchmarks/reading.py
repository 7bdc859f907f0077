#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the one reading of a node takes on a full release: `make bench`.

A release of 50,000 files is made and sealed by the product's own code in a temporary folder of this
machine. Then the module runs as Ansible runs it (its archive, a fresh Python), several times with
everything in the page cache; the best counts. Beside the time on the clock stand the seconds of the
CPU, programs that it runs included, and the ratio to a module that does nothing (`ping`). The limit
is printed as a verdict; nothing fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.sm120.sglang.plugins.module_utils import _release  # noqa: E402

RESULT = ROOT / "build" / "benchmarks" / "reading.json"
LIMIT = 0.5
FILES = 50_000
# As on a node with SGLang 0.5.9, where 46,400 files are in 3,800 folders: the engine's share, what
# lies in one folder, and how much of it is bytecode.
ENGINE, IN_A_FOLDER, BYTECODE = 0.06, 13, 0.3


def make_release(root: Path, files: int) -> _release.Paths:
    """Make a tree of that many files, as it is after building, and seal it."""
    paths = _release.Paths(root, "bench")
    packages = paths.building / "venv/lib/python3.12/site-packages"
    engine = int(files * ENGINE)
    for first in range(0, files, IN_A_FOLDER):
        number = first // IN_A_FOLDER
        name = "sglang/srt" if first < engine else f"library_{number // 60}"
        folder = packages / name / f"part_{number % 60}/inner_{number}"
        cache = folder / "__pycache__"
        cache.mkdir(parents=True)
        count = min(IN_A_FOLDER, files - first)
        for one in range(count):
            bytecode = one < count * BYTECODE
            place = cache / f"m{one}.cpython-312.pyc" if bytecode else folder / f"module_{one}.py"
            place.write_text(f"value = {first + one}\n", encoding="utf-8")
    _release.seal(paths)
    _release.switch(root, "bench")
    return paths


def archive(module: str, arguments: dict[str, Any], folder: Path) -> Path:
    """The program that Ansible would send to a node, arguments included."""
    folder.mkdir()
    environment = {
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
        "ANSIBLE_PIPELINING": "0",
        "ANSIBLE_REMOTE_TMP": str(folder),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    command = [sys.executable, "-m", "ansible", "adhoc", "-i", "localhost,", "-c", "local"]
    command += ["-e", f"ansible_python_interpreter={sys.executable}", "localhost"]
    subprocess.run(
        [*command, "-m", module, "-a", json.dumps(arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )
    (found,) = folder.glob("*/AnsiballZ_*.py")
    return found


def best(program: Path, times: int) -> dict[str, float]:
    """Run it warm; the shortest time, with the CPU seconds of that run."""
    runs = []
    for _ in range(times + 1):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([sys.executable, program], check=True, capture_output=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        drift = json.loads(done.stdout).get("releases", {}).get("drift", {})
        if any(drift.values()):
            raise SystemExit(f"the release was changed meanwhile: {drift}")
        runs.append(
            {
                "seconds": seconds,
                "user_seconds": after.ru_utime - before.ru_utime,
                "system_seconds": after.ru_stime - before.ru_stime,
            }
        )
    return min(runs[1:], key=lambda run: run["seconds"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--files", type=int, default=FILES, help="files of the release")
    parser.add_argument("--times", type=int, default=5, help="runs of each; the best counts")
    options = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="reading-"))
    try:
        start = time.perf_counter()
        make_release(place / "product", options.files)
        sys.stdout.write(f"made and sealed in {time.perf_counter() - start:.1f} s\n")
        rows = measure(place, options.times)
    finally:
        shutil.rmtree(place)
    floor = rows[0]["seconds"]
    sys.stdout.write(f"{'what':34} {'s':>6} {'user':>6} {'system':>6} {'ratio':>6}  verdict\n")
    for row in rows:
        row["ratio"] = row["seconds"] / floor
        limit = row["limit"]
        said = "" if limit is None else f"{'ok' if row['seconds'] < limit else 'OVER'} ({limit:g})"
        sys.stdout.write(
            f"{row['what']:34} {row['seconds']:6.2f} {row['user_seconds']:6.2f} "
            f"{row['system_seconds']:6.2f} {row['ratio']:6.1f}  {said}\n"
        )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    where = {"python": platform.python_version(), "machine": platform.machine()}
    load = {"load": os.getloadavg(), "files": options.files}
    RESULT.write_text(json.dumps({**where, **load, "rows": rows}, indent=2) + "\n", "utf-8")
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}; {RESULT}\n")
    return 0


def measure(place: Path, times: int) -> list[dict[str, Any]]:
    """A module that does nothing, the reading without and with the release, and in full."""
    asked = {"unit": "sglang.service", "user": "nobody", "host": True, "cuda": {"keyring": "/none"}}
    product = {**asked, "root": str(place / "product"), "releases": ["bench"]}
    wanted: tuple[tuple[str, str, dict[str, Any], float | None], ...] = (
        ("ping", "ansible.builtin.ping", {"data": "pong"}, None),
        ("reading, no release", "node_facts", {**asked, "root": str(place / "none")}, None),
        ("reading, the release unchanged", "node_facts", product, LIMIT),
        ("reading, every file read", "node_facts", {**product, "verify": "full"}, None),
    )
    rows = []
    for number, (what, module, arguments, limit) in enumerate(wanted):
        name = module if "." in module else f"sm120.sglang.{module}"
        program = archive(name, arguments, place / f"archive-{number}")
        rows.append({"what": what, "limit": limit, **best(program, times)})
    return rows


if __name__ == "__main__":
    sys.exit(main())
