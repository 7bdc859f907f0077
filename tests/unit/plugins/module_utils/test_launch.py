# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _launch as launch
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, []),
        ({"tp-size": 8}, ["--tp-size", "8"]),
        ({"tp_size": 8}, ["--tp-size", "8"]),
        ({"trust-remote-code": True}, ["--trust-remote-code"]),
        ({"trust-remote-code": False, "revision": None}, []),
        ({"mem-fraction-static": 0.94}, ["--mem-fraction-static", "0.94"]),
        ({"cuda-graph-bs": [1, 2, 4]}, ["--cuda-graph-bs", "1", "2", "4"]),
        (
            {"json-model-override-args": {"b": 1, "a": [2]}},
            ["--json-model-override-args", '{"a":[2],"b":1}'],
        ),
        ({"port": 0}, ["--port", "0"]),
        ({"b": 1, "a": 2}, ["--a", "2", "--b", "1"]),
    ],
)
def test_arguments_are_rendered(arguments: dict[str, Any], expected: list[str]) -> None:
    assert launch.render_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"--tp-size": 8}, "without leading dashes"),
        ({"tp size": 8}, "not a name"),
        ({"": 1}, "not a name"),
        ({"tp-size": 8, "tp_size": 4}, "given twice"),
        ({"cuda-graph-bs": []}, "empty list"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(launch.LaunchError, match=message):
        launch.render_arguments(arguments)


KIMI = {
    "text_config": {
        "max_position_embeddings": 262144,
        "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
    }
}
DRAFT = {"max_position_embeddings": 131072}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (KIMI, 262144),
        (DRAFT, 131072),
        ({}, 2048),
        ({"max_position_embeddings": 4096, "rope_scaling": {"factor": 2.0}}, 8192),
        (
            {"max_position_embeddings": 4096, "rope_scaling": {"factor": 8, "rope_type": "llama3"}},
            4096,
        ),
        ({"max_position_embeddings": 4096, "rope_scaling": None}, 4096),
        ({"seq_length": 100, "max_position_embeddings": 4096}, 100),
        ({"model_max_length": None, "max_position_embeddings": 7}, 7),
        ({"llm_config": {"max_position_embeddings": 9}}, 9),
    ],
)
def test_context_length(config: dict[str, Any], expected: int) -> None:
    assert launch.context_length(config) == expected


@pytest.mark.parametrize(
    ("draft", "wanted", "override", "numbers"),
    [
        (DRAFT, None, True, ("131072", "262144")),
        (DRAFT, 131072, False, ("131072", "131072")),
        (DRAFT, 131073, True, ("131072", "131073")),
        (KIMI, None, False, ("262144",)),
        (None, None, False, ()),
    ],
)
def test_override_when_and_only_when_the_draft_is_shorter(
    draft: dict[str, Any] | None, wanted: int | None, override: bool, numbers: tuple[str, ...]
) -> None:
    decision = launch.decide_context(KIMI, draft, wanted)
    assert decision.override is override
    assert all(number in decision.reason for number in numbers)
    environment = launch.render_environment({"A": True}, decision)
    assert environment == {"A": "1", **({launch.CONTEXT_OVERRIDE: "1"} if override else {})}


def test_a_context_longer_than_the_target_is_refused() -> None:
    with pytest.raises(launch.LaunchError, match=r"262145 is longer than .* 262144"):
        launch.decide_context(KIMI, DRAFT, 262145)


def test_the_override_cannot_be_set_by_hand() -> None:
    decision = launch.decide_context(KIMI, None)
    with pytest.raises(launch.LaunchError, match=r"decided from the two config\.json"):
        launch.render_environment({launch.CONTEXT_OVERRIDE: "1"}, decision)


@pytest.mark.parametrize("name", ["A B", "1A", "", "A-B"])
def test_bad_variable_names_are_refused(name: str) -> None:
    with pytest.raises(launch.LaunchError, match="not a valid name"):
        launch.render_environment({name: "1"}, launch.decide_context(KIMI, None))


def test_line_breaks_are_refused() -> None:
    with pytest.raises(launch.LaunchError, match="line break"):
        launch.render_environment({"A": "1\nB=2"}, launch.decide_context(KIMI, None))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
def test_an_environment_value_survives_a_posix_shell(value: str) -> None:
    """systemd's EnvironmentFile syntax inside double quotes is the shell's."""
    script = f'A={launch.quote_environment(value)}; printf %s "$A"'
    assert (
        subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        == value
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--tp-size", "--tp-size"),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ("a b", '"a b"'),
        ("", '""'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a\\b", "a\\\\b"),
        ('{"a":1}', '"{\\"a\\":1}"'),
        ("a;b", '"a;b"'),
    ],
)
def test_systemd_quoting(word: str, expected: str) -> None:
    assert launch.quote_systemd(word) == expected


def test_the_digest_changes_with_each_part() -> None:
    base = launch.launch_digest(["a"], {"B": "1"}, "r1")
    assert base == launch.launch_digest(["a"], {"B": "1"}, "r1")
    others = {
        launch.launch_digest(["b"], {"B": "1"}, "r1"),
        launch.launch_digest(["a"], {"B": "2"}, "r1"),
        launch.launch_digest(["a"], {"B": "1"}, "r2"),
    }
    assert base not in others
    assert len(others) == 3
