# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._report.render import (
    contract_word,
    launch_word,
    markdown_report,
    markdown_table,
    original_word,
    overview,
    text_report,
    text_table,
)

KIMI = "KimiK25ForConditionalGeneration"


def release(version: str = "0.5.9", **changes: Any) -> dict[str, Any]:
    return {
        "release": version,
        "source": "/wheels/x.whl",
        "patches": [
            {
                "id": "kimi",
                "state": "needed",
                "reason": "it lacks a|b",
                "file": "f.py",
                "does_not": "make anything faster",
            }
        ],
        "contract": {
            KIMI: {
                "algorithm": "EAGLE3",
                "missing": ["get_embed_and_head"],
                "required": ["get_embed_and_head"],
                "delegation_fixes": True,
                "unknown": [],
            }
        },
        "contract_counts": {"classes": 51, "ok": 2, "missing": 47, "unknown": 2},
        "launch": {
            "unknown": [],
            "deprecated": ["--x"],
            "fatal_on_sm120": ["--y", "--z"],
            "original_command": [],
            "findings": [
                {
                    "argument": "--y",
                    "kind": "fatal",
                    "reason": "it dies",
                    "where": "srt/a.py:1",
                    "remedy": "remove it",
                }
            ],
        },
        "dependencies": {
            "torch": "2.9.1",
            "cuda_major": 12,
            "kernel": "sgl-kernel 0.3.21",
            "flashinfer": None,
            "transformers": "4.57.1",
            "python": ">=3.10",
            "wheel": None,
        },
        "problems": [],
        **changes,
    }


@pytest.mark.parametrize(
    ("missing", "unknown", "word"),
    [
        ([], [], "ok"),
        (["a", "b"], [], "lacks 2"),
        (["a"], ["b"], "lacks 1"),
        ([], ["b"], "unknown"),
    ],
)
def test_the_contract_in_a_word(missing: list[str], unknown: list[str], word: str) -> None:
    verdict = {**release()["contract"][KIMI], "missing": missing, "unknown": unknown}
    assert contract_word(release(contract={KIMI: verdict})) == word


def test_a_release_without_the_model() -> None:
    old = release("0.5.8", contract={})
    assert contract_word(old) == "no model"
    assert "this release has no Kimi-K2.5 model" in text_report([old])


def test_the_launch_in_a_word() -> None:
    assert launch_word(release()) == "2 fatal, 1 deprecated"
    clean: dict[str, list[str]] = {
        "unknown": [],
        "deprecated": [],
        "fatal_on_sm120": [],
        "findings": [],
        "original_command": [],
    }
    assert launch_word(release(launch=clean)) == "ok"
    assert original_word(release(launch=clean)) == "-"
    assert "nothing to say" in text_report([release(launch=clean)])


def test_flags_that_the_product_does_not_launch_are_told_apart() -> None:
    """A fatal flag of the original command alarms nobody whose launch does not have it."""
    launch = {**release()["launch"], "fatal_on_sm120": ["--y"], "original_command": ["--y", "--q"]}
    found = release(launch=launch)
    assert (launch_word(found), original_word(found)) == ("1 deprecated", "1 fatal")
    cells = overview([found])
    words = dict(zip(*cells, strict=True))
    assert (words["launch"], words["original command"]) == ("1 deprecated", "1 fatal")
    text = " ".join(text_report([found]).split())
    assert "launch: nothing to say about the product's own arguments" in text
    assert "original command (--y --q): the product launches none of these by itself" in text
    assert "original command: --y fatal: it dies (srt/a.py:1); remove it" in text
    assert "- original command: --y fatal: it dies" in markdown_report([found])


def test_the_table_lines_up() -> None:
    lines = text_table([["a", "bbb"], ["cccc", "d"]]).splitlines()
    assert lines == ["a     bbb", "----  ---", "cccc  d"]


def test_the_text_names_everything_that_needs_a_decision() -> None:
    found = [release(problems=["patch kimi: not certain"]), release("0.5.23")]
    text = " ".join(text_report(found).split())  # lines are folded
    for part in (
        "needed kimi: it lacks a|b",
        f"{KIMI} with EAGLE3 lacks get_embed_and_head; plain forwarding supplies it",
        "of 51 multimodal wrappers 2 are ok, 47 lack something, 2 are not certain",
        "launch: --y fatal: it dies (srt/a.py:1); remove it",
        "NEEDS A PERSON: patch kimi: not certain",
        "SGLang 0.5.23 /wheels/x.whl",
    ):
        assert part in text
    assert max(map(len, text_report(found).splitlines())) <= 120


def test_without_evidence_there_are_no_brackets() -> None:
    finding = {
        "argument": "--bogus", "kind": "unknown", "reason": "no such argument", "where": "",
        "remedy": "remove it",
    }  # fmt: skip
    launch = {**release()["launch"], "findings": [finding]}
    text = " ".join(text_report([release(launch=launch)]).split())
    assert "launch: --bogus unknown: no such argument; remove it" in text


def test_the_overview_has_a_column_for_each_patch() -> None:
    cells = overview([release(), release("0.5.23", patches=[])])
    assert cells[0][:3] == ["release", "`kimi`", "contract"]
    assert [line[1] for line in cells[1:]] == ["needed", "-"]
    assert len({len(line) for line in cells}) == 1


def test_markdown_keeps_its_columns() -> None:
    table = markdown_table([["a", "b"], ["x|y", "z"]])
    assert table.splitlines() == ["| a | b |", "|---|---|", "| x\\|y | z |"]
    page = markdown_report([release()])
    assert "## 0.5.9" in page
    assert "| `kimi` | needed | it lacks a\\|b | make anything faster |" in page
    assert "- launch: --y fatal: it dies" in page
