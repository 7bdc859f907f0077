# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from ansible_collections.sm120.sglang.plugins.module_utils._pass_on import plan
from hypothesis import given
from hypothesis import strategies as st

CONTROLLER = plan.CONTROLLER


def fleet(nodes: int, files: int, *, streams: int = 1, network: str = "a") -> plan.State:
    """A fleet that has nothing yet, and files of one size."""
    names = [f"node-{number:02}" for number in range(nodes)]
    sizes = {f"{number:064x}": 10 << 30 for number in range(files)}
    pieces = plan.pieces({name: list(sizes) for name in names}, sizes)
    return plan.State(
        sites=tuple(plan.Site(name, network) for name in names),
        pieces=pieces,
        has={},
        lacks={name: frozenset(pieces) for name in names},
        streams=streams,
        controller_streams=streams,
    )


@st.composite
def states(draw: st.DrawFn) -> plan.State:
    """Any fleet: several networks, files in any state on each node, failures behind it."""
    sizes = {
        f"{number:064x}": draw(st.integers(0, 1 << 40)) for number in range(draw(st.integers(1, 8)))
    }
    sites = tuple(
        plan.Site(f"n{number}", draw(st.sampled_from(["", "a", "b"])))
        for number in range(draw(st.integers(1, 7)))
    )
    lacking = {site.name: draw(st.sets(st.sampled_from(sorted(sizes)))) for site in sites}
    pieces = plan.pieces(lacking, sizes, count=draw(st.integers(1, 9)))
    lacks = {
        name: frozenset(number for number, piece in pieces.items() if files >= set(piece.files))
        for name, files in lacking.items()
    }
    pairs = [(one.name, two.name) for one in sites for two in sites if one != two]
    sources = [site.name for site in sites] + [CONTROLLER]
    return plan.State(
        sites=sites,
        pieces=pieces,
        has={name: frozenset(pieces) - lacks[name] for name in lacks},
        lacks=lacks,
        streams=draw(st.integers(1, 3)),
        controller_streams=draw(st.integers(0, 3)),
        apart=frozenset(draw(st.sets(st.sampled_from(pairs), max_size=5)))
        if pairs
        else frozenset(),
        barred=frozenset(
            draw(
                st.sets(
                    st.tuples(st.sampled_from(sources), st.sampled_from(sorted(pieces))), max_size=3
                )
            )
            if pieces
            else ()
        ),
    )


@given(
    st.dictionaries(st.text("abc", min_size=1), st.sets(st.sampled_from("0123456789"))),
    st.integers(1, 20),
    st.integers(0, 1 << 30),
)
def test_pieces_hold_each_lacking_file_once_and_fit_every_node(
    lacking: dict[str, set[str]], count: int, least: int
) -> None:
    sizes = {name: int(name) << 27 for name in "0123456789"}
    pieces = plan.pieces(lacking, sizes, count, least)
    inside = [name for piece in pieces.values() for name in piece.files]
    assert sorted(inside) == sorted(set().union(*lacking.values()))
    for number, piece in pieces.items():
        assert number == piece.number
        assert piece.size == sum(sizes[name] for name in piece.files)
        for files in lacking.values():
            assert files.isdisjoint(piece.files) or files >= set(piece.files)


def test_files_that_are_small_travel_together() -> None:
    sizes = {f"{number:064x}": 1000 for number in range(150)}
    assert len(plan.pieces({"a": list(sizes)}, sizes)) == 1


@given(states())
def test_nobody_gives_what_it_has_not_or_more_than_it_may(state: plan.State) -> None:
    sites = {site.name: site for site in state.sites}
    for wave in plan.forecast(state):
        gives = Counter(item.source for item in wave)
        takes = Counter(item.receiver for item in wave)
        assert gives.pop(CONTROLLER, 0) <= state.controller_streams
        assert all(count <= state.streams for count in (gives + takes).values()) or (
            max([*gives.values(), *takes.values()]) <= state.streams
        )
        for item in wave:
            assert item.piece in state.lacks[item.receiver]
            assert (item.source, item.piece) not in state.barred
            assert (item.receiver, item.source) not in state.apart
            if item.source != CONTROLLER:
                assert sites[item.receiver].reaches(sites[item.source])
                assert item.piece in state.has[item.source]
        for item in wave:
            state = plan.arrived(plan.started(state, [item]), item)


@given(states())
def test_each_piece_comes_once_and_everything_that_can_come_comes(state: plan.State) -> None:
    taken = [(item.receiver, item.piece) for wave in plan.forecast(state) for item in wave]
    assert len(taken) == len(set(taken))
    clean = replace(state, apart=frozenset(), barred=frozenset(), controller_streams=1)
    taken = [(item.receiver, item.piece) for wave in plan.forecast(clean) for item in wave]
    wanted = [(name, number) for name, numbers in state.lacks.items() for number in numbers]
    assert sorted(taken) == sorted(wanted)


@given(states())
def test_the_controller_gives_a_network_what_nobody_there_has_and_once(state: plan.State) -> None:
    state = replace(state, apart=frozenset(), barred=frozenset())
    network = {site.name: site.network for site in state.sites}
    given_to = Counter(
        (network[item.receiver], item.piece)
        for wave in plan.forecast(state)
        for item in wave
        if item.source == CONTROLLER and network[item.receiver]
    )
    for (name, number), count in given_to.items():
        assert count == 1
        near = [site.name for site in state.sites if site.network == name]
        assert not any(number in state.has.get(node, ()) for node in near)


@given(states())
def test_it_decides_the_same_from_the_same(state: plan.State) -> None:
    assert plan.choose(state) == plan.choose(replace(state, sites=state.sites[::-1]))


def test_twenty_nodes_cost_little_more_than_one() -> None:
    alone, many = plan.forecast(fleet(1, 62)), plan.forecast(fleet(20, 62))
    assert len(alone) == 62
    ideal = 62 + math.ceil(math.log2(20))
    assert len(many) <= ideal * 1.1
    assert sum(item.source == CONTROLLER for wave in many for item in wave) == 62


def test_one_file_goes_through_a_doubling_tree() -> None:
    waves = plan.forecast(fleet(20, 1))
    assert [len(wave) for wave in waves] == [1, 1, 2, 4, 8, 4]


def test_without_addresses_the_controller_gives_everything() -> None:
    waves = plan.forecast(fleet(3, 2, network=""))
    assert {item.source for wave in waves for item in wave} == {CONTROLLER}
    assert [len(wave) for wave in waves] == [1] * 6


def test_a_source_that_fails_is_replaced() -> None:
    state = fleet(3, 1)
    state = replace(
        state,
        has={"node-00": frozenset({0})},
        lacks={"node-01": frozenset({0}), "node-02": frozenset({0})},
    )
    first = plan.choose(state)
    assert first == [plan.Transfer("node-01", "node-00", 0)]
    broken = replace(state, barred=frozenset({("node-00", 0)}))
    assert plan.choose(broken) == [plan.Transfer("node-01", CONTROLLER, 0)]
    gone = plan.without(plan.started(state, first), "node-00")
    # The transfer that still runs fails by itself; until then node-02 waits for node-01.
    assert plan.choose(gone) == []
    again = replace(gone, running=frozenset())
    assert plan.choose(again) == [plan.Transfer("node-01", CONTROLLER, 0)]


def test_a_receiver_that_drops_out_leaves_its_transfers() -> None:
    state = plan.started(fleet(2, 1), [plan.Transfer("node-00", CONTROLLER, 0)])
    left = plan.without(state, "node-00")
    assert left.running == frozenset()
    assert plan.choose(left) == [plan.Transfer("node-01", CONTROLLER, 0)]
