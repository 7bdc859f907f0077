# SPDX-License-Identifier: Apache-2.0
"""Edits of bytes: apply them, and undo them to the byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, order=True)
class Edit:
    """Replace ``old`` at byte offset ``at`` by ``new``; offsets count in the bytes before."""

    at: int
    old: bytes
    new: bytes

    @property
    def end(self) -> int:
        """First byte offset behind the replaced bytes."""
        return self.at + len(self.old)


def apply_edits(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return ``data`` with all edits made.

    Raises:
        ValueError: an edit overlaps another one, or does not find its old bytes.
    """
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits):
        if not position <= edit.at <= len(data) or data[edit.at : edit.end] != edit.old:
            raise ValueError(f"edit at byte {edit.at} does not fit the data")
        parts += [data[position : edit.at], edit.new]
        position = edit.end
    parts.append(data[position:])
    return b"".join(parts)


def reverse_edits(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return the edits that turn the result of ``edits`` back into its input."""
    shift = 0
    reverse: list[Edit] = []
    for edit in sorted(edits):
        reverse.append(Edit(edit.at + shift, edit.new, edit.old))
        shift += len(edit.new) - len(edit.old)
    return tuple(reverse)
