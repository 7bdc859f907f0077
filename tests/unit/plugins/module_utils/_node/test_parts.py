# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._node import parts, service


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["sglang::scheduler", "sglang::detokenizer"], []),
        (["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"], []),
        (["sglang::detokenizer"], ["scheduler"]),
        (["sglang::scheduler_TP1"], ["detokenizer"]),
        (["sglang::http_server"], ["scheduler", "detokenizer"]),
        ([], []),
        (["python"], []),
    ],
)
def test_which_parts_are_gone(titles: list[str], expected: list[str]) -> None:
    assert parts.gone(titles) == expected


ALL = [f"sglang::scheduler_TP{rank}" for rank in range(8)]


@pytest.mark.parametrize("killed", range(8))
@pytest.mark.parametrize("form", ["sglang::scheduler_TP{}", "sglang::scheduler_DP0_TP{}_EP0"])
def test_one_of_many_schedulers_is_missed_whichever_it_is(killed: int, form: str) -> None:
    titles = [form.format(rank) for rank in range(8) if rank != killed] + ["sglang::detokenizer"]
    assert parts.gone(titles, ranks=8) == [f"scheduler_TP{killed}"]
    # Where their number is not known: the ones between others.
    unknown = [f"scheduler_TP{killed}"] if 0 < killed < 7 else []
    assert parts.gone(titles) == unknown


def test_ranks_of_several_nodes_begin_where_those_of_another_end() -> None:
    assert parts.gone(ALL[4:], rank=1) == []
    assert parts.gone([*ALL[4:6], ALL[7]], rank=1) == ["scheduler_TP6"]
    assert parts.gone([*ALL[4:], "sglang::detokenizer"], ranks=4) == []


@pytest.mark.parametrize(
    ("tensor_parallel", "nodes", "expected"),
    [("8", "", 8), ("8", "1", 8), ("1", "", 0), ("", "", 0), ("16", "2", 0), ("many", "", 0)],
)
def test_how_many_ranks_a_node_has(tensor_parallel: str, nodes: str, expected: int) -> None:
    assert parts.rank_count(tensor_parallel, nodes) == expected


@pytest.mark.parametrize(
    ("seen", "now", "expected"),
    [
        (["sglang::scheduler", "sglang::detokenizer"], ["sglang::scheduler"], ["detokenizer"]),
        # One rank of several: the others wait for it.
        (
            ["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"],
            ["sglang::scheduler_TP0", "sglang::detokenizer"],
            ["scheduler_TP1"],
        ),
        (["sglang::scheduler"], [], ["scheduler"]),
        # What comes later, and what may end by itself.
        ([], ["sglang::scheduler"], []),
        (["sglang::scheduler", "sglang::sidecar"], ["sglang::scheduler"], []),
    ],
)
def test_which_parts_have_ended_since(seen: list[str], now: list[str], expected: list[str]) -> None:
    assert parts.ended(seen, now) == expected


def test_a_part_is_lost_at_the_second_look_that_misses_it() -> None:
    both, one = ["sglang::scheduler", "sglang::detokenizer"], ["sglang::scheduler"]
    roll = parts.Roll()
    assert [roll.look(both, 0), roll.look(one, 0), roll.look(one, 0)] == [[], [], ["detokenizer"]]
    # It was not read once, or another process of that name took its place.
    roll = parts.Roll()
    assert [roll.look(titles, 0) for titles in (both, [], both, [])] == [[], [], [], []]


def test_a_part_that_was_never_seen_is_lost_once_the_port_is_open_for_a_while() -> None:
    roll = parts.Roll()
    looks = [roll.look(["sglang::scheduler"], up) for up in (0, 29, 30, 32)]
    assert looks == [[], [], [], ["detokenizer"]]
    # A node that is not the first of its engine has no detokenizer.
    roll = parts.Roll(rank=1)
    assert [roll.look(["sglang::scheduler_TP1"], up) for up in (0, 30, 32, 34)] == [[]] * 4
    # A release that does not name its processes.
    roll = parts.Roll()
    assert [roll.look([], up) for up in (30, 60)] == [[], []]


def test_titles_of_one_unit_in_a_listing_of_all() -> None:
    """As procps prints it, in a lab node and with a second engine beside."""
    listing = """\
init.scope                  /usr/lib/systemd/systemd
-                           [kthreadd]
sglang.service              /opt/sglang/current/venv/bin/python -m sglang.launch_server sglang::x
sglang.service              sglang::scheduler_TP0
sglang.service              sglang::detokenizer
other.service               sglang::scheduler_TP1

"""
    assert parts.of_listing(listing, "sglang.service") == [
        "sglang::detokenizer",
        "sglang::scheduler_TP0",
    ]
    assert parts.of_listing("error: unknown user-defined format specifier", "sglang.service") == []


def test_the_listing_is_made_by_this_systems_own_programs() -> None:
    done = subprocess.run(parts.LIST, capture_output=True, text=True, check=True)
    own = service.process_unit(Path("/proc/self/cgroup").read_text())
    units = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    assert (own or "-") in units


@pytest.mark.parametrize(
    ("titles", "expected"),
    [(["sglang::scheduler_TP1"], []), (["sglang::http_server"], ["scheduler"]), ([], [])],
)
def test_a_node_that_is_not_the_first_of_its_engine_has_no_detokenizer(
    titles: list[str], expected: list[str]
) -> None:
    assert parts.gone(titles, rank=1) == expected


@pytest.mark.parametrize(
    ("arguments", "rank"), [({}, 0), ({"--node-rank": "3"}, 3), ({"--node-rank": "x"}, 0)]
)
def test_the_rank_stands_in_the_launch(arguments: dict[str, str], rank: int) -> None:
    assert parts.node_rank(arguments) == rank


def test_processes_are_read_by_title_and_unit() -> None:
    own = service.process_unit(Path("/proc/self/cgroup").read_text())
    command = ["bash", "-c", "exec -a sglang::scheduler_TP0 sleep 60"]
    with subprocess.Popen(command) as process:
        try:
            # The shell that becomes it has the name in its own command line.
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sglang"):
                pass
            assert "sglang::scheduler_TP0" in parts.read(own)
            assert parts.read("no-such-unit-anywhere.service") == []
        finally:
            process.kill()
