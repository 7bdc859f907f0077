# SPDX-License-Identifier: Apache-2.0
"""What is measured, in which order, and how long that takes."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import plan

CONFIGURED = {"algorithm": "EAGLE3", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
POINTS = plan.points([8, 1, 8], [{"input": 1024, "output": 256}], rounds=4)


def test_speculation_off_as_configured_and_further_ones_each_once() -> None:
    found = plan.settings(CONFIGURED, [{"num_steps": 5, "num_draft_tokens": 6}, {}, CONFIGURED])
    assert [one.id for one in found] == ["off", "eagle3-3-1-4", "eagle3-5-1-6"]
    assert [one.speculation for one in found] == [False, True, True]
    assert found[2].label == "EAGLE3 5/1/6"


def test_without_a_draft_model_there_is_nothing_to_compare() -> None:
    assert [one.id for one in plan.settings(None, [{"num_steps": 5}])] == ["off"]


@pytest.mark.parametrize(
    ("draft", "why"),
    [({"steps": 5}, "unknown steps"), ({"num_steps": 0}, "below 1"), ({"num_steps": "x"}, "'x'")],
)
def test_a_draft_setting_that_cannot_be(draft: dict[str, Any], why: str) -> None:
    with pytest.raises(plan.PlanError, match=why):
        plan.settings(CONFIGURED, [draft])


def test_every_length_at_every_concurrency() -> None:
    assert [(one.id, one.requests) for one in POINTS] == [
        ("c1-i1024-o256", 4),
        ("c8-i1024-o256", 32),
    ]
    with pytest.raises(plan.PlanError, match="nothing to measure"):
        plan.points([], [{"input": 1, "output": 1}])
    with pytest.raises(plan.PlanError, match="below 1"):
        plan.points([0], [{"input": 1, "output": 1}])


def order(names: list[str], repeats: int) -> str:
    return " ".join(block.setting for block in plan.blocks(names, ["p", "q"], repeats))


def test_settings_go_forth_and_back_so_that_restarts_are_few() -> None:
    assert order(["a", "b"], 1) == "a b"
    assert order(["a", "b"], 2) == "a b a"
    assert order(["a", "b"], 4) == "a b a b a"
    assert order(["a", "b", "c"], 2) == "a b c b a"
    assert order(["a"], 3) == "a"


@pytest.mark.parametrize("repeats", [2, 4])
def test_drift_falls_on_no_setting_and_no_point(repeats: int) -> None:
    places: dict[tuple[str, str], list[int]] = {}
    for block in plan.blocks(["a", "b"], ["p", "q", "r"], repeats):
        for step in block.steps:
            if step.repeat != plan.WARM_UP:
                places.setdefault((step.setting, step.point), []).append(step.order)
    assert len({fmean(each) for each in places.values()}) == 1
    assert sorted(each for one in places.values() for each in one) == list(
        range(1, 6 * repeats + 1)
    )


def test_each_start_is_warmed_with_every_shape_before_it_is_measured() -> None:
    for block in plan.blocks(["a", "b"], ["p", "q"], 4):
        warm = [step.point for step in block.steps if step.repeat == plan.WARM_UP]
        assert warm == ["p", "q"]
        assert all(step.repeat == plan.WARM_UP for step in block.steps[:2])


def test_restarts_count_the_way_back() -> None:
    def count(names: list[str], repeats: int) -> int:
        return plan.restarts(plan.blocks(names, ["p"], repeats), names[0])

    assert [count(["a", "b"], repeats) for repeats in (1, 2, 3, 4)] == [2, 2, 4, 4]
    assert count(["a"], 4) == 0


def test_a_warm_up_fills_each_place_of_the_batch_once() -> None:
    step = plan.Step(0, "a", POINTS[1].id, plan.WARM_UP)
    assert plan.requests(step, POINTS[1]) == 8
    measured = plan.Step(1, "a", POINTS[1].id, 1)
    assert plan.requests(measured, POINTS[1]) == 32
    # 4 rounds of 256 tokens at 32 tokens a second, and the load generator's own start.
    assert plan.expected(measured, POINTS[1], 32.0) == pytest.approx(32 + 20)
    assert plan.expected(step, POINTS[1], 32.0) == pytest.approx(8 + 20)


def test_what_was_measured_replaces_the_assumption() -> None:
    step = plan.Step(1, "a", POINTS[1].id, 1)
    assert plan.expected(step, POINTS[1], 32.0, {POINTS[1].id: 100.0}) == pytest.approx(100)
    warm = plan.Step(0, "a", POINTS[1].id, plan.WARM_UP)
    assert plan.expected(warm, POINTS[1], 32.0, {POINTS[1].id: 100.0}) == pytest.approx(40)


def words(**change: Any) -> list[str]:
    dataset = {"name": "random-ids", "path": "", "arguments": {}, **change}
    return plan.arguments(
        plan.Step(3, "off", POINTS[1].id, 2),
        POINTS[1],
        url="http://127.0.0.1:30000",
        model="/srv/kimi",
        name="kimi",
        dataset=dataset,
    )


def value(of: list[str], name: str) -> str:
    return of[of.index(name) + 1]


def test_the_load_is_offline_and_of_exact_lengths() -> None:
    found = words()
    assert value(found, "--dataset-name") == "random-ids"
    assert value(found, "--random-range-ratio") == "1.0"
    assert (value(found, "--num-prompts"), value(found, "--max-concurrency")) == ("32", "8")
    assert {"--tokenize-prompt", "--flush-cache"} < set(found)
    assert not any("key" in word.lower() for word in found)


def test_an_operator_s_own_data_set() -> None:
    found = words(name="custom", path="/srv/chats.jsonl", arguments={"apply_chat_template": True})
    assert value(found, "--dataset-path") == "/srv/chats.jsonl"
    assert value(found, "--sharegpt-output-len") == "256"
    assert "--apply-chat-template" in found
    assert "--random-input-len" not in found
    assert "--tokenize-prompt" not in found


def test_an_argument_that_is_none_is_refused() -> None:
    with pytest.raises(plan.PlanError, match="benchmark_dataset: launch argument '--x'"):
        words(arguments={"--x": 1})
