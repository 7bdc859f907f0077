# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import contextlib
import io

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.findings import SEVERITIES
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import (
    UNREADABLE,
    Argument,
    ReleaseParser,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.words import parse_words
from hypothesis import given
from hypothesis import strategies as st

ARGUMENTS = (
    Argument(("--help", "-h"), "argparse", nargs=0, ends=True),
    Argument(("--tp-size", "--tensor-parallel-size"), "a.py:1", kind="int"),
    Argument(("--mem",), "a.py:2", kind="float"),
    Argument(("--flag",), "a.py:3", nargs=0),
    Argument(("--names",), "a.py:4", nargs="*"),
    Argument(("--sizes",), "a.py:5", nargs="+", kind="int"),
    Argument(("--pair",), "a.py:6", nargs=2),
    Argument(("--maybe",), "a.py:7", nargs="?"),
    Argument(("--mode",), "a.py:8", choices=("one", "two")),
    Argument(("--graph-bs-decode",), "a.py:9"),
    Argument(("--graph-bs-prefill",), "a.py:10"),
    Argument(("--old",), "a.py:11", deprecated=True, successor="--new"),
    Argument(("--json",), "a.py:12", kind="json"),
)
PARSER = ReleaseParser(ARGUMENTS)


def kinds(words: str, parser: ReleaseParser = PARSER) -> list[tuple[str, str]]:
    _, problems = parse_words(parser, words.split(), complete=False)
    return [(problem.flag, problem.kind) for problem in problems]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--tp-size 8 --flag --mem 0.9 --names a b --sizes 1 2 --pair a b --maybe", []),
        ("--tensor-parallel-size=8 --maybe x --names", []),
        ("--mem -0.5", []),
        ("--bogus 1", [("--bogus", "unknown")]),
        ("--tp 8", [("--tp", "abbreviated")]),
        ("--graph-bs 8", [("--graph-bs", "ambiguous")]),
        ("--tp-size", [("--tp-size", "missing_value")]),
        ("--tp-size x", [("--tp-size", "bad_value")]),
        ("--mem x", [("--mem", "bad_value")]),
        ("--json {", [("--json", "bad_value")]),
        ("--json {}", []),
        ("--tp-size 1 2", [("--tp-size", "unexpected_value")]),
        ("--flag yes", [("--flag", "unexpected_value")]),
        ("--flag=yes", [("--flag", "unexpected_value")]),
        ("--sizes", [("--sizes", "missing_value")]),
        ("--sizes 1 x", [("--sizes", "bad_value")]),
        ("--pair a", [("--pair", "missing_value")]),
        ("--pair=a", [("--pair", "missing_value")]),
        ("--mode three", [("--mode", "bad_choice")]),
        ("--mode twoo", [("--mode", "bad_choice")]),
        ("--old x", [("--old", "deprecated")]),
        ("--help", [("--help", "refused")]),
        ("stray --flag", [("stray", "unexpected_value")]),
        (
            "--bogus --tp-size x --mode y",
            [("--bogus", "unknown"), ("--tp-size", "bad_value"), ("--mode", "bad_choice")],
        ),
    ],
)
def test_every_problem_is_found(words: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(words) == expected


def test_remedies_name_what_to_write() -> None:
    _, problems = parse_words(
        PARSER, ["--mode", "twoo", "--tpsize", "8", "--graph-bs", "1", "--old", "x"], complete=False
    )
    assert [problem.remedy for problem in problems] == [
        "did you mean two?",
        "did you mean --tp-size?",
        "write the one that is meant: --graph-bs-decode or --graph-bs-prefill",
        "use --new",
    ]


def test_what_is_required_is_missed_unless_a_file_may_hold_it() -> None:
    parser = ReleaseParser(
        (Argument(("--model",), "a.py:1", required=True), Argument(("--config",), "a.py:2"))
    )
    assert [p.kind for p in parse_words(parser, [])[1]] == ["missing"]
    assert parse_words(parser, ["--config", "f"])[1] == []
    assert parse_words(parser, [], complete=False)[1] == []


def test_an_unknown_argument_of_a_release_with_gaps_is_not_refused() -> None:
    parser = ReleaseParser(ARGUMENTS, gaps=("a.py:99: computed",))
    assert kinds("--bogus 1", parser) == [("--bogus", "uncertain")]


def test_what_the_source_does_not_tell_is_not_judged() -> None:
    parser = ReleaseParser(
        (
            Argument(("--a",), "a.py:1", nargs=UNREADABLE),
            Argument(("--b",), "a.py:2", choices=("x",), open_choices=True),
            Argument(("--c",), "a.py:3", choices=("x",), kind="other"),
        )
    )
    assert kinds("--a 1 2 3 --b y --c y", parser) == [("--b", "uncertain")]


def test_abbreviations_are_names_of_their_own_where_the_parser_takes_none() -> None:
    parser = ReleaseParser(ARGUMENTS, abbreviations=False)
    assert kinds("--tp 8", parser) == [("--tp", "unknown")]


def real_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="x")
    types = {"int": int, "float": float, "str": str}
    for argument in ARGUMENTS[1:-1]:
        if argument.nargs == 0:
            parser.add_argument(*argument.flags, action="store_true")
        else:
            parser.add_argument(
                *argument.flags,
                nargs=argument.nargs,
                type=types[argument.kind],
                choices=argument.choices,
            )
    return parser


FLAGS = [flag for argument in ARGUMENTS[1:-1] for flag in argument.flags]
WORDS = st.sampled_from(
    [
        *FLAGS,
        "--tp",
        "--graph-bs",
        "--mo",
        "--bogus",
        "--tp-size=3",
        "--flag=1",
        "--mode=one",
        "--pair=x",
        "1",
        "2",
        "-3",
        "one",
        "x",
        "0.5",
        "a b",
        "-",
        "--mem=x",
    ]
)


@given(st.lists(WORDS, max_size=7))
def test_argparse_itself_gives_the_same_verdict(words: list[str]) -> None:
    _, problems = parse_words(ReleaseParser(ARGUMENTS[:-1]), words, complete=False)
    ours = any(SEVERITIES[problem.kind] == "error" for problem in problems)
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            real_parser().parse_args(words)
        except SystemExit:
            theirs = True
        else:
            theirs = False
    assert ours == theirs
