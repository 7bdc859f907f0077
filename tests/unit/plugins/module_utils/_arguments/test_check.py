# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._arguments import (
    ArgumentsError,
    report,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.check import (
    History,
    Lifetime,
    check_launch,
    check_words,
    parse_history,
    unread_variables,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import (
    Argument,
    ReleaseParser,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import (
    Launch,
    parse_rules,
)

from tests.unit.plugins.module_utils._arguments.trees import Memory, calls

REPOSITORY = Path(__file__).parents[5]
PARSER = ReleaseParser(
    (
        Argument(("--bs-decode",), "a.py:1"),
        Argument(("--bs-prefill",), "a.py:2"),
        Argument(("--old",), "a.py:3", nargs=0, deprecated=True, successor="--worse"),
    )
)
HISTORY = History(
    {
        "bs": Lifetime(last="0.5.19", successor="--bs-decode"),
        "stream": Lifetime(last="0.5.19", successor="--streaming"),
        "gone": Lifetime(last="0.5.17"),
        "new": Lifetime(first="0.5.20"),
    }
)


@pytest.mark.parametrize(
    ("release", "flag", "kind", "reason", "remedy"),
    [
        ("0.5.20", "--stream", "renamed", "removed after 0.5.19", "use --streaming"),
        ("0.5.20", "--gone", "removed", "removed after 0.5.17", "no other argument"),
        ("0.5.9", "--new", "unknown", "first release that has it is 0.5.20", "0.5.20 or newer"),
        (
            "0.5.20",
            "--bs",
            "ambiguous",
            "removed after 0.5.19, and is now short for 2",
            "--bs-decode",
        ),
        ("0.5.20", "--never", "unknown", "no such argument", "remove it"),
        ("", "--stream", "unknown", "no such argument", "remove it"),
    ],
)
def test_the_history_says_where_an_argument_went(
    release: str, flag: str, kind: str, reason: str, remedy: str
) -> None:
    findings, _ = check_words(PARSER, [flag, "1"], release, HISTORY, complete=False)
    (finding,) = findings
    assert (finding.argument, finding.kind, finding.severity) == (flag, kind, "error")
    assert reason in finding.reason
    assert remedy in finding.remedy


def test_errors_come_first_and_no_remedy_leads_into_the_next_error() -> None:
    rules = parse_rules(
        [
            {
                "id": "r", "argument": "old", "verdict": "fatal", "reason": "it ends",
                "source": "a#1", "remedy": "remove it",
            }
        ]
    )  # fmt: skip
    found = check_launch(PARSER, rules, ["--old"], Launch("0.5.20", {}), complete=False)
    assert [(f.kind, f.remedy) for f in found] == [("fatal", "remove it"), ("deprecated", "")]


def test_an_abbreviation_is_judged_under_its_full_name() -> None:
    rules = parse_rules(
        [
            {
                "id": "r", "argument": "bs-decode", "values": ["9"], "verdict": "no_op",
                "reason": "no", "source": "a#1", "remedy": "remove it",
            }
        ]
    )  # fmt: skip
    found = check_launch(PARSER, rules, ["--bs-d", "9"], Launch("", {}), complete=False)
    assert [f.kind for f in found] == ["abbreviated", "no_op"]


def test_variables_that_nothing_reads_are_named() -> None:
    tree = Memory(
        {
            "srt/environ.py": "SGLANG_DECLARED = EnvBool(False)\nSGLANG_DECLARED_LONGER = 1\n",
            "srt/far/away.py": 'os.getenv("SGL_FAR")',
            "srt/data.json": "SGLANG_IN_DATA",
        }
    )
    names = ["SGLANG_DECLARED", "SGL_FAR", "SGLANG_DECLARE", "SGLANG_IN_DATA", "NCCL_DEBUG"]
    found = unread_variables(tree, names)
    assert [(f.argument, f.severity) for f in found] == [
        ("SGLANG_DECLARE", "warn"),
        ("SGLANG_IN_DATA", "warn"),
    ]


SPELLED = ReleaseParser(
    (
        Argument(("--tensor-parallel-size", "--tp-size"), "a.py:1", kind="int"),
        Argument(("--context-length",), "a.py:2", kind="int"),
        Argument(("--page-size",), "a.py:3", kind="int"),
    )
)
OWNED = {"tp-size": "engine_tp_size", "context-length": "engine_context_length"}


@pytest.mark.parametrize("flag", ["--tp", "--tensor-parallel-size", "--tensor"])
def test_two_spellings_of_one_argument_are_refused_with_the_variable(flag: str) -> None:
    words = [flag, "2", "--tp-size", "1", "--page-size", "1"]
    found, _ = check_words(SPELLED, words, "", complete=False, owned=OWNED)
    (finding,) = [one for one in found if one.severity == "error"]
    assert (finding.argument, finding.kind) == (flag, "second_spelling")
    assert finding.reason.startswith("the same argument as --tp-size, which engine_tp_size sets")
    assert "given twice" in finding.reason
    assert finding.remedy == "set engine_tp_size"


@pytest.mark.parametrize(
    ("words", "owned", "expected"),
    [
        # The role leaves its own out: the release would take it, and nothing else would know.
        (["--context", "1"], OWNED, ["--context"]),
        (["--tp-size", "1", "--context-length", "1"], OWNED, []),
        # A command that nobody's variables stand behind.
        (["--tp", "1", "--context", "1"], {}, []),
        (["--page-size", "1", "--page", "2"], {}, ["--page"]),
        (["--page", "1", "--pag", "2"], {}, ["--pag"]),
    ],
)
def test_what_counts_as_a_second_spelling(
    words: list[str], owned: dict[str, str], expected: list[str]
) -> None:
    found, _ = check_words(SPELLED, words, "", complete=False, owned=owned)
    assert [one.argument for one in found if one.kind == "second_spelling"] == expected


@pytest.mark.parametrize("raw", [None, {}, {"arguments": []}, {"arguments": {"x": {"began": "1"}}}])
def test_a_damaged_history_is_refused(raw: object) -> None:
    with pytest.raises(ArgumentsError, match=r"argument_history\.json"):
        parse_history(raw)


def test_the_shipped_history_is_usable() -> None:
    history = parse_history(json.loads((REPOSITORY / report.HISTORY).read_text("utf-8")))
    assert history.of("--cuda-graph-max-bs") == Lifetime("", "0.5.19", "--cuda-graph-max-bs-decode")
    assert history.of("--model-path") == Lifetime()


def test_a_report_has_what_the_json_promises() -> None:
    tree = calls(
        'parser.add_argument("--model-path")\nparser.add_argument("--old", help="Deprecated.")'
    )
    raw = [
        {
            "id": "r", "argument": "old", "verdict": "fatal", "reason": "no", "source": "a#1",
            "remedy": "remove it",
        }
    ]  # fmt: skip
    words = ["--model-path", "m", "--old", "1", "--bogus"]
    found = report.launch_report(tree, "0.5.9", raw, words, environment={"SGLANG_X": "1"})
    assert found["unknown"] == ["--bogus"]
    assert found["deprecated"] == found["fatal_on_sm120"] == ["--old"]
    assert [row["argument"] for row in found["findings"]] == [
        "--bogus",
        "--old",
        "--old",
        "SGLANG_X",
    ]
    assert found["arguments"] == {"count": 3, "deprecated": 1, "gaps": []}
