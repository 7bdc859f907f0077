# SPDX-License-Identifier: Apache-2.0
"""The node's disks, memory, journal, clock and units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.conftest import FOURTH, Broken, ends_well, mended, settled, untouched

pytestmark = pytest.mark.faults

NO_SPACE = "No space left on device"
PAST = "/srv/past"


@contextmanager
def full_disk(node: Broken, place: str, mib: int) -> Iterator[None]:
    """Let a folder have this much space left, on a small file system above it."""
    small = "/run/small"
    node.run(
        f"mkdir {small}; mount -t tmpfs -o mode=0755,size={mib}M tmpfs {small}; cd {small}; "
        "mkdir upper work; "
        f"chmod --reference={place} upper; chown --reference={place} upper; "
        f"mount -t overlay -o lowerdir={place},upperdir={small}/upper,workdir={small}/work "
        f"small {place}; [ {mib} -gt 1 ] || cat /dev/zero > {small}/filler 2>/dev/null || true"
    )
    try:
        yield
    finally:
        node.run(f"cd /; umount -l {place}; umount -l {small}; rmdir {small}")


@pytest.mark.fault("disk-full-building")
def test_the_disk_fills_during_a_build(node: Broken) -> None:
    engine = node.engine()
    with full_disk(node, "/opt/sglang/releases", 64):
        outcome = node.deploy(extra={**FOURTH, "preflight_release_gib": 0})
        left = node.run("ls -A /opt/sglang/releases | grep '^[.]' || true")
    ends_well(outcome, cause=NO_SPACE, remedy="Remedy: free space")
    assert left == "", "what cannot be used must not keep the disk full"
    untouched(node, engine)


@pytest.mark.faults_core
@pytest.mark.fault("disk-full-switching")
def test_the_disk_is_full_at_the_switch(node: Broken) -> None:
    engine = node.engine()
    with full_disk(node, "/etc/sglang", 1):
        outcome = node.deploy(extra=node.other())
    ends_well(outcome, cause=NO_SPACE, remedy="Remedy: free space")
    assert outcome.says("the engine was not touched"), outcome.output
    untouched(node, engine)
    settled(node)


@pytest.mark.faults_core
@pytest.mark.fault("unit-masked")
def test_the_unit_is_masked_while_serving(node: Broken) -> None:
    engine = node.engine()
    unit = "/etc/systemd/system/sglang.service"
    node.run(f"cp -a {unit} /run/unit; ln -sf /dev/null {unit}; systemctl daemon-reload")
    ends_well(node.deploy(), cause="unit sglang.service is masked", remedy="systemctl unmask")
    untouched(node, engine)
    # The operator does as told: that takes the link away, and the unit with it.
    node.run("systemctl unmask sglang 2>/dev/null; rm /run/unit")
    mended(node)


@pytest.mark.fault("journal-unavailable")
def test_the_journal_is_not_there(node: Broken) -> None:
    """An upgrade without it: nothing to follow, and nothing hangs for want of it."""
    units = "systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket"
    node.run(
        f"systemctl stop {units} systemd-journald 2>/dev/null; systemctl mask --runtime {units}"
    )
    try:
        untouched(node, node.engine())
        node.wanted = node.other()
        mended(node)
    finally:
        node.run(f"systemctl unmask --runtime {units}; systemctl start {units} systemd-journald")


@pytest.mark.fault("clock-jump")
def test_the_clock_jumps(node: Broken) -> None:
    """The node's clock is this machine's: it is moved for the programs of the product alone."""
    engine = node.engine()
    node.run(
        f"mkdir {PAST}; cd {PAST}; printf '%s\\n' 'import time' 'real = time.time' "
        "'time.time = lambda: real() - 5 * 365 * 86400' > sitecustomize.py; "
        f"printf '#!/bin/sh\\nPYTHONPATH={PAST} exec /usr/bin/python3 \"$@\"\\n' > python; "
        "chmod +x python"
    )
    try:
        past = {**node.wanted, "ansible_python_interpreter": f"{PAST}/python"}
        assert node.run(f"{PAST}/python -c 'import time; print(int(time.time()))'") < node.run(
            "date +%s"
        )
        outcome = node.deploy(extra=past)
        assert (outcome.code, outcome.changed) == (0, 0), outcome.output
        node.wanted = node.other()
        outcome = node.deploy(extra={**node.wanted, "ansible_python_interpreter": f"{PAST}/python"})
        assert outcome.code == 0, outcome.output
    finally:
        node.run(f"rm -r {PAST}")
    assert node.engine() != engine
    settled(node)
    back = node.play("rollback")
    assert back.code == 0, back.output
    node.wanted = node.other()
