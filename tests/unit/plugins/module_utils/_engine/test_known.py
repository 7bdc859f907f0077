# SPDX-License-Identifier: Apache-2.0
"""The known faults: each is recognised, by its own signature best, and a healthy log by none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import find_cause
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
from ansible_collections.sm120.sglang.plugins.module_utils._engine.known import SIGNATURES
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    FAULT,
    ROOT,
    Signature,
    matches,
    rank,
)

from tests.unit.plugins.module_utils._engine.recordings import FOLDER, journal

RECORDINGS = FOLDER.parent
ORIGINS = {"recorded", "reported", "source"}


def examples() -> list[tuple[str, str, str]]:
    """Signature, origin and line of every example."""
    text = (RECORDINGS / "signatures.txt").read_text()
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [(row[0], row[1], row[2]) for row in rows]


@pytest.mark.parametrize(("name", "origin", "line"), examples())
def test_a_known_fault_is_recognised_and_no_other_explains_it_better(
    name: str, origin: str, line: str
) -> None:
    assert origin in ORIGINS
    best = rank(matches([line], SIGNATURES))
    assert [best[0].signature.id] == [name], [match.signature.id for match in best]
    # No second one that says as much and matched as much: the order would be an accident.
    if len(best) > 1:
        first, second = ((match.signature.says, match.length) for match in best[:2])
        assert first > second


def test_every_known_fault_has_an_example() -> None:
    assert len(SIGNATURES) >= 60
    assert {name for name, _origin, _line in examples()} == {one.id for one in SIGNATURES}


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda one: one.id)
def test_the_data_is_whole(signature: Signature) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", signature.id)
    assert signature.says in (CLASS, FAULT, ROOT)
    for text in (signature.cause, signature.remedy, signature.source):
        assert text
        assert not text.endswith(".")
    rest = re.sub(r"(<=|>=|==|<|>)\d+\.\d+\.\d+(\.post\d+)?", "", signature.releases)
    assert rest.replace(",", "") == ""
    groups = re.compile(signature.pattern)
    assert all(int(n) <= groups.groups for n in re.findall(r"\\(\d)", signature.remedy))
    assert set(re.findall(r"\\g<(\w+)>", signature.remedy)) <= set(groups.groupindex)
    assert re.search(signature.pattern, "") is None


def healthy() -> list[str]:
    """Everything that engines wrote which served; one was stopped in the end."""
    lines = (RECORDINGS / "sglang-0.5.9-cpu/start.log").read_text().splitlines()
    return lines + [line.text for line in journal("served-and-stopped")]


def test_a_healthy_engine_shows_no_known_fault() -> None:
    assert len(healthy()) > 200
    found = [(one.signature.id, one.text) for one in matches(healthy(), SIGNATURES)]
    assert found == []


def test_a_root_cause_in_the_kernels_log_explains_what_the_engine_says() -> None:
    error = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    own = [Line("Traceback (most recent call last):"), Line('  File "/a.py", line 1, in f')]
    own.append(Line(error))
    kernel = [Line("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.")]
    cause = find_cause(own, kernel=kernel)
    assert cause.summary == error
    assert cause.signature == "xid-bus"
    assert cause.evidence[-1] == kernel[0].text
    # What the driver says of a faulty kernel is no root cause: the engine's own word counts.
    software = [Line("NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=x, MMU Fault")]
    assert find_cause(own, kernel=software).signature == "illegal-address"


def test_a_line_near_the_death_explains_what_the_exception_does_not() -> None:
    hidden = Line("  [3] misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment")
    raised = [Line("Traceback (most recent call last):"), Line("RuntimeError: NCCL error: 2")]
    assert find_cause([hidden, *raised]).signature == "nccl-shared-memory"
    far = [Line("the engine serves")] * 500
    assert find_cause([hidden, *far, *raised]).signature == ""


def test_a_fault_of_another_release_is_told_last_and_says_so() -> None:
    text = [Line("Traceback (most recent call last):"), Line("KeyError: 12")]
    assert find_cause(text, release="0.5.9").known.endswith("no row for it")
    other = find_cause(text, release="0.5.20")
    assert other.signature == "symm-mem-capability"
    assert "known of releases <0.5.14; this is 0.5.20" in other.known
    both = rank(
        matches(
            ["x"],
            [Signature("old", "x", "r", releases="<0.5.10"), Signature("class", "x", "r", says=1)],
        ),
        "0.5.10.post1",
    )
    assert [match.signature.id for match in both] == ["class", "old"]


@pytest.mark.parametrize(
    ("releases", "release", "fits"),
    [
        ("<0.5.10", "0.5.9", True),
        ("<0.5.10", "0.5.10", False),
        ("<0.5.10", "0.5.10.post1", False),
        (">=0.5.14,<0.5.20", "0.5.16", True),
        (">=0.5.14,<0.5.20", "0.5.20", False),
        ("==0.5.14", "0.5.14", True),
        ("", "0.5.9", True),
        ("<0.5.10", "", True),
    ],
)
def test_release_ranges(releases: str, release: str, fits: bool) -> None:
    assert Signature("x", "x", "x", releases=releases).fits(release) is fits


def raises(error: str, pid: int, stamp: str = "") -> list[Line]:
    frame = '  File "/v/sglang/srt/a.py", line 7, in f'
    return [
        Line(text, pid=pid) for text in (f"{stamp}Traceback (most recent call last):", frame, error)
    ]


def test_an_unknown_death_shows_the_chain_of_the_rank_that_failed_first() -> None:
    stamp = "[2026-11-29 16:50:58 TP3] "
    harmless = [*raises("ValueError: harmless", 1, stamp + "Ignored: "), Line(stamp + "on", pid=1)]
    first = raises("ZzzError: the first to die", 3)
    second = raises("ZzzError: died of the first", 2)
    last = [Line(f"{stamp}Error: the last line of all", pid=1)]
    cause = find_cause([*harmless, *first, *second, *last])
    assert cause.summary == "ZzzError: the first to die"
    assert cause.signature == ""
    assert cause.chain == ("ZzzError: the first to die", "  at /v/sglang/srt/a.py:7")


def test_a_traceback_that_its_process_survived_is_not_the_death() -> None:
    stamp = "[2026-11-29 16:50:58 TP3] "
    survived = [*raises("ZzzError: printed", 1), Line(f"{stamp}go on", pid=1)]
    assert find_cause([*survived, *raises("ZzzError: fatal", 2)]).summary == "ZzzError: fatal"


def test_recorded_deaths_are_all_known() -> None:
    for path in sorted(Path(FOLDER).glob("*.jsonl")):
        if path.stem != "served-and-stopped":
            assert find_cause(journal(path.stem)).signature, path.stem
