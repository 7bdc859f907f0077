# SPDX-License-Identifier: Apache-2.0
"""Install a CUDA toolkit beside others, and leave `/usr/local/cuda` to whom it belongs.

The packages register their own folder with update-alternatives and win by priority; a build that
counts on the older toolkit then finds another one. What they register is taken out again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._cuda import apt, names, transaction

GROUPS = ("cuda", "cuda-13")


def parse_alternatives(text: str) -> list[str]:
    """Choices in the output of `update-alternatives --query NAME`."""
    return re.findall(r"^Alternative: (.+)$", text, re.MULTILINE)


def read_alternatives(groups: Sequence[str] = GROUPS) -> dict[str, list[str]]:
    """Choices of each group of alternatives; empty for one that does not exist."""
    found = {}
    for group in groups:
        code, output = transaction.run("update-alternatives", "--query", group)
        found[group] = parse_alternatives(output) if code == 0 else []
    return found


def to_remove(
    before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]
) -> list[tuple[str, str]]:
    """Choices that came in between, as group and path."""
    return [
        (group, path)
        for group, paths in sorted(after.items())
        for path in paths
        if path not in before.get(group, ())
    ]


def install(asked: Mapping[str, Any], check: bool) -> dict[str, Any]:
    """Install the toolkit's packages.

    Args:
        asked: `packages` and `home`, the folder that they bring.
        check: Only say what would happen.

    Returns:
        `installed`, `removed` and `alternatives`, the choices that were taken out again.

    Raises:
        names.CudaError: It is refused, or failed; what was there before is there still.
    """
    packages = list(asked["packages"])
    have = transaction.available(packages)
    absent = [name for name in packages if name not in have]
    if absent:
        _, output = transaction.run("apt-cache", "search", "--names-only", r"^cuda-toolkit-1[3-9]-")
        offered = ", ".join(sorted(line.split()[0] for line in output.splitlines() if line))
        raise names.CudaError(
            f"the repository has no {', '.join(absent)}; it has {offered or 'no CUDA toolkit'}: "
            "set cuda_stack_toolkit_version"
        )
    words = ("--no-install-recommends", "install", *packages)
    said = transaction.apt_get("trying the toolkit", "--simulate", *words)
    seen = apt.parse_simulation(said)
    moved = sorted(name for name, v in seen.install.items() if names.is_driver(name, v))
    if moved or seen.remove:
        raise names.CudaError(
            f"{' '.join(packages)} would change more than the toolkit: "
            f"{', '.join([*moved, *(f'{name} removed' for name in seen.remove)])}"
        )
    result: dict[str, Any] = {"installed": seen.install, "removed": [], "alternatives": []}
    if check:
        return result
    _, announced = transaction.run("apt-get", "--assume-no", *words)
    transaction.check_space(announced)
    before = read_alternatives()
    transaction.apt_get("downloading the toolkit", "--download-only", *words)
    try:
        transaction.apt_get("installing the toolkit", *words)
    finally:
        for group, path in to_remove(before, read_alternatives()):
            transaction.run("update-alternatives", "--remove", group, path)
            result["alternatives"].append(f"{group}: {path}")
    if not Path(asked["home"]).is_dir():
        raise names.CudaError(f"{' '.join(packages)} did not bring {asked['home']}")
    return result
