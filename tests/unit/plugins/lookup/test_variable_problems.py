# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.lookup.variable_problems import problems

REPOSITORY = Path(__file__).parents[4]
SPEECH = {
    "type": "dict",
    "options": {
        "algorithm": {"type": "str", "choices": ["EAGLE", "EAGLE3"], "required": True},
        "steps": {"type": "int"},
    },
}


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ({"type": "int"}, "many", ["x: 'many' was given, a whole number is wanted"]),
        ({"type": "bool"}, "perhaps", ["x: 'perhaps' was given, true or false is wanted"]),
        ({"type": "float"}, [], ["x: [] was given, a number is wanted"]),
        (
            {"type": "list", "elements": "int"},
            ["a"],
            ["x: ['a'] was given, a list of int is wanted"],
        ),
        ({"type": "dict"}, "a", ["x: 'a' was given, a mapping is wanted"]),
        ({"choices": ["a", "b"]}, "c", ["x: 'c' was given, one of a, b is wanted"]),
        (
            {"type": "int", "no_log": True},
            "hunter2",
            ["x: a secret was given, a whole number is wanted"],
        ),
        (SPEECH, {"algorithm": "EAGLE"}, []),
    ],
)
def test_the_sentence_has_variable_value_and_what_is_wanted(
    option: dict[str, Any], value: Any, said: list[str]
) -> None:
    assert problems("x", option, value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"algorithm": "EAGLE9", "steps": "a"},
            [
                "x.algorithm: 'EAGLE9' was given, one of EAGLE, EAGLE3 is wanted",
                "x.steps: 'a' was given, a whole number is wanted",
            ],
        ),
        ({}, ["x.algorithm: is missing; one of EAGLE, EAGLE3 is wanted"]),
        (
            {"algorithm": "EAGLE", "other": 1},
            ["x.other: no such key; known: algorithm, steps"],
        ),
    ],
)
def test_a_key_inside_a_variable_is_named(value: Any, said: list[str]) -> None:
    assert problems("x", SPEECH, value) == said
    several = {**SPEECH, "type": "list", "elements": "dict"}
    fine = {"algorithm": "EAGLE"}
    assert problems("x", several, [fine]) == []
    assert problems("x", several, [fine, value]) == [text.replace("x.", "x[1].") for text in said]


HOW = "On the command line only JSON has such values: -e "


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (
            {"type": "int"},
            "30000",
            "x: '30000' was given, a whole number is wanted. {}'{\"x\": 30000}'",
        ),
        ({"type": "float"}, "0.5", "x: '0.5' was given, a number is wanted. {}'{\"x\": 0.5}'"),
        (
            {"type": "bool"},
            "false",
            "x: 'false' was given, true or false is wanted. {}'{\"x\": false}'",
        ),
        (
            {"type": "list", "elements": "int"},
            "1,4",
            "x: '1,4' was given, a list of int is wanted. {}'{\"x\": [1, 4]}'",
        ),
        (
            {"type": "dict"},
            "a=b",
            'x: \'a=b\' was given, a mapping is wanted. {}\'{"x": {"a": "b"}}\'',
        ),
        (
            {"type": "int", "no_log": True},
            "12",
            "x: a secret was given, a whole number is wanted. {}'{\"x\": ...}'",
        ),
    ],
)
def test_a_text_is_not_taken_for_what_it_would_have_to_become(
    option: dict[str, Any], value: str, said: str
) -> None:
    """Ansible would accept it here, and compare a text with a number where it is used."""
    assert problems("x", option, value) == [
        said.replace("{}", HOW) + "; in the inventory write it without quotes"
    ]


def test_a_text_inside_a_value_is_named_by_its_place() -> None:
    option = {"type": "list", "elements": "dict", "options": {"input": {"type": "int"}}}
    assert problems("x", option, [{"input": 1}, {"input": "16"}]) == [
        "x[1].input: '16' was given, a whole number is wanted: write 16, without quotes"
    ]
    numbers = {"type": "list", "elements": "int"}
    assert problems("x", numbers, [1, "4"]) == [
        "x[1]: '4' was given, a whole number is wanted: write 4, without quotes"
    ]


def test_a_long_value_is_shortened() -> None:
    (sentence,) = problems("x", {"type": "int"}, "v" * 400)
    assert len(sentence) < 140


def test_every_default_fits() -> None:
    for path in (REPOSITORY / "roles").glob("*/meta/argument_specs.yml"):
        options = yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
        for name, option in options.items():
            if "default" in option and "{{" not in str(option["default"]):
                assert problems(name, option, option["default"]) == []
