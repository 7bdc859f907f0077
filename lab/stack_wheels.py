# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels that a lab stack takes from the controller.

The first stack's stand in OUT_DIR itself, another one's in a folder of its name there: what lies in
the folder shapes a release.

Command line: `python -m lab.stack_wheels STACK OUT_DIR`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

from lab import engine_wheel, kernel_wheel

STACKS = Path(__file__).parents[1] / "roles/engine_release/files/stacks"
FIRST = "lab-0.5.9"


def build(stack: str, out_dir: Path) -> None:
    """Build one stack's wheels.

    Args:
        stack: Its name.
        out_dir: The folder of all lab wheels.

    Raises:
        engine_wheel.EngineWheelError: The published wheel cannot be had.
        kernel_wheel.KernelWheelError: The stand-ins cannot be built.
        FileNotFoundError: There is no such stack.
    """
    known = yaml.safe_load((STACKS / f"{stack}.yml").read_text(encoding="utf-8"))
    folder = out_dir if stack == FIRST else out_dir / stack
    print(kernel_wheel.build_wheel(folder, known["kernels"]))
    if "sglang" in known["unhashed"]:
        engine_wheel.build(known["sglang"], folder)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.stack_wheels", description="Build what a lab stack needs."
    )
    parser.add_argument("stack", help="name of the stack")
    parser.add_argument("out_dir", type=Path, help="folder of all lab wheels")
    asked = parser.parse_args(arguments)
    try:
        build(asked.stack, asked.out_dir)
    except (
        engine_wheel.EngineWheelError,
        kernel_wheel.KernelWheelError,
        FileNotFoundError,
    ) as error:
        print(f"lab.stack_wheels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
