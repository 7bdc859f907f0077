# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils import _changes
from ansible_collections.sm120.sglang.plugins.module_utils._launch import (
    quote_environment,
    quote_systemd,
)
from hypothesis import given
from hypothesis import strategies as st


def unit(*lines: str) -> str:
    command = " \\\n  ".join(
        ["/opt/sglang/current/venv/bin/python -m sglang.launch_server", *lines]
    )
    return f"[Service]\nUser=sglang\nExecStart={command}\n\nRestart=on-failure\n"


OLD = {
    "sglang.service": unit("--disable-overlap", "--mem-fraction-static 0.85", "--tp-size 8"),
    "engine.env": '# ours\nNCCL_DEBUG="WARN"\nGONE="1"\nSGLANG_DEPLOY_LAUNCH="aa"\n',
}
NEW = {
    "sglang.service": unit(
        "--mem-fraction-static 0.94", '--override "{\\"a b\\": 1}"', "--tp-size 8"
    ),
    "engine.env": '# ours\nNCCL_DEBUG="INFO"\nHF_TOKEN="hf_x"\nSGLANG_DEPLOY_LAUNCH="bb"\n',
}


def test_arguments_that_came_went_or_changed_are_named_and_variables_without_values() -> None:
    assert _changes.differences(OLD, NEW) == [
        'arguments added: --override "{\\"a b\\": 1}"',
        "arguments removed: --disable-overlap",
        "arguments changed: --mem-fraction-static 0.85 -> 0.94",
        "variables changed: GONE, HF_TOKEN, NCCL_DEBUG",
    ]


def test_a_launch_does_not_differ_from_itself() -> None:
    assert _changes.differences(OLD, OLD) == []
    assert _changes.differences({}, {}) == []


def test_many_differences_still_fit_a_screen() -> None:
    many = {"x.service": unit(*(f"--argument-{n} {'v' * 400}" for n in range(30)))}
    (phrase,) = _changes.differences({"x.service": unit()}, many)
    assert phrase.endswith(" and 24 more")
    assert len(phrase) < 600


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True),
        st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).filter(
            lambda text: not text.startswith("--")
        ),
        max_size=5,
    ),
)
def test_what_the_role_writes_is_read_back(wanted: dict[str, str]) -> None:
    text = unit(*(f"--{name} {quote_systemd(value)}" for name, value in wanted.items()))
    read = _changes.arguments(text)
    assert read == {f"--{name}": quote_systemd(value) for name, value in wanted.items()}
    variables = {f"V{number}": quote_environment(v) for number, v in enumerate(wanted.values())}
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    assert _changes.environment(lines) == variables
