# SPDX-License-Identifier: Apache-2.0
"""A release's server arguments, read from its source alone; nothing is imported or run."""

from __future__ import annotations

from typing import Protocol

from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError


class Reads(Protocol):
    """What the reader needs of a release; `_tree.Tree` has it."""

    def read(self, path: str) -> bytes | None:
        """A file of the package by its path (`srt/server_args.py`), None where there is none."""

    def names(self, prefix: str = "") -> list[str]:
        """Paths of the package's files that begin with a prefix."""


class ArgumentsError(PatchError):
    """A release's arguments, or the rules about them, cannot be read; says cause and remedy."""
