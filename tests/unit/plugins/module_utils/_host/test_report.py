# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import report
from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import FOUND, OK, Finding
from ansible_collections.sm120.sglang.plugins.module_utils._host.judge import Verdict, verdict


def verdicts(*findings: Finding) -> list[Verdict]:
    return [verdict(finding, ["mig"], ["zfs"]) for finding in findings]


SOME = verdicts(
    Finding("swap", OK, "none"),
    Finding("hmm", FOUND, "on"),
    Finding("zfs", FOUND, "/srv on ZFS"),
    Finding("mig", FOUND, "GPU 2: MIG is on"),
)


def test_a_table_begins_with_what_is_wrong() -> None:
    lines = report.table("node-1", SOME).splitlines()
    assert lines[0] == "node-1: 1 fail, 1 warn, 2 ok"
    heads = [line.split()[:2] for line in lines[1:] if line[2:3].strip()]
    assert heads == [
        ["FAIL", "mig"],
        ["WARN", "hmm"],
        ["ok", "swap"],
        ["accepted", "zfs"],
        ["what", "the"],
    ]
    assert all(len(line) <= 100 for line in lines)
    assert lines[-1] == '    cuda_stack_module_options: {"nvidia_uvm": "uvm_disable_hmm=1"}'


def test_a_long_word_stands_whole() -> None:
    text = report.table("n", verdicts(Finding("mig", FOUND, "x" * 120)))
    assert "x" * 120 in text


@pytest.mark.parametrize(
    ("nodes", "worst", "code"),
    [
        ({}, "ok", 0),
        ({"a": SOME[:1]}, "ok", 0),
        ({"a": SOME[:1], "b": SOME[:2]}, "warn", 1),
        ({"a": SOME[2:3]}, "ok", 0),
        ({"a": SOME, "b": []}, "fail", 2),
    ],
)
def test_the_report_has_the_exit_code(
    nodes: dict[str, list[Verdict]], worst: str, code: int
) -> None:
    found = report.report(nodes, "2026-11-29T03:00:00+00:00")
    assert (found["worst"], found["exit_code"]) == (worst, code)
    assert list(found["nodes"]) == list(nodes)
    assert found["format"] == 1
