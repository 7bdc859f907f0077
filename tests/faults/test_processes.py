# SPDX-License-Identifier: Apache-2.0
"""Processes of the engine that are killed, stopped, starved or given wrong kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.node import root_of
from lab.process import inhabitants
from lab.state import Lab
from tests.faults.conftest import STARTED, Broken, at, ends_well, mended, settled
from tests.lab_node import STATE

pytestmark = pytest.mark.faults

MEMORY_MIB = 300


def starve(node: Broken) -> None:
    """Give the engine less memory than it needs; the kernel then kills a process of it.

    By the unit's own limit where systemd has the memory controller, else by a control group of this
    machine, into which the engine's main process is moved before it has started another.
    """
    if node.run("grep -cw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null || true") == "1":
        limit = f"MemoryMax={MEMORY_MIB}M MemorySwapMax=0"
        node.run(f"systemctl set-property --runtime sglang {limit}")
        return
    pid = int(node.run("systemctl show sglang -p MainPID --value"))
    group = Path("/sys/fs/cgroup/memory/faults")
    group.mkdir(exist_ok=True)
    (group / "memory.limit_in_bytes").write_text(str(MEMORY_MIB << 20))
    for process in inhabitants(root_of(Lab(STATE), "lab-1")):
        status = Path(f"/proc/{process.pid}/status").read_text()
        if f"\nNSpid:\t{process.pid}\t{pid}\n" in status:
            (group / "cgroup.procs").write_text(str(process.pid))
            return
    pytest.fail(f"no process of this machine is the node's {pid}")


def feed(node: Broken) -> None:
    """Take the limit away."""
    node.run("rm -rf /run/systemd/system.control/sglang.service.d; systemctl daemon-reload")
    group = Path("/sys/fs/cgroup/memory/faults")
    if group.exists():
        group.rmdir()


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(
            "scheduler",
            marks=[pytest.mark.faults_core, pytest.mark.fault("scheduler-killed-serving")],
        ),
        pytest.param("detokenizer", marks=pytest.mark.fault("detokenizer-killed-serving")),
    ],
)
def test_a_part_is_killed_while_serving(node: Broken, part: str) -> None:
    """Nothing in the engine or systemd notices: the HTTP server goes on."""
    node.run(f"kill -KILL {node.part(part)}")
    shown = node.status(20)
    assert shown.says("lab-1 crashed"), shown.output
    assert shown.says(f"its {part} is gone"), shown.output
    assert shown.says("deploy again, which restarts it"), shown.output
    outcome = mended(node)
    assert outcome.says(f"engine: its {part} was killed"), outcome.output


@pytest.mark.fault("tree-killed-serving")
def test_the_whole_tree_is_killed_while_serving(node: Broken) -> None:
    before = node.engine()
    node.run("systemctl kill --signal=SIGKILL sglang")
    shown = node.status()
    assert shown.says("lab-1 crashed"), shown.output
    assert shown.says("systemd starts it again"), shown.output
    # Restart=on-failure brings it back by itself.
    node.run(
        "until systemctl show sglang -p NRestarts,ActiveState | grep -c '=1\\|=active' "
        "| grep -qx 2; do sleep 0.5; done"
    )
    settled(node)
    assert node.engine() != before


@pytest.mark.fault("scheduler-hangs")
def test_the_scheduler_is_stopped_while_serving(node: Broken) -> None:
    node.run(f"kill -STOP {node.part('scheduler')}")
    shown = node.status(20)
    assert shown.says("lab-1 hung"), shown.output
    assert shown.says("Remedy: "), shown.output
    hung = node.engine()
    ends_well(node.deploy(), cause="HUNG", remedy="run playbooks/stop.yml")
    assert node.engine() == hung, "a run that changes nothing leaves the engine alone"
    stopped = node.play("stop")
    assert stopped.code == 0, stopped.output
    mended(node)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("scheduler", marks=pytest.mark.fault("scheduler-killed-loading")),
        pytest.param("detokenizer", marks=pytest.mark.fault("detokenizer-killed-loading")),
    ],
)
def test_a_part_is_killed_while_loading(node: Broken, part: str) -> None:
    outcome = node.deploy_and(
        at(STARTED), lambda: node.run(f"kill -9 {node.part(part)}"), node.other()
    )
    ends_well(outcome, cause=f"the engine's {part}", remedy="To do: act on the remedy")
    assert outcome.says("was killed from outside (signal 9)"), outcome.output
    assert outcome.says("Serving now: release"), outcome.output


@pytest.mark.fault("tree-killed-loading")
def test_the_whole_tree_is_killed_while_loading(node: Broken) -> None:
    outcome = node.deploy_and(
        at(STARTED),
        lambda: node.run("systemctl kill --signal=SIGKILL sglang"),
        node.other(),
    )
    ends_well(outcome, cause="killed from outside (signal 9)", remedy="To do: act on the remedy")
    assert outcome.says("Serving now: release"), outcome.output


@pytest.mark.fault("out-of-memory")
def test_the_kernel_kills_for_want_of_memory(node: Broken) -> None:
    try:
        outcome = node.deploy_and(at(STARTED), lambda: starve(node), node.other())
    finally:
        feed(node)
    ends_well(outcome, cause="out-of-memory kill", remedy="MemoryMax")
    assert outcome.says("Serving now: release"), outcome.output
