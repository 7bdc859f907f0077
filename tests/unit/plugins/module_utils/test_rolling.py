# SPDX-License-Identifier: Apache-2.0
"""Who is switched together, who may be switched now, and how it is told."""

from __future__ import annotations

from random import Random

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._rolling import (
    Result,
    RollingError,
    Rules,
    Unit,
    allowed_out,
    batches,
    canaries,
    problems,
    refusals,
    short_cause,
    table,
)
from hypothesis import given
from hypothesis import strategies as st


def unit(name: str, *, serving: bool = True, switches: bool = True) -> Unit:
    return Unit(tuple(name.split("+")), serving, switches)


def names(found: list[list[Unit]]) -> list[list[str]]:
    return [[one.name for one in batch] for batch in found]


ABCD = [unit(name) for name in "abcd"]


@pytest.mark.parametrize(
    ("serial", "total", "out"),
    [
        (1, 8, 1),
        ("1", 8, 1),
        ("25%", 8, 2),
        ("25%", 3, 1),
        ("10%", 3, 1),
        ("100%", 3, 3),
        ("33.4 %", 3, 1),
        (20, 3, 20),
    ],
)
def test_how_many_may_be_out(serial: object, total: int, out: int) -> None:
    assert allowed_out(serial, total) == out


@pytest.mark.parametrize("serial", [0, "0%", -1, "", "all", "101%", 1.5, None, True, "1,2", [1]])
def test_what_is_no_share_is_refused(serial: object) -> None:
    with pytest.raises(RollingError, match="deploy_serial is"):
        allowed_out(serial, 4)


def test_engines_that_serve_are_switched_as_many_at_once_as_may_be_out() -> None:
    assert names(batches(ABCD, 4, Rules(1))) == [["a"], ["b"], ["c"], ["d"]]
    assert names(batches(ABCD, 4, Rules("50%"))) == [["a", "b"], ["c", "d"]]
    assert names(batches(ABCD, 4, Rules(3))) == [["a", "b", "c"], ["d"]]


def test_a_share_is_one_of_the_whole_inventory() -> None:
    assert names(batches(ABCD[:2], 8, Rules("25%"))) == [["a", "b"]]


def test_what_takes_nothing_out_of_service_comes_first_and_at_once() -> None:
    units = [unit("a"), unit("b", switches=False), unit("c", serving=False), unit("d")]
    assert names(batches(units, 4, Rules(1))) == [["b", "c"], ["a"], ["d"]]


def test_a_first_deployment_is_one_batch() -> None:
    units = [unit(name, serving=False) for name in "abcd"]
    assert names(batches(units, 4, Rules(1))) == [["a", "b", "c", "d"]]
    assert names(batches(units, 4, Rules(1, canary=1))) == [["a"], ["b", "c", "d"]]


def test_a_run_without_a_switch_is_one_batch_whatever_the_rules() -> None:
    units = [unit(name, switches=False) for name in "abcd"]
    assert names(batches(units, 4, Rules(1, canary=2))) == [["a", "b", "c", "d"]]
    assert batches([], 4, Rules()) == []


def test_canaries_go_alone_and_first() -> None:
    assert names(batches(ABCD, 4, Rules(2, canary=1))) == [["a"], ["b", "c"], ["d"]]
    assert names(batches(ABCD, 4, Rules(2, canary=2))) == [["a"], ["b"], ["c", "d"]]
    assert names(batches(ABCD, 4, Rules(2, canary=["c"]))) == [["c"], ["a", "b"], ["d"]]
    assert names(batches(ABCD, 4, Rules(2, canary="c"))) == [["c"], ["a", "b"], ["d"]]


def test_an_engine_that_serves_nobody_is_the_better_canary() -> None:
    units = [unit("a"), unit("b", serving=False), unit("c", switches=False)]
    assert names(batches(units, 3, Rules(1, canary="1"))) == [["c"], ["b"], ["a"]]


def test_a_canary_is_named_by_any_of_its_nodes_and_one_without_changes_is_none() -> None:
    units = [unit("a+b"), unit("c", switches=False)]
    assert canaries(units, ["b"]) == units[:1]
    assert canaries(units, ["c"]) == []


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(), None),
        (Rules("50%", ["a"], 100.0), None),
        (Rules(2, "b", 12.5), None),
        (Rules("x"), "deploy_serial is 'x'"),
        (Rules(canary=["a", "x"]), "deploy_canary names x, which is no node"),
        (Rules(canary="x"), "deploy_canary names x"),
        (Rules(canary=-1), "deploy_canary is -1"),
        (Rules(canary=True), "deploy_canary is True"),
        (Rules(max_fail_percentage=101), "deploy_max_fail_percentage is 101"),
    ],
)
def test_rules_that_cannot_be_followed_are_named(rules: Rules, said: str | None) -> None:
    found = problems(rules, ["a", "b"])
    assert len(found) == (said is not None)
    assert all(said in sentence for sentence in found if said)


def test_nodes_of_one_engine_are_one_unit() -> None:
    units = [unit("a+b"), unit("c+d")]
    assert names(batches(units, 2, Rules("50%"))) == [["a"], ["c"]]


def refused(
    batch: str, results: dict[str, Result], rules: Rules, units: list[Unit]
) -> dict[str, str]:
    chosen = [one for one in units if one.name in batch]
    return refusals(chosen, units, results, len(units), rules)


OK, BAD_UP, BAD_DOWN = Result("ok", True), Result("failed", True), Result("failed", False)


def test_nobody_is_refused_while_all_goes_well() -> None:
    assert refused("a", {}, Rules(1), ABCD) == {}
    assert refused("b", {"a": OK}, Rules(1), ABCD) == {}


def test_by_default_the_first_failure_is_the_last() -> None:
    found = refused("b", {"a": BAD_UP}, Rules(1), ABCD)
    assert found == {"b": "1 of 4 failed (a), more than deploy_max_fail_percentage (0) allows"}


def test_up_to_the_limit_a_failure_stops_nobody() -> None:
    rules = Rules(1, max_fail_percentage=25)
    assert refused("b", {"a": BAD_UP}, rules, ABCD) == {}
    assert "2 of 4 failed (a, b)" in refused("c", {"a": BAD_UP, "b": BAD_UP}, rules, ABCD)["c"]


def test_an_engine_that_is_down_after_it_failed_counts_as_out_of_service() -> None:
    rules = Rules(2, max_fail_percentage=100)
    found = refused("bc", {"a": BAD_DOWN}, rules, ABCD)
    assert found == {"c": "1 of 4 are out of service (a), and deploy_serial (2) allows 2"}
    assert set(refused("bc", {"a": BAD_DOWN}, Rules(1, max_fail_percentage=100), ABCD)) == {
        "b",
        "c",
    }
    assert refused("bc", {"a": BAD_UP}, rules, ABCD) == {}


def test_engines_that_were_down_before_count_too() -> None:
    units = [unit("a", serving=False, switches=False), *ABCD[1:]]
    assert set(refused("bc", {}, Rules(2), units)) == {"c"}
    assert set(refused("b", {}, Rules(1), units)) == {"b"}


def test_an_engine_that_serves_nobody_may_always_be_brought_up() -> None:
    units = [unit("a", serving=False), unit("b", serving=False), unit("c")]
    assert refused("ab", {}, Rules(1), units) == {}


def test_a_failed_canary_ends_it_whatever_the_limit() -> None:
    rules = Rules(1, canary=1, max_fail_percentage=100)
    assert refused("b", {"a": BAD_UP}, rules, ABCD) == {"b": "the canary a failed"}
    assert refused("c", {"a": OK, "b": BAD_UP}, rules, ABCD) == {}


def test_a_named_canary_that_failed_before_its_switch_ends_it_too() -> None:
    units = [unit("a+x", switches=False), *ABCD[1:]]
    rules = Rules(1, canary=["x"], max_fail_percentage=100)
    assert refused("b", {"a": BAD_UP}, rules, units) == {"b": "the canary a failed"}


def test_engines_that_go_on_as_they_are_are_never_refused() -> None:
    units = [unit("a"), unit("b", switches=False)]
    assert refused("b", {"a": BAD_DOWN}, Rules(1), units) == {}


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8),
    st.builds(
        Rules,
        st.sampled_from([1, 2, 3, "25%", "50%", "100%"]),
        st.integers(0, 3),
        st.sampled_from([0.0, 25.0, 50.0, 100.0]),
    ),
    st.integers(0, 2),
    st.randoms(use_true_random=False),
)
def test_never_more_than_allowed_are_out_of_service(
    shape: list[tuple[bool, bool]], rules: Rules, others: int, chance: Random
) -> None:
    """Whatever fails: played through, with each engine of a batch out until it is done."""
    units = [unit(f"n{i}", serving=up, switches=new) for i, (up, new) in enumerate(shape)]
    total = len(units) + others
    up = {one.name: one.serving for one in units}
    allowed = max(allowed_out(rules.serial, total), sum(not there for there in up.values()))
    results: dict[str, Result] = {}
    done = []
    for batch in batches(units, total, rules):
        kept_back = refusals(batch, units, results, total, rules)
        going = [one for one in batch if one.switches and one.name not in kept_back]
        for one in going:
            up[one.name] = False
        assert sum(not there for there in up.values()) <= allowed
        for one in batch:
            done.append(one)
            if one.name in kept_back:
                results[one.name] = Result("not tried", up[one.name], kept_back[one.name])
            elif one in going:
                failed, back = chance.random() < 0.4, chance.random() < 0.5
                up[one.name] = not failed or back
                results[one.name] = Result("failed" if failed else "ok", up[one.name])
    assert sorted(one.name for one in done) == sorted(one.name for one in units)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "n1: r did not prove itself.\nn1: the gate's verdict is fail.\nFAIL a 1.0: b\nRemedy",
            "FAIL a 1.0: b",
        ),
        ("n1: the engine failed: exit.\nCause: KeyError: 12", "the engine failed: exit."),
        ("n1 cannot take this deployment; nothing was changed.\nacs: on\nRemedy: y", "acs: on"),
        ("did not prove itself", "did not prove itself"),
        ("", "no message"),
        ("x" * 200, "x" * 99 + "…"),
    ],
)
def test_a_cell_of_the_table_says_why(message: str, cause: str) -> None:
    assert short_cause(message, "n1") == cause


def test_all_results_stand_in_one_table() -> None:
    lines = table(
        [
            {
                "node": "gpu1",
                "release": "r-1",
                "changed": "engine",
                "verdict": "ok",
                "accept": 4.0,
                "seconds": 61,
            },
            {"node": "gpu10", "verdict": "failed", "cause": "FAIL known_answer"},
        ]
    )
    assert lines == [
        "node   release  changed  verdict  accept  seconds  cause",
        "gpu1   r-1      engine   ok       4.0     61       -",
        "gpu10  -        -        failed   -       -        FAIL known_answer",
    ]
