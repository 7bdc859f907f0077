#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the entries of requirements.txt that named packages need, dependencies included.

Usage: pick_requirements.py PACKAGE...  (run by the environment that has them installed)
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

LOCK = Path(__file__).resolve().parent.parent / "requirements.txt"


def closure(names: list[str]) -> set[str]:
    """The packages and everything that they need here, as normalised names."""
    found: set[str] = set()
    queue = list(names)
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                queue.append(requirement.name)
    return found


def main() -> None:
    """Print the lock's entries."""
    wanted = closure(sys.argv[1:])
    for entry in re.split(r"\n(?=[a-z0-9])", LOCK.read_text(encoding="utf-8")):
        if entry.partition("==")[0].strip() in wanted:
            print(entry)


if __name__ == "__main__":
    main()
