# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's toolkit wheels, made usable as a CUDA_HOME.

The CUDA 13 wheels share one folder, `nvidia/cu13` in site-packages, with the toolkit's `bin`,
`include` and `nvvm`. What builders of extensions look for besides is not there: `lib64`, and the
libraries' names without a version, which the linker wants (flashinfer#5064).
"""

from __future__ import annotations

import re
from pathlib import Path

_VERSIONED = re.compile(r"^(?P<plain>lib[^/]+\.so)\.\d+$")


def home(packages: Path) -> Path | None:
    """The toolkit's folder.

    Args:
        packages: A site-packages folder.

    Returns:
        The folder that has `bin/nvcc`, None without one.
    """
    found = sorted(packages.glob("nvidia/cu*/bin/nvcc"))
    return found[-1].parent.parent if found else None


def finish(packages: Path) -> list[str]:
    """Add the links that a CUDA_HOME has and the wheels lack.

    Args:
        packages: A site-packages folder.

    Returns:
        Names of the links that were made, relative to the toolkit; empty without a toolkit.
    """
    toolkit = home(packages)
    if toolkit is None:
        return []
    made = []
    libraries = toolkit / "lib"
    if libraries.is_dir() and not (toolkit / "lib64").exists():
        (toolkit / "lib64").symlink_to("lib")
        made.append("lib64")
    for library in sorted(libraries.glob("lib*.so.*")):
        match = _VERSIONED.match(library.name)
        if match and not (libraries / match["plain"]).exists():
            (libraries / match["plain"]).symlink_to(library.name)
            made.append(f"lib/{match['plain']}")
    return made
