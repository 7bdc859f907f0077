#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Render stored benchmark results again: page, Markdown and JSON.

    scripts/benchmark_report.py RESULT.json [EARLIER.json ...] [--output FOLDER]

The first result is reported, the others are compared with it. A folder stands for all result.json
files below it, the newest first: `benchmark-results/NODE` compares a node with its earlier stacks.
Exit status: 0 rendered, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "collections"))

from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.files import (  # noqa: E402 - found on the path above
    ReportError,
    report,
    results_at,
    write,
)

FINE, BAD_INPUT = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT")
    parser.add_argument(
        "--output", type=Path, help="folder for the report; default: beside the first result"
    )
    options = parser.parse_args(arguments)
    try:
        found = [one for given in options.results for one in results_at(given)]
        (path, document), *others = found
        made = report(document, [one for _, one in others])
        folder = options.output or path.parent
        write(folder, made.files)
    except ReportError as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    for line in made.verdicts:
        sys.stdout.write(f"{line}\n")
    for one in made.comparisons:
        sys.stdout.write(
            f"against {one.other.stack.stack}: {one.regression.verdict}: {one.regression.reason}\n"
        )
    for name in made.files:
        sys.stdout.write(f"{folder / name}\n")
    return FINE


if __name__ == "__main__":
    sys.exit(main())
