# SPDX-License-Identifier: Apache-2.0
"""The table of docs/faults.md and the tests that show what it says."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/faults.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<id>[a-z-]+)(?P<core> \*)? \|(?:[^|]*\|){3}$", re.MULTILINE)
MARK = re.compile(r"mark\.fault\(\s*\"(?P<id>[a-z-]+)\"")


def shown(folder: str, mark: re.Pattern[str] = MARK) -> list[str]:
    texts = [p.read_text(encoding="utf-8") for p in (REPOSITORY / folder).glob("test_*.py")]
    return [match["id"] for text in texts for match in mark.finditer(text)]


CORE = re.compile(r"mark\.faults_core[\],\s@]*(?:pytest\.)?mark\.fault\(\"(?P<id>[a-z-]+)\"")


def test_every_fault_of_the_page_is_shown_by_a_test_and_every_shown_one_is_on_the_page() -> None:
    rows = [row for row in ROW.finditer(PAGE) if row["id"] != "fault"]
    assert sorted(row["id"] for row in rows) == sorted(
        [*shown("tests/faults"), *shown("tests/deploy")]
    )
    core = shown("tests/faults", CORE)
    assert len(core) >= 4
    assert sorted(row["id"] for row in rows if row["core"]) == sorted(
        [*core, *shown("tests/deploy")]
    )
    assert len(rows) >= 25
    assert len(re.findall(r"^\| [a-z-]+", PAGE, re.MULTILINE)) == len(rows) + PAGE.count(
        "\n| fault"
    )
