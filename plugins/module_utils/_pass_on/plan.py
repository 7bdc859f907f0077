# SPDX-License-Identifier: Apache-2.0
"""Who takes what from whom, decided without touching a node.

Files are cut into pieces, each of which one transfer carries. A node gives on every piece that it
has, so that the weights travel through the fleet while they still arrive: with P pieces of equal
size and N nodes that lack them, one transfer at a time in each direction, at best P + log2(N)
transfers follow one another, where N copies from one source take P x N.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

CONTROLLER = ""
"""The source that has every file; it is used for what no node can give."""

PIECES = 64
LEAST_BYTES = 128 << 20  # a connection for less costs more than it carries


@dataclass(frozen=True)
class Site:
    """A node as the others see it.

    Attributes:
        name: Its name in the inventory.
        network: Nodes of one network reach each other; empty for a node that only the controller
            reaches.
    """

    name: str
    network: str = ""

    def reaches(self, other: Site) -> bool:
        """Whether this node may take from the other one."""
        return self.name != other.name and self.network != "" and self.network == other.network


@dataclass(frozen=True, order=True)
class Piece:
    """Files that travel together, by their sha256, and their bytes."""

    number: int
    files: tuple[str, ...]
    size: int


@dataclass(frozen=True, order=True)
class Transfer:
    """One piece on its way: who takes it, from whom (`CONTROLLER` or a node), and which."""

    receiver: str
    source: str
    piece: int


@dataclass(frozen=True)
class State:
    """What is known while files are passed on.

    Attributes:
        sites: Every node that takes part.
        pieces: What is passed on, by number.
        has: Node to the pieces that it has, whole and verified.
        lacks: Node to the pieces that it still has to get.
        running: Transfers on their way.
        barred: (source, piece) that was found corrupt or unreadable.
        apart: (receiver, source) between which transfers fail.
        streams: Transfers that a node gives, and that it takes, at a time.
        controller_streams: Transfers that the controller gives at a time; 0 when it gives none.
    """

    sites: tuple[Site, ...]
    pieces: Mapping[int, Piece]
    has: Mapping[str, frozenset[int]]
    lacks: Mapping[str, frozenset[int]]
    running: frozenset[Transfer] = frozenset()
    barred: frozenset[tuple[str, int]] = frozenset()
    apart: frozenset[tuple[str, str]] = frozenset()
    streams: int = 1
    controller_streams: int = 1


@dataclass
class _Load:
    """How busy everybody is, while transfers are chosen."""

    gives: Counter[str] = field(default_factory=Counter)
    takes: Counter[str] = field(default_factory=Counter)
    coming: dict[int, set[str]] = field(default_factory=dict)

    def add(self, transfer: Transfer) -> None:
        self.gives[transfer.source] += 1
        self.takes[transfer.receiver] += 1
        self.coming.setdefault(transfer.piece, set()).add(transfer.receiver)


def pieces(
    lacking: Mapping[str, Iterable[str]],
    sizes: Mapping[str, int],
    count: int = PIECES,
    least: int = LEAST_BYTES,
) -> dict[int, Piece]:
    """Cut what is lacking into pieces.

    Files are never cut. Those of one piece are lacking on the same nodes, so that a node lacks a
    piece or has it whole.

    Args:
        lacking: Node to the sha256 of the files that it lacks.
        sizes: Bytes of each file.
        count: Pieces wanted, where the files are small enough.
        least: Bytes of a piece, where there are files enough.

    Returns:
        The pieces by number, from 0; large files first in each group of nodes.
    """
    nodes_of: dict[str, set[str]] = {}
    for node, files in lacking.items():
        for name in files:
            nodes_of.setdefault(name, set()).add(node)
    goal = max(sum(sizes[name] for name in nodes_of) // max(count, 1), least)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, nodes in nodes_of.items():
        groups.setdefault(tuple(sorted(nodes)), []).append(name)
    found: list[Piece] = []
    for _, names in sorted(groups.items()):
        names.sort(key=lambda name: (-sizes[name], name))
        batch: list[str] = []
        total = 0
        for name in names:
            if batch and total + sizes[name] > goal:
                found.append(Piece(len(found), tuple(batch), total))
                batch, total = [], 0
            batch.append(name)
            total += sizes[name]
        found.append(Piece(len(found), tuple(batch), total))
    return {piece.number: piece for piece in found}


def choose(state: State) -> list[Transfer]:
    """Decide which transfers start now.

    The rarest piece goes first and to the node that has least, so that nodes soon have different
    pieces to give. The controller gives a piece only where no node of that network has it, or is
    about to get it: its own line carries each file once for each network.

    Args:
        state: What is known.

    Returns:
        The transfers, none of which exceeds what a node or the controller may give and take.
    """
    load = _Load()
    for running in state.running:
        load.add(running)
    sites = {site.name: site for site in state.sites}
    chosen: list[Transfer] = []
    while (transfer := _next(state, sites, load)) is not None:
        chosen.append(transfer)
        load.add(transfer)
    return chosen


def _next(state: State, sites: Mapping[str, Site], load: _Load) -> Transfer | None:
    """The transfer that matters most among those that could start."""
    free = {name for name in sites if load.takes[name] < state.streams}
    idle = [name for name in sites if load.gives[name] < state.streams]
    # What some idle node has, or the controller could give.
    offered = {number for name in idle for number in state.has.get(name, ())}
    if load.gives[CONTROLLER] < state.controller_streams:
        offered |= set(state.pieces)
    wanted = offered & {number for name in free for number in state.lacks.get(name, ())}
    spread = Counter(number for numbers in state.has.values() for number in numbers)
    for number in sorted(
        wanted,
        key=lambda number: (
            spread[number] + len(load.coming.get(number, ())),
            -state.pieces[number].size,
            number,
        ),
    ):
        coming = load.coming.get(number, set())
        for name in sorted(
            (name for name in free - coming if number in state.lacks.get(name, ())),
            key=lambda name: (len(state.has.get(name, ())) + load.takes[name], name),
        ):
            givers = [
                source
                for source in _sources(state, sites[name], number, coming)
                if load.gives[source] < (state.streams if source else state.controller_streams)
            ]
            if givers:
                source = min(givers, key=lambda source: (load.gives[source], source))
                return Transfer(name, source, number)
    return None


def _sources(state: State, receiver: Site, number: int, coming: Iterable[str]) -> list[str]:
    """Who can give a piece to a node; the controller only when no node will."""

    def usable(source: str) -> bool:
        return (source, number) not in state.barred and (receiver.name, source) not in state.apart

    near = [site for site in state.sites if receiver.reaches(site) and usable(site.name)]
    having = [site.name for site in near if number in state.has.get(site.name, ())]
    if having:
        return having
    if any(site.name in coming for site in near) or not usable(CONTROLLER):
        return []
    return [CONTROLLER] if state.controller_streams > 0 else []


def arrived(state: State, transfer: Transfer) -> State:
    """The state after a transfer has ended well."""
    node, number = transfer.receiver, transfer.piece
    return replace(
        state,
        running=state.running - {transfer},
        has={**state.has, node: state.has.get(node, frozenset()) | {number}},
        lacks={**state.lacks, node: state.lacks.get(node, frozenset()) - {number}},
    )


def started(state: State, transfers: Iterable[Transfer]) -> State:
    """The state after transfers have begun."""
    return replace(state, running=state.running | set(transfers))


def without(state: State, node: str) -> State:
    """The state after a node has dropped out: it neither gives nor takes any more."""
    return replace(
        state,
        sites=tuple(site for site in state.sites if site.name != node),
        has={name: numbers for name, numbers in state.has.items() if name != node},
        lacks={name: numbers for name, numbers in state.lacks.items() if name != node},
        running=frozenset(item for item in state.running if item.receiver != node),
    )


def forecast(state: State) -> list[list[Transfer]]:
    """What would happen if all transfers took equally long.

    Args:
        state: What is known.

    Returns:
        The waves, each a list of transfers that run at the same time. What nobody can give is in
        none of them.
    """
    waves: list[list[Transfer]] = []
    while wave := choose(state):
        waves.append(wave)
        state = started(state, wave)
        for transfer in wave:
            state = arrived(state, transfer)
    return waves
