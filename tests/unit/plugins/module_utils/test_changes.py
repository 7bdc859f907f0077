# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils import _changes
from ansible_collections.sm120.sglang.plugins.module_utils._launch import (
    quote_environment,
    quote_systemd,
)
from hypothesis import example, given
from hypothesis import strategies as st


def unit(*lines: str) -> str:
    command = " \\\n  ".join(
        ["/opt/sglang/current/venv/bin/python -m sglang.launch_server", *lines]
    )
    return f"[Service]\nUser=sglang\nExecStart={command}\n\nRestart=on-failure\n"


OLD = {
    "sglang.service": unit("--disable-overlap", "--mem-fraction-static 0.85", "--tp-size 8"),
    "engine.env": '# ours\nNCCL_DEBUG="WARN"\nGONE="1"\nHF_TOKEN="hf_x"\nSAME="a"\n'
    'HOME="/opt/sglang/cache/r1-aa"\nSGLANG_DEPLOY_LAUNCH="aa"\n',
}
NEW = {
    "sglang.service": unit(
        "--mem-fraction-static 0.80", '--override "{\\"a b\\": 1}"', "--tp-size 8"
    ),
    "engine.env": '# ours\nNCCL_DEBUG="INFO"\nHF_TOKEN="hf_y"\nSITE_PASSWORD="hunter2"\nSAME="a"\n'
    'HOME="/opt/sglang/cache/r2-bb"\nSGLANG_X="1"\nSGLANG_DEPLOY_LAUNCH="bb"\n',
}


def compare(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return _changes.differences(_changes.read(before), _changes.read(now), ("r1-aa", "r2-bb"))


def test_what_came_went_or_changed_is_told_and_secrets_only_as_changed() -> None:
    assert compare(OLD, NEW) == [
        "- --disable-overlap",
        "--mem-fraction-static 0.85 -> 0.80",
        '+ --override "{\\"a b\\": 1}"',
        "- GONE=1",
        "HF_TOKEN changed (secret)",
        "NCCL_DEBUG=WARN -> INFO",
        "+ SGLANG_X=1",
        "+ SITE_PASSWORD (secret)",
    ]
    assert compare(
        {"x.service": unit("--log-requests")}, {"x.service": unit("--log-requests 1")}
    ) == ["--log-requests (bare) -> 1"]


def test_no_secret_is_in_what_is_read() -> None:
    proxy = {"engine.env": 'HTTPS_PROXY="http://user:hunter2@proxy:1"\n'}
    text = str([_changes.read(NEW), _changes.read(proxy)])
    assert "hunter2" not in text
    assert "hf_y" not in text
    assert _changes.differences(_changes.read(proxy), _changes.read({})) == [
        "- HTTPS_PROXY (secret)"
    ]


def test_a_launch_does_not_differ_from_itself() -> None:
    assert _changes.differences(_changes.read(OLD), _changes.read(OLD)) == []
    assert _changes.differences(_changes.read({}), _changes.read({})) == []


def test_many_differences_still_fit_a_screen() -> None:
    many = {"x.service": unit(*(f"--argument-{n} {'v' * 400}" for n in range(30)))}
    phrases = compare({"x.service": unit()}, many)
    assert phrases[-1] == "and 18 more"
    assert len("; ".join(phrases)) < 1200


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True),
        st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).filter(
            lambda text: not text.startswith("--")
        ),
        max_size=5,
    ),
)
@example({"a": "\\"})
@example({"a": "x\\", "b": "y"})
def test_what_the_role_writes_is_read_back(wanted: dict[str, str]) -> None:
    text = unit(*(f"--{name} {quote_systemd(value)}" for name, value in wanted.items()))
    read = _changes.arguments(text)
    assert read == {f"--{name}": quote_systemd(value) for name, value in wanted.items()}
    variables = {f"V{number}": quote_environment(v) for number, v in enumerate(wanted.values())}
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    assert _changes.environment(lines) == variables
