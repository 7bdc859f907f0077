# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m lab.models build OUT`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.models.build import build


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.models", description="Tiny models whose answers are known beforehand."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="write target, draft-hit, draft-miss, draft-long")
    command.add_argument("out", type=Path, help="folder to make")
    options = parser.parse_args(arguments)
    changed = build(options.out)
    print(f"{'built' if changed else 'unchanged'}: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
