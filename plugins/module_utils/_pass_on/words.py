# SPDX-License-Identifier: Apache-2.0
"""What is said of passing files on: the plan, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import plan


def amount(size: int) -> str:
    """Bytes for people: in MB below a GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def transfer(item: plan.Transfer, pieces: Mapping[int, plan.Piece]) -> dict[str, Any]:
    """A planned transfer as data: `receiver`, `source`, `files` and `bytes`."""
    piece = pieces[item.piece]
    return {
        "receiver": item.receiver,
        "source": item.source,
        "files": list(piece.files),
        "bytes": piece.size,
    }


def planned(
    waves: Sequence[Sequence[plan.Transfer]], pieces: Mapping[int, plan.Piece]
) -> list[str]:
    """The plan, a line a node that takes something."""
    ways: dict[str, Counter[str]] = {}
    span: dict[str, tuple[int, int]] = {}
    for number, wave in enumerate(waves, 1):
        for item in wave:
            ways.setdefault(item.receiver, Counter())[item.source] += pieces[item.piece].size
            span[item.receiver] = (span.get(item.receiver, (number, 0))[0], number)
    return [
        f"{name} would take {amount(ways[name].total())} in waves {span[name][0]} to "
        f"{span[name][1]} of {len(waves)}: {_sources(ways[name])}"
        for name in sorted(ways)
    ]


def done(brought: Mapping[tuple[str, str], int], resumed: Mapping[str, int]) -> list[str]:
    """What was brought, a line a node that took something.

    Args:
        brought: Bytes of each way, (receiver, source).
        resumed: Of each receiver's bytes those that were there from an earlier attempt.
    """
    ways: dict[str, Counter[str]] = {}
    for (receiver, source), size in brought.items():
        ways.setdefault(receiver, Counter())[source] += size
    return [
        f"{name} took {amount(ways[name].total())}: {_sources(ways[name])}"
        + (f"; {amount(resumed[name])} of it were there already" if resumed.get(name) else "")
        for name in sorted(ways)
    ]


def _sources(sizes: Mapping[str, int]) -> str:
    return ", ".join(
        f"{amount(size)} from {source or 'the controller'}"
        for source, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
    )
