#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write docs/releases.md: every SGLang release since 0.5.5.post3, read from its published wheel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.sm120.sglang.plugins.module_utils._report.describe import (  # noqa: E402
    describe,
)
from ansible_collections.sm120.sglang.plugins.module_utils._report.render import (  # noqa: E402
    markdown_table,
    overview,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree  # noqa: E402
from ansible_collections.sm120.sglang.plugins.module_utils.release_report import (  # noqa: E402
    shipped_knowledge,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels  # noqa: E402

PAGE = ROOT / "docs" / "releases.md"
FIRST = "0.5.5.post3"
TABLE, END = "<!-- table: made by 'make releases-doc' -->", "<!-- end of the table -->"


def releases() -> list[str]:
    """The releases of the page, oldest first, as the package index lists them."""
    published = _sglang_wheels.published()
    return published[: published.index(FIRST) + 1][::-1]


def described(versions: Sequence[str], cache: Path) -> list[dict[str, Any]]:
    """Describe releases, each from its wheel."""
    knowledge = shipped_knowledge()
    found = []
    for version in versions:
        tree = open_tree(str(_sglang_wheels.fetch(version, cache)))
        found.append(describe(tree, knowledge))
        sys.stderr.write(f"{version}\n")
    return found


def with_table(page: str, descriptions: Sequence[dict[str, Any]]) -> str:
    """The page with its table made anew."""
    before, _, rest = page.partition(TABLE)
    _, _, after = rest.partition(END)
    return f"{before}{TABLE}\n\n{markdown_table(overview(descriptions))}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Make the page; the wheels are kept in the folder that the one argument names."""
    cache = Path(arguments[0]) if arguments else ROOT / ".cache" / "wheels"
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), described(releases(), cache)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
