# SPDX-License-Identifier: Apache-2.0
"""Who takes part in passing files on, with what, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from ansible_collections.sm120.sglang.plugins.module_utils import _verified
from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import plan


@dataclass(frozen=True)
class Folder:
    """One folder of known files on a node: `dest`, `record`, and the `files` as in a manifest."""

    dest: str
    record: str
    files: tuple[_verified.Wanted, ...]


@dataclass(frozen=True)
class Member:
    """A node that takes part.

    Attributes:
        name: Its name in the inventory.
        folders: What it must have.
        address: Where the others reach it; empty when only the controller does.
        port: The port on which it gives.
        network: See `plan.Site`.
        takes: False for a node that only gives: what it lacks is not brought.
    """

    name: str
    folders: tuple[Folder, ...]
    address: str = ""
    port: int = 0
    network: str = ""
    takes: bool = True

    def names(self) -> dict[str, str]:
        """Digest of each file to the path under which this node shows it."""
        return {
            entry.sha256: f"{number}/{entry.name}"
            for number, folder in enumerate(self.folders)
            for entry in folder.files
        }

    def sizes(self) -> dict[str, int]:
        """Digest of each file to its bytes."""
        return {entry.sha256: entry.size for folder in self.folders for entry in folder.files}


@dataclass(frozen=True)
class Settings:
    """How much at a time, and how fast; limits are million bytes a second, 0 for none."""

    streams: int = 2
    least: int = plan.LEAST_BYTES
    limit: float = 0.0
    controller_limit: float = 0.0


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        brought: Bytes of each way, (receiver, source); the controller's name is empty.
        resumed: Of each receiver's bytes those that were there from an earlier attempt.
        troubles: What went wrong, in sentences, each once.
        lacking: Node to the digests that it still lacks.
    """

    brought: Counter[tuple[str, str]] = field(default_factory=Counter)
    resumed: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    lacking: dict[str, set[str]] = field(default_factory=dict)

    def trouble(self, text: str) -> None:
        """Note a sentence once."""
        if text not in self.troubles:
            self.troubles.append(text)


def begin(
    members: Mapping[str, Member],
    lacking: Mapping[str, set[str]],
    here: Container[str],
    settings: Settings,
) -> plan.State:
    """The state before the first transfer.

    Args:
        members: Who takes part.
        lacking: Node to the digests that it lacks; a node that is not in it has told nothing and
            takes no part.
        here: Digests of the files that the controller has.
        settings: How much at a time.
    """
    sizes = {sha: size for member in members.values() for sha, size in member.sizes().items()}
    wanted = {name: missing for name, missing in lacking.items() if members[name].takes}
    pieces = plan.pieces(wanted, sizes, least=settings.least)
    has, lacks = {}, {}
    for name, missing in lacking.items():
        mine = set(members[name].sizes())
        # A node has a piece only when it wants all files in it.
        has[name] = frozenset(
            number for number, piece in pieces.items() if mine - missing >= set(piece.files)
        )
        lacks[name] = frozenset(
            number
            for number, piece in pieces.items()
            if members[name].takes and missing >= set(piece.files)
        )
    return plan.State(
        sites=tuple(
            plan.Site(name, members[name].network if members[name].address else "")
            for name in sorted(lacking)
        ),
        pieces=pieces,
        has=has,
        lacks=lacks,
        barred=frozenset(
            (plan.CONTROLLER, number)
            for number, piece in pieces.items()
            if not all(sha in here for sha in piece.files)
        ),
        streams=settings.streams,
        controller_streams=settings.streams,
    )
