# SPDX-License-Identifier: Apache-2.0
"""The filters of the role benchmark, over synthetic results."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import schema
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters.benchmark import filters

from tests.synthetic_benchmark import EAGLE, OFF, STACK, document

FILTERS = filters()
CONFIGURED = {"algorithm": "EAGLE3", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}


def stored(eagle: float, **change: Any) -> dict[str, Any]:
    """A result in which speculation is `eagle` times as fast as none."""
    made = document(lambda setting, _many: 90.0 * (1.0 if setting == "off" else eagle))
    return {**schema.to_json(made), **change}


def choose(results: list[dict[str, Any]], **known: Any) -> dict[str, Any]:
    about = {
        "node": results[0]["node"],
        "profile": "latency",
        "margin": 0.03,
        "accept_meaningless": False,
        "fingerprint": STACK.fingerprint,
        "results": results,
        **known,
    }
    found: dict[str, Any] = FILTERS["speculation_choice"]("auto", CONFIGURED, about)
    return found


def test_auto_follows_what_was_measured_on_this_node_and_stack() -> None:
    loss = choose([stored(0.6)])
    assert (loss["on"], loss["draft"], loss["measured"]) == (False, {}, True)
    gain = choose([stored(1.3)])
    assert (gain["on"], gain["draft"]) == (True, CONFIGURED)


def test_another_stack_or_node_decides_nothing() -> None:
    assert choose([stored(0.6)], fingerprint="f" * 12)["on"]
    assert choose([stored(0.6)], node="other")["on"]


def test_figures_that_mean_nothing_decide_only_where_that_is_asked_for() -> None:
    lab = stored(0.6, meaning={"figures": False, "reason": "a lab"})
    assert choose([lab])["on"]
    assert not choose([lab], accept_meaningless=True)["on"]


def test_an_upgrade_is_compared_with_the_newest_result_of_another_stack() -> None:
    old = stored(0.9, started="2026-01-01T00:00:00Z")
    newer = stored(0.8, started="2026-01-02T00:00:00Z")
    own = stored(0.7, started="2026-01-03T00:00:00Z")
    own["stack"] = {**own["stack"], "fingerprint": "f" * 12}
    before = FILTERS["benchmark_before"]
    assert before([newer, old, own], old["node"], "f" * 12, EAGLE.id) == newer
    assert before([old], "other", "f" * 12, EAGLE.id) == {}
    assert before([old], old["node"], "f" * 12, "eagle3-9-1-9") == {}
    assert before([old], old["node"], STACK.fingerprint, OFF.id) == {}


def test_a_slower_stack_is_worse() -> None:
    before, after = stored(1.0), stored(0.5)
    compare = FILTERS["benchmark_regression"]
    assert compare(after, before, 3.0)["verdict"] == "worse"
    assert compare(before, before, 3.0)["verdict"] == "ok"


def test_the_plan_knows_how_long_a_start_may_take() -> None:
    points = FILTERS["benchmark_points"]([1], [{"input": 16, "output": 16}], "random-ids", 1)
    asked = {"repeats": 2, "rate": 16.0, "start_seconds": 100.0, "start_timeout": 3600}
    plan = FILTERS["benchmark_plan"](["off", "on"], points, asked)
    assert (plan["runs"], plan["restarts"], plan["start_bound"]) == (4, 2, 300.0)
    # Two starts; 21 s for each of 4 runs and 3 warm-ups.
    assert plan["seconds"] == pytest.approx(200 + 7 * 21)
    unknown = FILTERS["benchmark_plan"](["off"], points, {**asked, "start_seconds": 0.0})
    assert (unknown["unknown_start"], unknown["start_bound"]) == (True, 3600)
    # It is waited for as long as any start; to plan with that would leave no time to measure.
    assert unknown["start_seconds"] == 600


STEPS = [
    {"setting": "on", "point": "p", "repeat": 0, "order": 0},
    {"setting": "on", "point": "p", "repeat": 1, "order": 5},
]


@pytest.mark.parametrize("state", ["skipped", "failed"])
def test_runs_that_were_not_made_have_a_reason(state: str) -> None:
    (found,) = FILTERS[f"benchmark_{state}"](STEPS, "the engine\n  failed")
    assert (found["state"], found["reason"], found["order"]) == (state, "the engine failed", 5)
    assert FILTERS[f"benchmark_{state}"](STEPS, "")[0]["reason"] == "no reason is known"


def test_wrong_values_are_the_play_s_errors() -> None:
    with pytest.raises(AnsibleFilterError, match="benchmark_drafts: unknown steps"):
        FILTERS["benchmark_settings"](CONFIGURED, [{"steps": 5}])
    with pytest.raises(AnsibleFilterError, match="started: missing"):
        FILTERS["benchmark_document"]({"node": 5})


@pytest.mark.parametrize(
    ("allowed", "gateways", "serial"),
    [(True, ["g"], "1"), (True, [], "100%"), (False, ["g"], "100%"), (None, ["g"], "100%")],
)
def test_engines_behind_gateways_are_restarted_one_after_the_other(
    allowed: bool | None, gateways: list[str], serial: str
) -> None:
    one = {} if allowed is None else {"benchmark_allow_restart": allowed}
    groups = {"engines": ["a", "b"], "gateways": gateways}
    assert FILTERS["benchmark_serial"]({"a": {}, "b": one}, groups) == serial
    assert FILTERS["benchmark_serial"]({}, groups) == "100%"  # a syntax check
