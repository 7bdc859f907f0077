# SPDX-License-Identifier: Apache-2.0
"""The guard that puts back what served: decisions in this process, and its own copy of the code.

A program that notes what it was asked stands in for systemctl; the lab uses the real one.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _launches
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import guard, pending
from ansible_collections.sm120.sglang.plugins.module_utils._node import service

SERVED, MEASURED, FOREIGN = "a" * 16, "b" * 16, "c" * 16
# No unit of the machine that runs the tests has this name: what is left of it would be ended.
UNIT = "no-such-unit-anywhere.service"
_SYSTEMCTL = """#!/bin/sh
echo "$*" >> {log}
case "$1" in show) echo ActiveState={active} ;; esac
"""


class Place:
    """A node in a folder: one release, the recorded launch that served, and systemctl."""

    def __init__(self, folder: Path) -> None:
        self.state, self.units = folder / "state", folder / "units"
        self.root, self.config, self.log = folder / "product", folder / "etc", folder / "log"
        self.bin = folder / "bin"
        for each in (self.units, self.config, self.bin, self.root / "releases/r1"):
            each.mkdir(parents=True)
        (self.root / "releases/r1/COMPLETE").touch()
        (self.root / "current").symlink_to("releases/r1")
        self.me = pwd.getpwuid(os.geteuid()).pw_name
        self.active("active")
        self.write(SERVED, "--draft")
        files = [self.file(name) for name in (UNIT, "engine.env")]
        _launches.save(self.config, _launches.Launch(SERVED, "r1"), files)
        _launches.mark_serving(self.config, SERVED)

    def active(self, state: str) -> None:
        text = _SYSTEMCTL.format(log=self.log, active=state)
        (self.bin / "systemctl").write_text(text)
        (self.bin / "systemctl").chmod(0o755)

    def write(self, launch: str, unit: str) -> None:
        (self.config / "engine.env").write_text(f"SGLANG_DEPLOY_LAUNCH={launch}\n")
        (self.config / UNIT).write_text(unit)

    def file(self, name: str) -> _launches.File:
        path = self.config / name
        group = grp.getgrgid(path.stat().st_gid).gr_name
        mode = f"{path.stat().st_mode & 0o7777:04o}"
        return _launches.File(str(path), mode, self.me, group, path.read_text())

    def pending(self, *launches: str) -> guard.Pending:
        return guard.Pending(
            original=SERVED,
            launches=launches,
            root=str(self.root),
            unit=UNIT,
            user=self.me,
            config=str(self.config),
            started=1.0,
        )

    def arm(self, *launches: str, seconds: float = 600.0) -> None:
        guard.arm(self.state, self.pending(*launches), seconds, self.units)

    @property
    def unit(self) -> str:
        return (self.config / UNIT).read_text()

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


def test_arming_needs_a_launch_to_go_back_to(place: Place) -> None:
    lost = guard.Pending(**{**vars(place.pending()), "original": FOREIGN})
    with pytest.raises(guard.GuardError, match="nothing to put back"):
        guard.arm(place.state, lost, 60, place.units)
    assert pending.read(place.state, place.units) == {"pending": {}, "restored": {}, "unit": False}
    assert place.asked == []


def test_arming_starts_a_unit_that_outlives_a_reboot(place: Place) -> None:
    place.arm(MEASURED)
    assert place.asked == [
        "daemon-reload",
        f"enable {guard.UNIT}",
        f"start {guard.UNIT}",
    ]
    assert f"-B {place.state}/guard" in (place.units / guard.UNIT).read_text()
    assert pending.read(place.state, place.units)["pending"]["launches"] == (MEASURED,)


def test_arming_again_renews_and_learns_further_launches(place: Place) -> None:
    place.arm(MEASURED, seconds=1)
    first = guard.load(place.state)
    place.arm(FOREIGN, MEASURED, seconds=600)
    second = guard.load(place.state)
    assert first is not None
    assert second is not None
    assert second.launches == (MEASURED, FOREIGN)
    assert second.until > first.until + 500


def test_a_lease_that_is_over_cannot_be_renewed(place: Place) -> None:
    place.arm(MEASURED, seconds=600)
    guard.renew(place.state, 900)
    place.arm(MEASURED, seconds=-1)
    with pytest.raises(guard.GuardError, match="has put back"):
        guard.renew(place.state, 600)
    guard.disarm(place.state, place.units)
    with pytest.raises(guard.GuardError, match="has put back"):
        guard.renew(place.state, 600)


def test_another_start_of_the_machine_ends_every_lease(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.arm(MEASURED)
    known = guard.load(place.state)
    assert known is not None
    assert not known.over
    for module in (guard, pending):
        monkeypatch.setattr(module, "boot", lambda: "another")
    assert known.over


@pytest.mark.parametrize("left", [MEASURED, SERVED], ids=["switched", "half switched"])
def test_what_served_is_put_back_and_started(place: Place, left: str) -> None:
    place.arm(MEASURED)
    place.write(left, "--no-draft")
    (place.config / "secrets.yaml").write_text("api-key: x")
    assert guard.restore(place.state, "why", place.units)
    assert place.unit == "--draft"
    assert f"LAUNCH={SERVED}" in (place.config / "engine.env").read_text()
    assert not (place.config / "secrets.yaml").exists()  # what served had none
    assert f"start --no-block {UNIT}" in place.asked
    found = pending.read(place.state, place.units)
    assert found["pending"] == {}
    assert found["restored"]["launch"] == SERVED
    assert not (place.units / guard.UNIT).exists()
    assert not (place.state / "guard").exists()
    # The records are as they were: what served is what a rollback goes back to.
    assert _launches.read(place.config)["serving"] == SERVED


def test_somebody_else_s_deployment_is_left_alone(place: Place) -> None:
    place.arm(MEASURED)
    place.write(FOREIGN, "--other")
    assert not guard.restore(place.state, "why", place.units)
    assert place.unit == "--other"
    assert f"start --no-block {UNIT}" not in place.asked
    assert pending.read(place.state, place.units) == {"pending": {}, "restored": {}, "unit": False}


def test_an_engine_that_serves_it_already_is_not_restarted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.arm(MEASURED)
    seen = {"active_state": "active", "launch": SERVED}
    monkeypatch.setattr(service, "read_unit", lambda _unit: seen)
    assert not guard.restore(place.state, "why", place.units)
    assert f"start --no-block {UNIT}" not in place.asked
    assert not (place.units / guard.UNIT).exists()


def test_disarming_where_nothing_is_armed_asks_systemd_nothing(place: Place) -> None:
    assert not guard.disarm(place.state, place.units)
    assert place.asked == []


def test_damaged_state_is_told(place: Place) -> None:
    place.state.mkdir()
    (place.state / "pending.json").write_text("{")
    with pytest.raises(guard.GuardError, match="cannot be read"):
        guard.load(place.state)


def test_the_unit_s_own_copy_of_the_code_puts_back_by_itself(place: Place) -> None:
    """As systemd runs it: nothing of the controller, of Ansible or of this repository is there."""
    place.arm(MEASURED)
    place.write(MEASURED, "--no-draft")
    state = json.loads((place.state / "pending.json").read_text())
    state["until"] = time.monotonic() + 1.5
    (place.state / "pending.json").write_text(json.dumps(state))
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(place.state / "guard")],
        env={"PATH": f"{place.bin}:/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nobody went on with it" in done.stdout
    assert place.unit == "--draft"
    assert pending.read(place.state, place.units)["restored"]["why"] == "nobody went on with it"
    # It cannot stop the unit that it runs in.
    assert f"stop {guard.UNIT}" not in place.asked


def test_an_unfinished_benchmark_without_a_lease_left_ends_the_unit(place: Place) -> None:
    place.arm(MEASURED)
    (place.state / "pending.json").unlink()
    assert guard.watch(place.state) == 0
