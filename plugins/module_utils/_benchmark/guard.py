# SPDX-License-Identifier: Apache-2.0
"""Puts back the launch that served, when a benchmark ends without doing so itself.

Before a benchmark first serves another setting it arms the guard: a unit of its own on the node,
with a copy of this code, and a lease that every step of the benchmark renews. When the lease runs
out (the controller was killed, SSH is lost) or the machine was started anew meanwhile, the guard
restores the recorded launch and starts it. A configuration that is none of the benchmark's own is
somebody else's deployment and is left alone.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _launches, _release, _switch
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.pending import (
    PENDING,
    RESTORED,
    STATE,
    UNIT,
    UNITS,
    GuardError,
    Pending,
    boot,
    load,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import service

__all__ = [
    "MARGIN",
    "STATE",
    "UNIT",
    "GuardError",
    "Pending",
    "arm",
    "copy_code",
    "disarm",
    "load",
    "renew",
    "restore",
    "watch",
]

MARGIN = 60.0
"""Seconds between the longest time that a step takes and the end of its lease."""
_CODE = "guard"
_PACKAGE = "ansible_collections.sm120.sglang.plugins.module_utils"
_LOOK_SECONDS = 2.0
_COMMAND_SECONDS = 60.0

_UNIT_TEXT = """\
# Written by a benchmark; gone when it ends.
[Unit]
Description=Puts the engine's launch back when a benchmark is interrupted

[Service]
Type=exec
ExecStart={python} -B {code}
Restart=on-failure
RestartSec=30

[Install]
WantedBy=multi-user.target
"""


def arm(state: Path, pending: Pending, seconds: float, units: Path = UNITS) -> None:
    """Have the node put `pending.original` back in `seconds`, unless it is renewed or disarmed.

    A guard that is armed already learns the further launches and gets the new lease.

    Raises:
        GuardError: The launch to put back is not recorded, or the unit does not start.
    """
    try:
        _launches.load_files(Path(pending.config), pending.original)
    except _launches.LaunchRecordError as error:
        raise GuardError(f"there would be nothing to put back: {error}") from error
    known = load(state)
    if known is not None and known.original != pending.original:
        raise GuardError("another benchmark is being put back on this node; wait for its end")
    before = known.launches if known is not None else ()
    launches = (*before, *(one for one in pending.launches if one not in before))
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    lease = {"launches": launches, "boot": boot(), "until": time.monotonic() + seconds}
    _write(state / PENDING, {**asdict(known or pending), **lease})
    (state / RESTORED).unlink(missing_ok=True)
    if known is None:
        code = state / _CODE
        copy_code(code)
        unit = _UNIT_TEXT.format(python=sys.executable, code=code)
        (units / UNIT).write_text(unit, encoding="utf-8")
        _systemctl("daemon-reload")
        _systemctl("enable", UNIT)
    # Also where it is armed already: it may have been stopped by hand.
    _systemctl("start", UNIT)


def renew(state: Path, seconds: float) -> None:
    """Let the lease end in `seconds` from now.

    Raises:
        GuardError: The node has put the launch back already.
    """
    known = load(state)
    if known is None or known.over:
        raise GuardError(
            "the node has put back the launch that served, because the benchmark did not go on in "
            "time, or somebody deployed meanwhile"
        )
    _write(state / PENDING, {**asdict(known), "boot": boot(), "until": time.monotonic() + seconds})


def disarm(state: Path, units: Path = UNITS) -> bool:
    """Take the guard away; what serves is right. Returns whether there was one."""
    if not (state / PENDING).exists() and not (units / UNIT).exists():
        return False
    # Without the file the guard does nothing, whatever becomes of the rest.
    (state / PENDING).unlink(missing_ok=True)
    _systemctl("disable", UNIT, check=False)
    if os.environ.get("SM120_BENCHMARK_GUARD") != "1":
        _systemctl("stop", UNIT, check=False)
    (units / UNIT).unlink(missing_ok=True)
    shutil.rmtree(state / _CODE, ignore_errors=True)
    _systemctl("daemon-reload", check=False)
    return True


def restore(state: Path, why: str, units: Path = UNITS) -> bool:
    """Put back what served, start it, and take the guard away.

    Args:
        state: The guard's folder.
        why: For the note that the next deployment reads; empty for none.
        units: systemd's folder of units.

    Returns:
        Whether the engine was restarted; False where it was not necessary, or not ours to do.

    Raises:
        GuardError: It is not recorded, or the switch fails; the guard stays.
    """
    pending = load(state)
    if pending is None:
        return False
    root, config = Path(pending.root), Path(pending.config)
    try:
        with _release.build_lock(root, "switching"):
            pending = load(state)  # somebody may have deployed while this waited
            if pending is None:
                return False
            changed = _put_back(pending, root, config)
            if why and changed:
                note = {"at": round(time.time()), "launch": pending.original, "why": why}
                _write(state / RESTORED, note)
            disarm(state, units)
            return changed
    except (_launches.LaunchRecordError, _switch.SwitchError, _release.ReleaseError) as error:
        raise GuardError(f"the launch that served cannot be put back: {error}") from error


def _put_back(pending: Pending, root: Path, config: Path) -> bool:
    record, files = _launches.load_files(config, pending.original)
    try:
        text = (config / _launches.ENVIRONMENT).read_text(encoding="utf-8")
    except OSError:
        text = ""
    if _launches.launch_of(text) not in (pending.original, *pending.launches):
        return False
    unit = service.read_unit(pending.unit)
    if (
        unit["active_state"] == "active"
        and unit["launch"] == pending.original
        and not _switch.different(files)
    ):
        return False
    node = _switch.Node(root, pending.unit, pending.user)
    wanted = _switch.Wanted(str(record["release"]), tuple(files), _left_over(files, config))
    _switch.switch(node, wanted, config, restart=True, drain=True)
    return True


def _left_over(files: Iterable[_launches.File], config: Path) -> tuple[str, ...]:
    """The file of secrets, where the launch that served had none."""
    secrets = str(config / "secrets.yaml")
    return () if secrets in {entry.path for entry in files} else (secrets,)


def watch(state: Path) -> int:
    """The unit's program: wait for the end of the lease, then put back. Returns its exit status."""
    while True:
        pending = load(state)
        if pending is None:
            return 0
        if pending.over:
            break
        time.sleep(min(_LOOK_SECONDS, max(0.1, pending.until - time.monotonic())))
    why = "the machine was started anew" if pending.boot != boot() else "nobody went on with it"
    print(f"a benchmark is over: {why}; {pending.original} is put back", flush=True)
    restarted = restore(state, why)
    print("restarted" if restarted else "nothing had to be put back", flush=True)
    return 0


def copy_code(folder: Path) -> None:
    """Write this module, and all of the product's that it needs, so that they run by themselves."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, module in sorted(sys.modules.items()):
        if name != _PACKAGE and not name.startswith(f"{_PACKAGE}."):
            continue
        path = folder / Path(*name.split("."))
        path = path / "__init__.py" if hasattr(module, "__path__") else path.with_suffix(".py")
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            source = inspect.getsource(module)
        except OSError:  # an empty file
            source = ""
        path.write_text(source, encoding="utf-8")
    start = (
        "import os, sys\n"
        "from pathlib import Path\n"
        'os.environ["SM120_BENCHMARK_GUARD"] = "1"  # it cannot stop itself\n'
        f"from {_PACKAGE}._benchmark import guard\n"
        "sys.exit(guard.watch(Path(__file__).resolve().parents[1]))\n"
    )
    (folder / "__main__.py").write_text(start, encoding="utf-8")


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def _systemctl(*words: str, check: bool = True) -> None:
    try:
        done = subprocess.run(
            ["systemctl", *words],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GuardError(f"systemctl {' '.join(words)}: {error}") from error
    if check and done.returncode != 0:
        raise GuardError(f"systemctl {' '.join(words)}: {done.stderr.strip()}")
