# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of CPU stand-ins (`lab/kernels`), offline and to the byte the same each time.

Command line: `python -m lab.kernel_wheel OUT_DIR [NAME==VERSION]`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "kernels"
# As SGLang 0.5.9 pins it; later releases ask for another name and version of the same module.
OWN = "sgl-kernel==0.3.21+lab.cpu"


class KernelWheelError(RuntimeError):
    """The wheel could not be built."""


def build_wheel(out_dir: Path, requirement: str = OWN) -> Path:
    """Build the wheel with the controller's own hatchling; no network, no build environment.

    Args:
        out_dir: folder for the wheel; made when missing.  A wheel of the same name is replaced.
        requirement: the name and version that the release pins, with the local part.

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
        source = SOURCE if requirement == OWN else _renamed(Path(scratch, "source"), requirement)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch]
        result = subprocess.run(
            command, cwd=source, env=environment, capture_output=True, text=True, check=False
        )
        built = list(Path(scratch).glob("*.whl"))
        if result.returncode != 0 or len(built) != 1:
            raise KernelWheelError(
                f"{' '.join(command)} in {SOURCE} ended with {result.returncode} and "
                f"{len(built)} wheels: {(result.stderr or result.stdout).strip()}. "
                "hatchling is in requirements.txt: `make venv` installs it."
            )
        return built[0].replace(out_dir / built[0].name)


def _renamed(target: Path, requirement: str) -> Path:
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    own, new = OWN.split("=="), requirement.split("==")
    project, package = target / "pyproject.toml", target / "src/sgl_kernel/__init__.py"
    for path, old, text in (
        (project, f'name = "{own[0]}"', f'name = "{new[0]}"'),
        (project, f'version = "{own[1]}"', f'version = "{new[1]}"'),
        (package, f'__version__ = "{own[1]}"', f'__version__ = "{new[1]}"'),
    ):
        content = path.read_text(encoding="utf-8")
        if content.count(old) != 1:
            raise KernelWheelError(f"{path.name} does not hold {old!r} once")
        path.write_text(content.replace(old, text), encoding="utf-8")
    return target


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.kernel_wheel", description="Build the wheel of CPU stand-ins."
    )
    parser.add_argument("out_dir", type=Path, help="folder for the wheel")
    parser.add_argument("requirement", nargs="?", default=OWN, help="NAME==VERSION+LOCAL")
    asked = parser.parse_args(arguments)
    print(build_wheel(asked.out_dir, asked.requirement))
    return 0


if __name__ == "__main__":
    sys.exit(main())
