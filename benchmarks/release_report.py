#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long it takes to judge a release, and how much memory: `make bench`.

Each measurement is a fresh process that reads one wheel; the best of several counts. Beside the
time on the clock stand the seconds of the CPU, which other work on the machine disturbs less. The
ratio is of these, to a process that parses the files of `srt/models` with `ast` alone, so that runs
on different machines can be compared. Limits are printed as verdicts; nothing fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.sm120.sglang.plugins.module_utils._contract import audit  # noqa: E402
from ansible_collections.sm120.sglang.plugins.module_utils._patch.engine import (  # noqa: E402
    plan_present,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import (  # noqa: E402
    Manifest,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (  # noqa: E402
    Modules,
)
from ansible_collections.sm120.sglang.plugins.module_utils._report.describe import (  # noqa: E402
    ALGORITHM,
    ARCHITECTURE,
    Knowledge,
    describe,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree import (  # noqa: E402
    Tree,
    open_tree,
)
from ansible_collections.sm120.sglang.plugins.module_utils.release_report import (  # noqa: E402
    shipped_knowledge,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels  # noqa: E402

RESULT = ROOT / "build" / "benchmarks" / "release_report.json"
MEMORY_LIMIT = 400.0
RELEASES = ("0.5.9", "0.5.23")


def parse_models(tree: Tree, _knowledge: Knowledge) -> None:
    """The yardstick: parse what is to be judged, and do nothing else."""
    for name in tree.names("srt/models/"):
        if name.endswith(".py"):
            ast.parse((tree.read(name) or b"").decode("utf-8-sig"))


def patches_and_kimi(tree: Tree, knowledge: Knowledge) -> None:
    """The plan of the shipped patches, and the audit of the served model."""
    plan_present(tree, knowledge.catalogue, knowledge.catalogue, Manifest(), "missing")
    audit(tree, ALGORITHM, ARCHITECTURE, modules=Modules(tree.read))


def all_wrappers(tree: Tree, _knowledge: Knowledge) -> None:
    """The audit of every multimodal wrapper."""
    audit(tree, ALGORITHM, modules=Modules(tree.read))


def whole_report(tree: Tree, knowledge: Knowledge) -> None:
    """Everything that a report holds."""
    describe(tree, knowledge)


WORK: dict[str, tuple[Callable[[Tree, Knowledge], None], float | None]] = {
    "parse srt/models": (parse_models, None),
    "patch plan + Kimi audit": (patches_and_kimi, 1.0),
    "architecture: all": (all_wrappers, 6.0),
    "whole report": (whole_report, None),
}


def measure(name: str, wheel: str) -> dict[str, float]:
    """Do one piece of work in this process; seconds, those of the CPU, and peak memory in MB."""
    knowledge = shipped_knowledge()
    start, cpu = time.perf_counter(), time.process_time()
    WORK[name][0](open_tree(wheel), knowledge)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def best(name: str, wheel: Path, times: int) -> dict[str, float]:
    """Measure in fresh processes; the shortest times, the largest memory."""
    command = [sys.executable, __file__, "--child", name, str(wheel)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(times)
    ]
    return {
        "seconds": min(run["seconds"] for run in runs),
        "cpu_seconds": min(run["cpu_seconds"] for run in runs),
        "peak_mb": max(run["peak_mb"] for run in runs),
    }


def verdict(value: float, limit: float | None) -> str:
    """A limit as people read it."""
    return "" if limit is None else f"{'ok' if value < limit else 'OVER'} (limit {limit:g})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("releases", nargs="*", default=RELEASES, help="versions")
    parser.add_argument("--times", type=int, default=3, help="processes for each measurement")
    cache = ROOT / ".cache" / "wheels"
    parser.add_argument("--cache", type=Path, default=cache, help="where the wheels are kept")
    parser.add_argument("--child", nargs=2, metavar=("WORK", "WHEEL"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        sys.stdout.write(json.dumps(measure(*options.child)))
        return 0
    rows: list[dict[str, Any]] = []
    sys.stdout.write(
        f"{'release':14} {'work':26} {'s':>7} {'CPU s':>7} {'ratio':>6} {'MB':>6}  verdict\n"
    )
    for release in options.releases:
        wheel = _sglang_wheels.fetch(release, options.cache)
        yardstick = 0.0
        for name, (_, limit) in WORK.items():
            found = best(name, wheel, options.times)
            yardstick = yardstick or found["cpu_seconds"]
            ratio = found["cpu_seconds"] / yardstick
            told = [verdict(found["seconds"], limit)]
            told.append(f"memory {verdict(found['peak_mb'], MEMORY_LIMIT)}" if limit else "")
            rows.append({"release": release, "work": name, "ratio": ratio, **found})
            sys.stdout.write(
                f"{release:14} {name:26} {found['seconds']:7.2f} {found['cpu_seconds']:7.2f} "
                f"{ratio:6.2f} {found['peak_mb']:6.0f}  {', '.join(filter(None, told))}\n"
            )
            sys.stdout.flush()
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    where = {"python": platform.python_version(), "machine": platform.machine()}
    RESULT.write_text(json.dumps({**where, "rows": rows}, indent=2) + "\n", "utf-8")
    sys.stdout.write(f"{RESULT}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
