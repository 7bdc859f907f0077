# SPDX-License-Identifier: Apache-2.0
"""What one check found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OK, FOUND, UNKNOWN = "ok", "found", "unknown"


class Finding(NamedTuple):
    """What one check found.

    Attributes:
        id: The check, a key of `catalogue.CHECKS`.
        state: `ok`, `found` (something is wrong), or `unknown` (it could not be read).
        read: What was read.
        remedy: What to do; empty takes the catalogue's.
    """

    id: str
    state: str
    read: str
    remedy: str = ""


def found(check: str, wrong: Iterable[str], fine: str, remedy: str = "") -> Finding:
    """A finding with everything that is wrong, or fine.

    Args:
        check: The check.
        wrong: One text each thing that is wrong.
        fine: What was read when nothing is.
        remedy: What to do, instead of the catalogue's.
    """
    wrong = list(wrong)
    if not wrong:
        return Finding(check, OK, fine)
    return Finding(check, FOUND, "; ".join(wrong), remedy)


def group(entries: Iterable[tuple[str, str]]) -> list[str]:
    """Join names that say the same: ("GPU 0", "x"), ("GPU 1", "x") gives "GPU 0, 1: x"."""
    by_text: dict[str, list[str]] = {}
    for name, text in entries:
        by_text.setdefault(text, []).append(name)
    lines = []
    for text, names in by_text.items():
        kinds = {name.rpartition(" ")[0] for name in names}
        joined = ", ".join(names)
        if len(kinds) == 1 and (kind := kinds.pop()):
            joined = f"{kind} {', '.join(name.rpartition(' ')[2] for name in names)}"
        lines.append(f"{joined}: {text}")
    return lines
