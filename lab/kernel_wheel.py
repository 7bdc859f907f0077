# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of CPU stand-ins (`lab/kernels`), offline and to the byte the same each time.

Command line: `python -m lab.kernel_wheel OUT_DIR`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "kernels"


class KernelWheelError(RuntimeError):
    """The wheel could not be built."""


def build_wheel(out_dir: Path) -> Path:
    """Build the wheel with the controller's own hatchling; no network, no build environment.

    Args:
        out_dir: folder for the wheel; made when missing.  A wheel of the same name is replaced.

    Returns:
        Path of the wheel.

    Raises:
        KernelWheelError: hatchling is missing or failed; carries what it printed.
    """
    out_dir = out_dir.absolute()
    out_dir.mkdir(parents=True, exist_ok=True)
    # Left to itself hatchling stamps a fixed date; a SOURCE_DATE_EPOCH from outside would change
    # the bytes.
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    with tempfile.TemporaryDirectory(prefix=".kernel-wheel-", dir=out_dir) as scratch:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch]
        result = subprocess.run(
            command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False
        )
        built = list(Path(scratch).glob("*.whl"))
        if result.returncode != 0 or len(built) != 1:
            raise KernelWheelError(
                f"{' '.join(command)} in {SOURCE} ended with {result.returncode} and "
                f"{len(built)} wheels: {(result.stderr or result.stdout).strip()}. "
                "hatchling is in requirements.txt: `make venv` installs it."
            )
        return built[0].replace(out_dir / built[0].name)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.kernel_wheel", description="Build the wheel of CPU stand-ins."
    )
    parser.add_argument("out_dir", type=Path, help="folder for the wheel")
    print(build_wheel(parser.parse_args(arguments).out_dir))
    return 0


if __name__ == "__main__":
    sys.exit(main())
