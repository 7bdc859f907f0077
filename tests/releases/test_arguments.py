# SPDX-License-Identifier: Apache-2.0
"""The reader of server arguments on real releases, against what argparse makes of their code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._arguments import report
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import ReleaseParser
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.read import read_parser
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.releases import release_key
from ansible_collections.sm120.sglang.plugins.module_utils._tree import Tree, open_tree

from scripts import argument_history
from tests.releases import wheels
from tests.releases.own_parser import own_parser

RULES = yaml.safe_load((wheels.ROOT / report.RULES).read_text("utf-8"))
HISTORY = json.loads((wheels.ROOT / report.HISTORY).read_text("utf-8"))
FEW = ("0.5.9", "0.5.14", wheels.ALL[-1])

# Choices that a module gives which does not run for the comparison, and that the reader finds.
ELSEWHERE = {
    "--kv-canary-real-data": "none",
    "--lora-target-modules": "all",
    "--reasoning-parser": "kimi_k2",
    "--tool-call-parser": "kimi_k2",
}
# Added to the choices under a condition that does not hold where the comparison runs.
CONDITIONAL = {"--sampling-backend": {"token_oracle"}}
KINDS = {"str": "str", "int": "int", "float": "float", "loads": "json", None: "str"}

# From another reading of the releases, by hand and grep: file and line of some declarations.
PLACES: dict[str, dict[str, str]] = {
    "0.5.9": {
        "--model-path": "srt/server_args.py:2893",
        "--tp-size": "srt/server_args.py:3301",
        "--enable-torch-symm-mem": "srt/server_args.py:4554",
        "--cuda-graph-max-bs": "srt/server_args.py:4477",
        "--tool-call-parser": "srt/server_args.py:3679",
    },
    "0.5.10.post1": {
        "--model-path": "srt/server_args.py:3636",
        "--enforce-disable-flashinfer-allreduce-fusion": "srt/server_args.py:4934",
        "--disable-cuda-graph": "srt/server_args.py:5352",
    },
    "0.5.12.post1": {
        "--model-path": "srt/server_args.py:4529",
        "--moe-runner-backend": "srt/server_args.py:6000",
        "--cuda-graph-bs": "srt/server_args.py:6433",
    },
    "0.5.14": {
        "--model-path": "srt/server_args.py:417",
        "--tool-call-parser": "srt/server_args.py:6274",
        "--enable-flashinfer-allreduce-fusion": "srt/server_args.py:6491",
        "--cuda-graph-max-bs": "srt/server_args.py:6358",
    },
    "0.5.16": {
        "--tp-size": "srt/server_args.py:888",
        "--cuda-graph-bs": "srt/server_args.py:7208",
    },
    "0.5.18": {
        "--attention-backend": "srt/server_args.py:1698",
        "--disable-cuda-graph": "srt/server_args.py:8790",
    },
    "0.5.20": {
        "--model-path": "srt/arg_groups/fields/model.py:52",
        "--speculative-eagle-topk": "srt/arg_groups/fields/spec.py:64",
        "--reasoning-parser": "srt/server_args.py:363",
    },
    "0.5.23": {
        "--model-path": "srt/arg_groups/fields/model.py:51",
        "--attention-backend": "srt/arg_groups/fields/exec_.py:207",
        "--disable-cuda-graph": "srt/server_args.py:410",
        "--enable-flashinfer-allreduce-fusion": "srt/server_args.py:438",
    },
}
DEPRECATED_SINCE = {
    "--enable-flashinfer-allreduce-fusion": "0.5.14",
    "--disable-cuda-graph": "0.5.14",
}


def release_parameters() -> list[Any]:
    few = [pytest.mark.releases]
    every = [pytest.mark.releases, pytest.mark.releases_all]
    return [pytest.param(n, marks=few if n in FEW else every, id=n) for n in wheels.ALL]


@pytest.fixture(scope="module", params=release_parameters())
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tree(release: str) -> Tree:
    return open_tree(str(wheels.wheel(release)))


@pytest.fixture(scope="module")
def parser(tree: Tree) -> ReleaseParser:
    return read_parser(tree)


def test_every_argument_is_as_argparse_has_it(
    release: str, parser: ReleaseParser, tmp_path: Path
) -> None:
    packages = wheels.msgspec() if release_key(release) >= release_key("0.5.20") else None
    own = own_parser(wheels.wheel(release), tmp_path, packages)
    expected = {flag: row for row in own for flag in row["flags"]}
    assert parser.gaps == ()
    assert len(parser.arguments) == len(own) > 270
    assert set(parser.by_flag) == set(expected)
    for flag, row in expected.items():
        found = parser.by_flag[flag]
        assert (found.nargs, found.required) == (row["nargs"], row["required"]), flag
        assert set(found.flags) == set(row["flags"]), flag
        if found.nargs != 0:
            assert found.kind == KINDS.get(row["type"], "other"), flag
        if flag in ELSEWHERE:
            assert ELSEWHERE[flag] in (found.choices or ()), flag
        elif row["choices"] is None:
            assert found.choices is None, flag
        else:
            more = CONDITIONAL.get(flag, set()) - set(row["choices"])
            assert set(found.choices or ()) - more == set(row["choices"]), flag


def test_declarations_are_found_where_they_stand(release: str, parser: ReleaseParser) -> None:
    for flag, place in PLACES.get(release, {}).items():
        assert parser.by_flag[flag].where == place
    for flag, since in DEPRECATED_SINCE.items():
        deprecated = parser.by_flag[flag].deprecated
        assert deprecated == (release_key(release) >= release_key(since)), flag


def test_the_default_launch_is_judged_right(release: str, tree: Tree) -> None:
    found = report.launch_report(tree, release, RULES, raw_history=HISTORY)
    fusion, symm_mem = "--enable-flashinfer-allreduce-fusion", "--enable-torch-symm-mem"
    late = release_key(release) >= release_key("0.5.14")
    assert found["unknown"] == []
    assert found["deprecated"] == ([fusion] if late else [])
    assert found["fatal_on_sm120"] == ([fusion] if late else [symm_mem])


def test_what_the_role_gives_has_no_finding(release: str, tree: Tree) -> None:
    found = report.launch_report(tree, release, RULES, report.ROLE_LAUNCH, raw_history=HISTORY)
    assert found["findings"] == []


def test_an_abbreviation_of_the_command_may_become_ambiguous(release: str, tree: Tree) -> None:
    words = ["--tp", "8", "--cuda-graph-max-bs", "16"]
    found = report.launch_report(tree, release, RULES, words, raw_history=HISTORY)
    kinds = {row["argument"]: (row["kind"], row["remedy"]) for row in found["findings"]}
    assert kinds["--tp"] == ("abbreviated", "write --tp-size")
    key = release_key(release)
    if key >= release_key("0.5.20"):
        assert kinds["--cuda-graph-max-bs"] == ("ambiguous", "use --cuda-graph-max-bs-decode")
    elif key >= release_key("0.5.14"):
        assert kinds["--cuda-graph-max-bs"] == ("deprecated", "use --cuda-graph-max-bs-decode")
    else:
        assert "--cuda-graph-max-bs" not in kinds


@pytest.mark.releases_all
@pytest.mark.releases
def test_the_history_is_that_of_the_releases() -> None:
    parsers = {name: read_parser(open_tree(str(wheels.wheel(name)))) for name in wheels.ALL}
    text = argument_history.render(argument_history.lifetimes(parsers), wheels.ALL)
    assert text == (wheels.ROOT / report.HISTORY).read_text("utf-8")
