# SPDX-License-Identifier: Apache-2.0
"""What the report says of synthetic results, before it is laid out."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import Document
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.comparison import (
    Reference,
    beside,
    differences,
    others,
    own,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.files import (
    shipped_references,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.markdown import (
    markdown,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.view import (
    launch_arguments,
    view,
)

from tests import synthetic_benchmark as synthetic

STORY = synthetic.story()
REFERENCES = shipped_references()
EAGLE = synthetic.EAGLE.id


def test_a_verdict_for_each_setting_that_speculates_and_each_shape() -> None:
    found = [
        (one.setting.id, one.shape[1], one.found.kind, one.mood) for one in view(STORY).verdicts
    ]
    assert found == [
        (EAGLE, 1024, "between", "mixed"),
        (EAGLE, 32768, "always", "gain"),
        (synthetic.DEEPER.id, 1024, "between", "mixed"),
        (synthetic.DEEPER.id, 32768, "between", "mixed"),
    ]


@pytest.mark.parametrize(("factor", "mood"), [(1.2, "gain"), (0.8, "loss"), (1.0, "mixed")])
def test_the_mood_is_the_verdicts(factor: float, mood: str) -> None:
    rates = {"off": 90.0, EAGLE: 90.0 * factor}
    whole = synthetic.document(lambda setting, at: rates[setting] * at, noise=0.0001)
    assert [one.mood for one in view(whole).verdicts] == [mood]


def test_notes_name_everything_that_went_wrong_and_nothing_else() -> None:
    notes = "\n".join(view(STORY).notes)
    for said in (
        "no speculation, c4-i1024-o256: 3 requests were not answered in full",
        "EAGLE-3 3/1/4, c4-i1024-o256: not measured",
        "EAGLE-3 5/1/6, c64-i1024-o256: of its runs 5 failed: out of memory",
        "run 2 is an outlier in output tokens a second, all requests: 40.0 tok/s against a median",
    ):
        assert said in notes
    assert view(synthetic.document(lambda _setting, at: 90.0 * at, noise=0.01)).notes == ()


def test_a_single_run_is_told() -> None:
    once = synthetic.document(lambda _setting, at: 90.0 * at, repeats=1)
    assert view(once).notes == (
        "Points with a single run have no spread: nothing follows from their differences",
    )


def test_the_decisions_are_those_that_auto_would_take() -> None:
    assert view(STORY).decisions["latency"].startswith("speculation on: EAGLE-3 5/1/6 has +")
    assert "failed at c64-i1024-o256: out of memory" in view(STORY).decisions["throughput"]


def test_a_document_without_speculation_or_without_any_figures() -> None:
    alone = synthetic.document(lambda _s, at: 90.0 * at, settings=(synthetic.OFF,), configured=None)
    assert view(alone).verdicts == ()
    dead = synthetic.fail(
        synthetic.fail(synthetic.document(lambda _s, at: 90.0 * at), "off", reason="died"),
        EAGLE,
        reason="died",
    )
    found = view(dead)
    assert [one.found.kind for one in found.verdicts] == ["unknown"]
    assert found.tiles == ()
    assert len(found.notes) == 8


def at(whole: Document, started: str, fingerprint: str, node: str = "synthetic-node") -> Document:
    stack = dataclasses.replace(whole.stack, fingerprint=fingerprint)
    return dataclasses.replace(whole, started=started, stack=stack, node=node)


def test_of_each_other_stack_the_newest_is_compared_the_last_one_first() -> None:
    mine = at(STORY, "2026-11-30T10:00:00Z", "0" * 12)
    stored = [
        at(STORY, "2026-11-29T10:00:00Z", "0" * 12),
        at(STORY, "2026-11-01T10:00:00Z", "1" * 12),
        at(STORY, "2026-11-02T10:00:00Z", "1" * 12),
        at(STORY, "2026-11-05T10:00:00Z", "2" * 12),
        at(STORY, "2026-11-28T10:00:00Z", "0" * 12, node="other"),
    ]
    assert [(one.node, one.started[8:10]) for one in others(mine, stored)] == [
        ("synthetic-node", "05"),
        ("synthetic-node", "02"),
        ("other", "28"),
    ]


def test_the_comparison_has_both_figures_and_what_changed() -> None:
    before = synthetic.earlier(STORY, 1.25)
    found = beside(STORY, before, 3.0)
    assert found.regression.verdict == "worse"
    row = found.rows[0]
    assert row.ours is not None
    assert row.theirs is not None
    assert row.theirs.median == pytest.approx(row.ours.median * 1.25)
    assert row.change.startswith("-20 % ± ")
    assert differences(STORY, before) == [("driver", "580.00.00", "590.00.00")]


def test_arguments_are_shown_as_on_the_command_line() -> None:
    arguments = {
        "tp_size": 8,
        "enable-metrics": True,
        "off": False,
        "cuda-graph-bs": [1, 2],
        "chat-template": "a b",
        "odd name": 1,
    }
    stack = dataclasses.replace(STORY.stack, arguments=arguments)
    assert list(launch_arguments(stack).values()) == [
        "--chat-template 'a b'",
        "--cuda-graph-bs 1 2",
        "--enable-metrics",
        "'--odd name' 1",
        "--tp-size 8",
    ]


def test_a_reference_stands_beside_the_same_load_of_this_node() -> None:
    summary = view(STORY).summary
    single = Reference("r", "", "single_stream", True, 54.1, 54.1, "")
    peak = Reference("r", "", "peak", False, 2370, 2370, "")
    assert own(summary, single).endswith("tok/s (EAGLE-3 5/1/6, concurrency 1)")
    assert own(summary, peak).endswith("tok/s (no speculation, concurrency 64)")
    busy = synthetic.document(lambda _s, at: 90.0 * at, concurrencies=(8, 16))
    assert own(view(busy).summary, single) == "not measured"


def test_markdown_has_tables_of_one_width_and_no_markup_of_others() -> None:
    text = markdown(view(STORY), [beside(STORY, synthetic.earlier(STORY, 1.1), 3.0)], REFERENCES)
    widths: list[int] = []
    for line in text.splitlines():
        if line.startswith("|"):
            widths.append(line.replace("\\|", "").count("|"))
        else:
            assert len(set(widths)) <= 1
            widths = []
    assert "<script>" not in text.partition("## The stack")[0]
    assert "| 64 | EAGLE-3 5/1/6 | failed: out of memory &lt;script>" in text


def test_the_references_are_those_of_the_record() -> None:
    """8x RTX PRO 6000, Kimi-K2.5 INT4: before the CUDA 13 work, after it, with EAGLE-3."""
    assert [(one.load, one.speculation, one.text) for one in REFERENCES.rows] == [
        ("single_stream", False, "63.6 tok/s"),
        ("peak", False, "2,370 tok/s"),
        ("single_stream", False, "89.5 to 92.6 tok/s"),
        ("single_stream", True, "54.1 tok/s"),
        ("single_stream", True, "96.1 tok/s"),
    ]
    assert all(one.source for one in REFERENCES.rows)
