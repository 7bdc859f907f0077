# SPDX-License-Identifier: Apache-2.0
"""The table of docs/operations.md and the kinds that tests/drift shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.drift.configuration import GATED
from tests.drift.kinds import KINDS
from tests.drift.restarting import RESTARTS

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8")
TABLE = PAGE.split("## What a re-run notices")[1].split("## ")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ")]
RESTARTING = ROWS.index("| **what restarts the engine** | | |")


def names(rows: list[str]) -> list[str]:
    return [name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[2])]


def test_every_kind_of_the_page_is_tested_and_every_tested_one_is_on_the_page() -> None:
    assert sorted(names(ROWS)) == sorted(KINDS)
    assert len(KINDS) >= 40
    assert sorted(names(ROWS[RESTARTING:])) == sorted(RESTARTS)


def test_what_needs_no_restart_comes_first() -> None:
    order = list(KINDS)
    assert order[-len(RESTARTS) :] == list(RESTARTS)
    assert all(KINDS[name].restarts == (name in RESTARTS) for name in order)
    assert not any(KINDS[name].restarts for name in GATED)
