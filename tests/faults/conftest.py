# SPDX-License-Identifier: Apache-2.0
"""A serving node to break, what every fault has to end in, and what may not be lost by it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.lab_node import (
    LAB_ARGUMENTS,
    PLAY_SECONDS,
    REPOSITORY,
    STATE,
    WAIT,
    Node,
    Outcome,
    fresh_node,
    lab,
)

# The gate's short form: what a fault shows does not depend on the further questions.
BASE: dict[str, Any] = {
    "health_gate_verify_steps": 4,
    "health_gate_long_prompt_tokens": 0,
    "health_gate_concurrency": 0,
    "health_gate_sampling": False,
    "health_gate_image": False,
    "engine_stop_timeout": 20,
    "engine_release_import_proof": "never",
    "engine_release_keep": 9,
}
# Other releases of the same SGLang, and another launch of the same release.
SECOND: dict[str, Any] = {"source_patches_policy": "needed_only"}
THIRD: dict[str, Any] = {"source_patches_ids": ["kimi_k25_eagle3_delegation"]}
# One that is never completed.
FOURTH: dict[str, Any] = {
    "source_patches_ids": ["kimi_k25_eagle3_delegation", "sm120_allreduce_sizes"]
}
# One that only several controllers build.
FIFTH: dict[str, Any] = {**SECOND, **THIRD}
LAUNCH: dict[str, Any] = {"engine_arguments": {**LAB_ARGUMENTS, "max-total-tokens": 3072}}
STARTED = "is active, main process"
# Whether the journal of the present start has said something.
SAID = (
    "journalctl -q _SYSTEMD_INVOCATION_ID=$(systemctl show sglang -p InvocationID --value)"
    " | grep -q '{}'"
)


class Broken(Node):
    """A node that serves, is broken, and has to serve again.

    `wanted` are the variables of what serves, beside `BASE`.
    """

    def __init__(self) -> None:
        self.wanted: dict[str, Any] = {}

    def command(
        self, *words: str, extra: dict[str, Any] | None = None, playbook: str = "deploy.yml"
    ) -> list[str]:
        given = {**BASE, **(self.wanted if extra is None else extra)}
        return super().command(*words, extra=given, playbook=playbook)

    def other(self) -> dict[str, Any]:
        """Variables of another launch of the same release than the one that serves."""
        return {} if "engine_arguments" in self.wanted else LAUNCH

    def play(self, name: str, **extra: Any) -> Outcome:
        """Run one of the operator's other playbooks."""
        return self.deploy(extra={**self.wanted, **extra}, playbook=f"playbooks/{name}.yml")

    def status(self, seconds: int = 120) -> Outcome:
        """The operator's view, with the known answer; the lab's own answers take a while."""
        return self.play("status", status_timeout=seconds, status_known_answer=known_answer())

    def wait(self, moment: str) -> None:
        """Wait until a shell condition holds on the node."""
        self.run(f"{WAIT} {shlex.quote(moment)}")

    def part(self, name: str) -> int:
        """The process of a part of the engine, such as `scheduler`, waited for."""
        self.wait(f"pgrep -f ^sglang::{name}")
        return int(self.run(f"pgrep -of '^sglang::{name}'"))

    def deploy_twice(self, *extras: dict[str, Any]) -> list[Outcome]:
        """Deploy from several controllers at once; returns how each ended."""
        plays = [
            subprocess.Popen(
                self.command(extra=extra),
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for extra in extras
        ]
        outputs = [play.communicate(timeout=PLAY_SECONDS)[0] for play in plays]
        return [Outcome(p.returncode, o, 0.0) for p, o in zip(plays, outputs, strict=True)]

    def power_off(self, seconds: float) -> None:
        """Cut the power, and boot again after a while."""
        lab("kill", "lab-1")
        time.sleep(seconds)
        lab("up")

    def possessions(self) -> set[str]:
        """What no fault may cost: complete releases, launch records, every file of the models."""
        return set(
            self.run(
                "ls -d /opt/sglang/releases/*/COMPLETE /etc/sglang/launches/*/record.json; "
                "find /var/lib/sglang/models -type f -name '[!.]*' -printf '%p %s\n'"
            ).splitlines()
        )

    def traces(self) -> set[str]:
        """What a test could leave on the machine: mounts, drop-ins, failed units."""
        return set(
            self.run(
                "findmnt -rno TARGET,FSTYPE; "
                "ls -d /run/systemd/system/*.d /etc/systemd/system/sglang.service.d 2>/dev/null; "
                "systemctl --failed --plain --no-legend; true"
            ).splitlines()
        )


def known_answer() -> dict[str, Any]:
    """The question of the lab's model and its answer."""
    chat = json.loads((STATE / "models/target/expected.json").read_text())["chat"]
    return {
        "messages": chat["messages"],
        "max_tokens": chat["max_tokens"],
        "expect": chat["text"].strip(),
    }


def at(text: str) -> Callable[[str], bool]:
    """The moment at which a play prints a text."""
    return lambda line: text in line


def task(role: str, name: str) -> Callable[[str], bool]:
    """The moment at which a task begins."""
    return at(f"TASK [sm120.sglang.{role} : {name}")


def ends_well(outcome: Outcome, *, cause: str, remedy: str) -> None:
    """A play that met a fault fails, and names cause and remedy on its last screen."""
    assert outcome.code != 0, outcome.output
    screen = Outcome(outcome.code, outcome.failure, outcome.seconds)
    assert screen.says(cause), f"{cause!r} is not in\n{outcome.output}"
    assert screen.says(remedy), f"{remedy!r} is not in\n{outcome.output}"


def untouched(node: Broken, engine: str) -> None:
    """The process that served before the fault serves still, and answers a real prompt."""
    assert node.engine() == engine
    shown = node.status()
    assert shown.says("lab-1 ready"), shown.output


def mended(node: Broken) -> Outcome:
    """An ordinary run ends well, and the engine has answered a real prompt.

    In its gate, or, where there is nothing to do, while the node was read.
    """
    outcome = node.deploy()
    assert outcome.code == 0, outcome.output
    assert outcome.says("OK known_answer") or outcome.says("and answered 'one two"), outcome.output
    return outcome


def settled(node: Broken) -> None:
    """An ordinary run finds nothing to do, and a real prompt is answered."""
    outcome = mended(node)
    assert outcome.changed == 0, outcome.output


@pytest.fixture(scope="session")
def node() -> Iterator[Broken]:
    """A node that serves; with FAULTS_KEEP set, the lab's own one is used, and kept."""
    broken = Broken()
    if os.environ.get("FAULTS_KEEP"):
        mended(broken)
        yield broken
        return
    with fresh_node():
        outcome = broken.deploy()
        assert outcome.code == 0, outcome.output
        yield broken


@pytest.fixture(autouse=True)
def nothing_is_lost(node: Broken, request: pytest.FixtureRequest) -> Iterator[None]:
    """Releases, records and models are all there afterwards, and the machine is as it was.

    And the next ordinary run finds nothing to do; of those that `make test` has, each shows that
    itself where it can be doubted.
    """
    failed = request.session.testsfailed
    if failed:
        node.deploy()  # whatever an earlier test has left broken
    before, traces, begun = node.possessions(), node.traces(), time.monotonic()
    yield
    if request.session.testsfailed > failed:
        return
    if request.node.get_closest_marker("faults_core") is None:
        settled(node)
    assert before <= node.possessions(), "the fault cost something"
    assert node.traces() == traces, "the test left something"
    print(f"{request.node.name}: {time.monotonic() - begun:.0f} s")
