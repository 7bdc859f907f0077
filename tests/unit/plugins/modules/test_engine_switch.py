# SPDX-License-Identifier: Apache-2.0
"""The switch with a stand-in for systemctl that notes what it was asked, and when."""

from __future__ import annotations

import grp
import os
import pwd
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _launches, _release, _switch
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import guard
from ansible_collections.sm120.sglang.plugins.module_utils._node import service
from ansible_collections.sm120.sglang.plugins.modules import engine_switch

from tests.unit.plugins.modules.switch_place import KEY, NEW, OLD, UNIT, Place


def test_the_engine_stops_with_the_old_files_and_starts_with_the_new(
    run_module: Any, place: Place
) -> None:
    (place.config / "stale.yaml").touch()
    done = run_module(engine_switch, place.arguments(NEW, "r2"))
    assert (done["release"], done["previous"], done["ended"]) == ("r2", "r1", [])
    old, new = (OLD, "unit of r1", "releases/r1"), (NEW, "unit of r2", "releases/r2")
    assert place.calls == [
        (f"stop {UNIT}", *old),
        ("daemon-reload", *new),
        (f"reset-failed {UNIT}", *new),
        (f"start --no-block {UNIT}", *new),
    ]
    assert _release.linked(place.root, "previous") == "r1"
    assert (place.config / "secrets.yaml").stat().st_mode & 0o777 == 0o600
    assert not (place.config / "stale.yaml").exists()
    assert not list(place.config.glob(".*.new"))


def test_who_waits_for_the_switch_sees_whose_start_it_is(run_module: Any, place: Place) -> None:
    """Until systemd has a process, a start looks like none: it would be made once more."""
    place.states.write_text(
        "ActiveState=inactive SubState=dead Job=7\n"
        "ActiveState=activating SubState=start Job=7\n"
        "ActiveState=active SubState=running Job=\n"
    )
    run_module(engine_switch, place.arguments(NEW, "r2"))
    said = place.log.read_text().splitlines()
    started = next(at for at, line in enumerate(said) if line.startswith("start "))
    assert [line.split()[0] for line in said[started + 1 :]] == ["show"] * 3


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({}, False),
        ({"invocation_id": "planned"}, True),
        ({"launch": OLD}, True),
        # systemd started it again after a death; or before the release was built anew.
        ({"restarts": 1}, True),
        ({"started_at": 0.0}, True),
        ({"active_state": "failed"}, True),
    ],
)
def test_what_another_run_has_started_meanwhile_is_not_started_again(
    run_module: Any,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    restarts: bool,
) -> None:
    run_module(engine_switch, place.arguments(NEW, "r2"))
    place.log.unlink()
    seen = {
        "active_state": "active",
        "invocation_id": "other",
        "launch": NEW,
        "restarts": 0,
        "started_at": time.time() + 60,
    }
    monkeypatch.setattr(_switch, "read_unit", lambda _unit: {**seen, **change})
    done = run_module(engine_switch, place.arguments(NEW, "r2", planned="planned"))
    assert done["changed"] is restarts
    assert any(call[0].startswith("start") for call in place.calls) is restarts


def test_check_mode_shows_everything_but_secrets_and_touches_nothing(
    run_module: Any, place: Place
) -> None:
    foreseen = run_module(engine_switch, place.arguments(NEW, "r2"), check=True)
    assert foreseen["changed"]
    assert place.calls == []
    assert place.launch() == OLD
    assert _release.linked(place.root, "current") == "r1"
    shown = str(foreseen["diff"])
    assert "+unit of r2" in shown
    assert "current -> r2" in shown
    assert "differs, and is not shown" in shown
    assert KEY not in str(foreseen)


def test_the_diff_shows_that_a_secret_variable_changes_and_not_its_value(
    run_module: Any, place: Place
) -> None:
    old = (
        'HF_TOKEN="old-one"\nLICENSE_KEY="same-one"\nNCCL_DEBUG="WARN"\n'
        'PROXY="http://me:old-two@p/"\n'
    )
    (place.config / "engine.env").write_text(old)
    asked = place.arguments(NEW, "r2")
    asked["files"][0]["content"] = (
        old.replace("old-", "new-").replace("WARN", "INFO") + 'DB_PASSWORD="new-three"\n'
    )
    shown = str(run_module(engine_switch, asked, check=True)["diff"])
    for line in (
        "-HF_TOKEN=<hidden>\\n",
        "+HF_TOKEN=<hidden>\\n",
        "\\n LICENSE_KEY=<hidden>\\n",
        "+DB_PASSWORD=<hidden>\\n",
        '+NCCL_DEBUG="INFO"\\n',
        '+PROXY="http://<hidden>@p/"',
    ):
        assert line in shown
    assert not [value for value in ("old-", "new-", "same-one") if value in shown]


def test_without_a_restart_only_files_are_written(run_module: Any, place: Place) -> None:
    (place.config / "engine.env").chmod(0o600)
    same = place.arguments(OLD, "r1", restart=False)
    assert run_module(engine_switch, same, check=True)["changed"]
    assert run_module(engine_switch, same)["changed"]
    assert [call[0] for call in place.calls] == ["daemon-reload"]
    assert not run_module(engine_switch, same)["changed"]


def test_a_file_that_cannot_be_written_leaves_the_engine_alone(
    run_module: Any, place: Place
) -> None:
    asked = place.arguments(NEW, "r2")
    asked["files"][0]["path"] = str(place.config / "no-folder" / "engine.env")
    found = run_module(engine_switch, asked)
    assert found["failed"]
    assert found["touched"] is False
    assert "the engine was not touched" in found["msg"]
    assert place.calls == []


def test_a_start_that_systemd_refuses_says_that_the_engine_was_touched(
    run_module: Any, place: Place
) -> None:
    place.fail("start")
    found = run_module(engine_switch, place.arguments(NEW, "r2"))
    assert found["failed"]
    assert found["touched"] is True
    assert "no such luck" in found["msg"]


def test_a_release_that_was_taken_away_under_its_own_launch_is_refused(
    run_module: Any, place: Place
) -> None:
    """Where nothing else differs, it is first asked whether another run has started it."""
    run_module(engine_switch, place.arguments(NEW, "r2"))
    (place.root / "releases/r2/COMPLETE").unlink()
    found = run_module(engine_switch, place.arguments(NEW, "r2", planned="planned"))
    assert "release r2 is not complete on this node; run the deployment" in found["msg"]
    assert found["touched"] is False


def test_an_incomplete_release_is_refused(run_module: Any, place: Place) -> None:
    (place.root / "releases/r2/COMPLETE").unlink()
    found = run_module(engine_switch, place.arguments(NEW, "r2"))
    assert "release r2 is not complete on this node; run the deployment" in found["msg"]
    assert (found["touched"], place.calls, place.launch()) == (False, [], OLD)


def record(place: Place, launch: str, release: str) -> None:
    names = ("engine.env", "sglang.service", "secrets.yaml")
    me = pwd.getpwuid(os.geteuid()).pw_name
    group = grp.getgrgid(os.getegid()).gr_name
    modes = {"engine.env": "0640", "secrets.yaml": "0600"}
    files = [
        _launches.File(
            str(place.config / name),
            modes.get(name, "0644"),
            me,
            group,
            (place.config / name).read_text(),
        )
        for name in names
    ]
    _launches.save(place.config, _launches.Launch(launch, release), files)
    _launches.mark_serving(place.config, launch)


def test_a_recorded_launch_is_restored_as_it_was(run_module: Any, place: Place) -> None:
    before = {path.name: path.read_text() for path in place.config.iterdir() if path.is_file()}
    record(place, OLD, "r1")
    run_module(engine_switch, place.arguments(NEW, "r2"))
    place.log.unlink()
    common = {key: place.arguments("", "")[key] for key in ("root", "config", "unit", "user")}
    back = {**common, "launch": OLD, "expect": NEW, "drain": False}
    assert KEY not in str(run_module(engine_switch, back, check=True))
    done = run_module(engine_switch, back)
    assert (done["release"], done["previous"]) == ("r1", "r2")
    after = {path.name: path.read_text() for path in place.config.iterdir() if path.is_file()}
    assert after == before
    # What failed is not asked to finish anything.
    assert [call[0] for call in place.calls][:3] == [
        f"stop --no-block {UNIT}",
        f"kill --signal=SIGKILL {UNIT}",
        f"stop {UNIT}",
    ]


def test_what_somebody_else_deployed_meanwhile_is_not_undone(run_module: Any, place: Place) -> None:
    record(place, OLD, "r1")
    common = {key: place.arguments("", "")[key] for key in ("root", "config", "unit", "user")}
    found = run_module(engine_switch, {**common, "launch": OLD, "expect": NEW})
    assert found["failed"]
    assert "somebody else has deployed meanwhile" in found["msg"]
    assert (found["touched"], found["foreign"]) == (False, True)
    assert place.calls == []
    stop = {**common, "state": "stopped", "expect": NEW}
    assert run_module(engine_switch, stop)["foreign"]
    assert place.calls == []


def test_stopping_stops_and_changes_no_file(run_module: Any, place: Place) -> None:
    common = {key: place.arguments("", "")[key] for key in ("root", "config", "unit", "user")}
    stop = {**common, "state": "stopped", "expect": OLD, "drain": False}
    before = {path: path.stat().st_mtime_ns for path in place.config.iterdir()}
    assert run_module(engine_switch, stop, check=True)["changed"]
    assert place.calls == []
    assert run_module(engine_switch, stop)["changed"]
    assert [call[0] for call in place.calls][-2:] == [f"stop {UNIT}", f"reset-failed {UNIT}"]
    assert {path: path.stat().st_mtime_ns for path in place.config.iterdir()} == before


def test_previous_names_what_passed_its_gate_not_what_failed(run_module: Any, place: Place) -> None:
    record(place, OLD, "r1")
    (place.root / "releases/r3").mkdir()
    (place.root / "releases/r3/COMPLETE").touch()
    run_module(engine_switch, place.arguments(NEW, "r2"))  # fails its gate: no record
    run_module(engine_switch, place.arguments("c" * 16, "r3"))
    assert _release.linked(place.root, "previous") == "r1"


@pytest.mark.parametrize("last", range(14))
def test_killed_at_any_step_a_new_launch_is_never_claimed_half_done(
    run_module: Any, place: Place, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """Whoever reads the new launch in engine.env may rely on unit and release being its own."""

    class KilledError(BaseException):
        pass

    count = [0]

    def dying(name: str) -> Callable[..., Any]:
        real = getattr(Path, name)

        def step(self: Path, *args: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] > last:
                raise KilledError
            return real(self, *args, **options)

        return step

    wanted, _secret = engine_switch.wanted_of(
        {**place.arguments(NEW, "r2"), "launch": None, "aside": []}, place.config
    )
    node = _switch.Node(place.root, UNIT, pwd.getpwuid(os.geteuid()).pw_name)
    with monkeypatch.context() as patched:
        for name in ("replace", "symlink_to", "mkdir", "unlink"):
            patched.setattr(Path, name, dying(name))
        try:
            _switch.switch(node, wanted, place.config, restart=True, drain=True)
            killed = False
        except KilledError:
            killed = True
    assert (place.root / "releases" / str(_release.linked(place.root, "current"))).is_dir()
    if place.launch() == NEW:
        assert (place.config / "sglang.service").read_text() == "unit of r2"
        assert _release.linked(place.root, "current") == "r2"
    else:
        assert killed
    # The next run finishes it.
    assert run_module(engine_switch, place.arguments(NEW, "r2"))["changed"]
    assert place.launch() == NEW
    assert _release.linked(place.root, "current") == "r2"
    assert not run_module(engine_switch, place.arguments(NEW, "r2", restart=False))["changed"]


@pytest.mark.parametrize(
    ("over", "guarded"),
    [({}, False), ({"state": "stopped"}, False), ({"guarded": True}, True)],
    ids=["deployed", "stopped", "measured"],
)
def test_only_a_benchmark_s_own_switch_leaves_its_guard(
    run_module: Any,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    over: dict[str, Any],
    guarded: bool,
) -> None:
    """Else the guard would undo what an operator does in the middle of a benchmark."""
    pending = place.root / "benchmark/pending.json"
    pending.parent.mkdir()
    pending.write_text("{}")
    monkeypatch.setattr(guard, "STATE", pending.parent)
    run_module(engine_switch, place.arguments(NEW, "r2", **over))
    assert pending.exists() is guarded


@pytest.mark.parametrize("runs", [True, False])
def test_a_switch_that_breaks_unforeseen_says_so_and_whether_the_engine_is_down(
    run_module: Any, place: Place, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError("nobody thought of it")

    monkeypatch.setattr(_switch, "switch", broken)
    monkeypatch.setattr(service, "running", lambda _unit: runs)
    found = run_module(engine_switch, place.arguments(NEW, "r2"))
    assert found["failed"]
    assert "the switch broke: ZeroDivisionError: nobody thought of it" in found["msg"]
    assert found["touched"] is not runs
