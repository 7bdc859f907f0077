# SPDX-License-Identifier: Apache-2.0
"""A lab node under load, from one SGLang release to the next.

UPGRADE_STEPS names the steps, with commas: stacks, `rollback`, or `rollback:RELEASE`. Named steps
begin with whatever the node serves, so that a path which stopped is taken up again; without, the
node is made anew and goes the whole path. A path that failed leaves its node there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.state import state_dir
from tests.lab_node import REPOSITORY, Node
from tests.upgrade.load import Load, clients
from tests.upgrade.report import Report

FIRST = "lab-0.5.9"
PATH = (
    "lab-0.5.10.post1",
    "lab-0.5.12.post1",
    "lab-0.5.23",
    "rollback",
    "lab-0.5.10.post1",
    "lab-0.5.9",
)
STEPS = tuple(filter(None, os.environ.get("UPGRADE_STEPS", "").split(",")))


def steps() -> tuple[str, ...]:
    """The steps of this run."""
    return STEPS or PATH


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """The node, with an engine that serves."""
    lab = [sys.executable, "-m", "lab"]
    if not STEPS:
        subprocess.run([*lab, "down"], cwd=REPOSITORY, check=True, capture_output=True)
    subprocess.run([*lab, "up"], cwd=REPOSITORY, check=True, capture_output=True)
    node = Node()
    # Its output is YAML; the product's own callback writes for people.
    os.environ["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.default"
    if not STEPS:
        outcome = node.deploy(extra={"engine_release_stack": FIRST})
        assert outcome.code == 0, outcome.output
    yield node
    if not request.session.testsfailed:
        subprocess.run([*lab, "down"], cwd=REPOSITORY, check=True, capture_output=True)


@pytest.fixture(scope="session")
def results() -> Path:
    """Where the records and the report of this run are kept."""
    folder = state_dir() / "upgrade"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def load(node: Node, results: Path) -> Iterator[Load]:
    """Clients that ask all the time."""
    name = time.strftime("requests-%Y%m%dT%H%M%SZ.jsonl", time.gmtime())
    with clients(results / name) as load:
        yield load


@pytest.fixture(scope="session")
def report(results: Path) -> Iterator[Report]:
    """The figures of each step; written after every one of them."""
    report = Report(results)
    yield report
    print("\n" + report.table(), flush=True)


def wait_until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait, or fail the test."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.5)


def record(node: Node) -> dict[str, object]:
    """The record of the launch that serves."""
    found: dict[str, object] = json.loads(node.run("cat /etc/sglang/launches/serving/record.json"))
    return found
