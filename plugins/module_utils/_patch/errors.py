# SPDX-License-Identifier: Apache-2.0
"""What can go wrong outside a decision: each error carries its cause and its remedy."""

from __future__ import annotations


class PatchError(Exception):
    """A patch run cannot go on.

    Args:
        cause: what is wrong, with the evidence (path, line, value).
        remedy: what the operator can do about it.
    """

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}. {remedy}" if remedy else cause)
        self.cause = cause
        self.remedy = remedy


class CatalogueError(PatchError):
    """A catalogue entry is not usable.

    Args:
        path: where in the catalogue, as keys and indexes: ``(0, "rule", "key")``.
        cause: what is wrong with that value.
        remedy: what would be right.
    """

    def __init__(self, path: tuple[str | int, ...], cause: str, remedy: str = "") -> None:
        super().__init__(f"{dotted(path)}: {cause}", remedy)
        self.path = path
        self.problem = cause


class SourceError(PatchError):
    """A source file cannot be read as Python (encoding, syntax, size)."""


class TreeError(PatchError):
    """The release's folder is not what it should be (missing, links that lead outside)."""


class ManifestError(PatchError):
    """The record of earlier edits cannot be used."""


class ProofError(PatchError):
    """An edit is in place as planned but does not behave as promised."""


def dotted(path: tuple[str | int, ...]) -> str:
    """Write a catalogue position the way a person would: ``entry[0].rule.key``."""
    text = "entry"
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text
