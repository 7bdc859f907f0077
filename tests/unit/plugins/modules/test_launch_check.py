# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.modules import launch_check

# A parser as a release has it: real argparse, SGLang's way of adding arguments, help texts with
# a percent sign that argparse could not format, and a library that writes to HOME when imported.
SERVER_ARGS = """
import argparse, os, pathlib, sys

(pathlib.Path.home() / "written-at-import").write_text("x")
print("a library that talks on import")
print("and on stderr", file=sys.stderr)
if os.environ.get("BREAK"):
    raise ImportError("libcuda.so.1: cannot open shared object file")


class ServerArgs:
    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=1)
        parser.add_argument("--mem-fraction-static", type=float, help="0.9 means 90% of it")
        parser.add_argument("--attention-backend", choices=["triton", "flashinfer"])
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--cuda-graph-bs", type=int, nargs="+")
        parser.add_argument("--version", action="version", version="0.5.9")
"""
ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    package = tmp_path / "sglang/srt"
    package.mkdir(parents=True)
    (tmp_path / "sglang/__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "server_args.py").write_text(SERVER_ARGS)
    return {"python": sys.executable, "user": ME, "environment": {"PYTHONPATH": str(tmp_path)}}


GOOD = [
    "--model-path",
    "/models/a b",
    "--tp-size",
    "8",
    "--mem-fraction-static",
    "0.94",
    "--attention-backend",
    "triton",
    "--trust-remote-code",
    "--cuda-graph-bs",
    "1",
    "2",
]


@pytest.mark.parametrize("check", [True, False])
def test_good_arguments_pass(run_module: Any, arguments: dict[str, Any], check: bool) -> None:
    result = run_module(launch_check, {**arguments, "arguments": GOOD}, check=check)
    assert (result["changed"], result["unknown"]) == (False, [])


@pytest.mark.parametrize(
    ("words", "unknown", "parts"),
    [
        (["--no-such-flag"], ["--no-such-flag"], ["unknown: --no-such-flag"]),
        (
            ["--first-wrong", "value", "--second-wrong=1"],
            ["--first-wrong", "--second-wrong=1"],
            ["unknown: --first-wrong --second-wrong=1"],
        ),
        (["--tp-size", "8", "stray"], ["stray"], ["unknown: stray"]),
        (["--tp-size", "many"], [], ["argument --tensor-parallel-size/--tp-size", "'many'"]),
        (["--attention-backend", "fa9"], [], ["invalid choice: 'fa9'", "flashinfer"]),
        (["--tp-size"], [], ["expected one argument"]),
        (["--help"], [], ["ends the program"]),
        (["--version"], [], ["ends the program"]),
    ],
)
def test_what_the_release_does_not_accept_is_named(
    run_module: Any,
    arguments: dict[str, Any],
    words: list[str],
    unknown: list[str],
    parts: list[str],
) -> None:
    result = run_module(launch_check, {**arguments, "arguments": GOOD + words})
    assert result["failed"]
    assert result["unknown"] == unknown
    for part in (*parts, "Nothing was changed; correct engine_arguments"):
        assert part in result["msg"]


def test_a_required_argument_is_missed(run_module: Any, arguments: dict[str, Any]) -> None:
    result = run_module(launch_check, {**arguments, "arguments": ["--tp-size", "8"]})
    assert "the following arguments are required: --model-path/--model" in result["msg"]


def test_a_release_that_cannot_be_imported_says_why(
    run_module: Any, arguments: dict[str, Any]
) -> None:
    environment = {**arguments["environment"], "BREAK": 1}
    result = run_module(launch_check, {**arguments, "arguments": GOOD, "environment": environment})
    assert result["failed"]
    assert f"cannot be run as {ME}: ImportError: libcuda.so.1: cannot open" in result["msg"]


def test_a_missing_user_is_named(run_module: Any, arguments: dict[str, Any]) -> None:
    result = run_module(launch_check, {**arguments, "arguments": GOOD, "user": "no-such-user-here"})
    assert "there is no user no-such-user-here" in result["msg"]


def test_a_missing_interpreter_is_named(run_module: Any, arguments: dict[str, Any]) -> None:
    result = run_module(launch_check, {**arguments, "arguments": GOOD, "python": "/no/python"})
    assert result["failed"]
    assert "/no/python" in result["msg"]
