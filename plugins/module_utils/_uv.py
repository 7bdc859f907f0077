# SPDX-License-Identifier: Apache-2.0
"""uv, from its own wheel, and what it does for a release: environments and wheels, offline."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils import (
    _built,
    _os_errors,
    _release,
    _stack,
    _wheelhouse,
)


@dataclass(frozen=True)
class Uv:
    """uv for one release that is being built.

    Attributes:
        program: The binary.
        wheels: Folder with the verified wheels.
        paths: The release.
    """

    program: Path
    wheels: Path
    paths: _release.Paths

    @classmethod
    def extract(cls, wheels: Path, wheel: str, paths: _release.Paths) -> Uv:
        """Take uv out of its wheel, each time: what is there may have been changed.

        Args:
            wheels: Folder with the verified wheels.
            wheel: The file name of uv's own.
            paths: The release.
        """
        program = paths.root / "tools" / Path(wheel).stem
        _built.extract_tool(wheels / wheel, "uv", program)
        return cls(program, wheels, paths)

    @staticmethod
    def cache(root: Path) -> Path:
        """Its cache: on the file system of the releases, so that files are hard links."""
        return root / "cache" / "uv"

    def make(self, python: str) -> None:
        """Make an environment that can be renamed.

        Args:
            python: The interpreter.

        Raises:
            _release.ReleaseError: uv failed.
        """
        self._run(["venv", "--relocatable", "--python", python, str(self._environment)], "")

    def install(self, pins: Sequence[_stack.Pin], link_mode: str) -> None:
        """Install exactly these wheels.

        Args:
            pins: What to install, with digests; nothing is done for none.
            link_mode: `hardlink` shares the files with uv's cache, `copy` does not.

        Raises:
            _release.ReleaseError: uv failed.
        """
        if not pins:
            return
        words = ["pip", "install", "--python", str(self._environment / "bin/python")]
        words += ["--no-index", "--no-deps", "--find-links", str(self.wheels), "--require-hashes"]
        words += ["--requirements", "-", "--link-mode", link_mode]
        self._run(words, _wheelhouse.requirements(pins))

    @property
    def _environment(self) -> Path:
        return self.paths.building / "venv"

    def _run(self, words: Sequence[str], text: str) -> None:
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "UV_CACHE_DIR": str(self.cache(self.paths.root)),
            "UV_OFFLINE": "1",
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
        }
        done = subprocess.run(
            [str(self.program), "--quiet", *words],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.strip()[-1500:]
            raise _release.ReleaseError(
                f"uv failed while building {self.paths.release}: {said}{_os_errors.of_text(said)}"
            )
