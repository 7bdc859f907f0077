# SPDX-License-Identifier: Apache-2.0
"""The switch from one launch to another, on the node, in one go.

What can fail for want of space or a user happens before the engine stops. What happens while
nothing serves takes milliseconds. Killed at any point, it leaves a node that the next reading
understands: the launch's digest stands in `engine.env`, which is replaced last.
"""

from __future__ import annotations

import difflib
import grp
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _launches, _os_errors, _release
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.redact import hide_assigned
from ansible_collections.sm120.sglang.plugins.module_utils._launches import (
    ENVIRONMENT,
    File,
    launch_of,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node import (
    overrides,
    parts,
    processes,
    service,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import read_unit

_KILL_SECONDS = 10.0
_SETTLE_SECONDS = 10.0
_POLL_SECONDS = 0.05
_COMMAND_SECONDS = 60.0
_UNTOUCHED = "the engine was not touched"
_MEMORY_REMEDY = (
    "A start without that memory would die after it had loaded the weights, so none was made. "
    "Remedy: end who holds it; held by nobody that the driver names it takes a reset of the GPU "
    "(`nvidia-smi --gpu-reset -i N`) or a reboot; then deploy again"
)


class SwitchError(RuntimeError):
    """The switch cannot be made.

    Attributes:
        touched: Whether the old engine was stopped for it.
        memory_lost: Whether that is because its GPU memory is not back; then no launch can start.
    """

    def __init__(self, message: str, touched: bool = False, memory_lost: bool = False) -> None:
        super().__init__(message)
        self.touched = touched
        self.memory_lost = memory_lost


@dataclass(frozen=True)
class Wanted:
    """What shall run.

    Attributes:
        release: The release.
        files: Its configuration files.
        absent: Files of ours that must not be.
        aside: Drop-ins and units of others that systemd shall ignore; they keep their content.
    """

    release: str
    files: tuple[File, ...]
    absent: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    """Where the switch happens.

    Attributes:
        root: The product's folder.
        unit: The engine's unit.
        user: The engine's user.
        memory_seconds: How long to wait for GPU memory.
    """

    root: Path
    unit: str
    user: str
    memory_seconds: float = 60.0


@dataclass
class Report:
    """What happened; times in seconds.

    `stopping` is the time from asking the engine to stop until its last process was gone, in which
    running requests were finished; `between` the time from there to the start of the new one.
    `lost` says that the old engine did not give its GPU memory back (`processes.memory_lost`).
    """

    stopping: float = 0.0
    between: float = 0.0
    ended: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lost: bool = False

    def memory_refusal(self) -> str:
        """Why nothing may be started on this node now, and what to do; only where `lost`."""
        return f"{self.warnings[-1]}. {_MEMORY_REMEDY}"


def different(files: Iterable[File]) -> list[File]:
    """Those that are missing on this node, or differ in content, mode or owner."""
    return [entry for entry in files if not _same(entry)]


def _same(entry: File) -> bool:
    path = Path(entry.path)
    try:
        status = path.lstat()
        return (
            path.read_text(encoding="utf-8") == entry.content
            and not path.is_symlink()
            and f"{status.st_mode & 0o7777:04o}" == entry.mode
            and (status.st_uid, status.st_gid) == (_uid(entry.owner), _gid(entry.group))
        )
    except (OSError, UnicodeDecodeError, KeyError):
        return False


def diff(files: Iterable[File], hidden: Iterable[str] = ()) -> list[dict[str, str]]:
    """Ansible's diff of files that would be written; those named in `hidden` without content.

    In the others, values of variables with a secret's name are hidden after the comparison, so that
    a new value is still seen to be one.
    """
    secret, found = set(hidden), []
    for entry in files:
        try:
            old = Path(entry.path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            old = ""
        if entry.path in secret:
            same = old == entry.content
            lines = [f" content {'unchanged' if same else 'differs, and is not shown'}\n"]
        else:
            changes = difflib.unified_diff(
                old.splitlines(keepends=True),
                entry.content.splitlines(keepends=True),
                entry.path,
                entry.path,
            )
            lines = [hide_assigned(line) for line in changes]
        if lines:
            found.append({"prepared": "".join(lines)})
        else:
            header = f"{entry.path} ({entry.owner}:{entry.group} {entry.mode})"
            found.append({"prepared": f"{header}: mode or owner\n"})
    return found


def in_order(files: Sequence[File]) -> list[File]:
    """The order in which files are replaced: `engine.env`, which names the launch, is the last."""
    return sorted(files, key=lambda entry: (entry.stored == ENVIRONMENT, entry.path))


def goes_back_to(root: Path, config: Path, release: str) -> str:
    """The release that `previous` has to name once `release` is current.

    It is the release of the newest launch that passed its gate with another release; empty
    without one: then it is the release that was current.
    """
    known = _launches.read(config)
    for name in (_launches.SERVING, _launches.BEFORE):
        record = known["records"].get(known[name])
        if record and record["release"] != release and _complete(root, record["release"]):
            return str(record["release"])
    return ""


def _complete(root: Path, release: str) -> bool:
    return (root / "releases" / release / _release.COMPLETE).is_file()


def overtaken(node: Node, wanted: Wanted, planned: str) -> bool:
    """Whether another run has started this very launch since the start `planned` was read."""
    environment = next((entry for entry in wanted.files if entry.stored == ENVIRONMENT), None)
    # One that is not complete cannot have been started; the switch says what is wrong with it.
    if environment is None or different(wanted.files) or not _complete(node.root, wanted.release):
        return False
    unit = read_unit(node.unit)
    built = (node.root / "releases" / wanted.release / _release.COMPLETE).stat().st_mtime
    return (
        unit["active_state"] == "active"
        and unit["invocation_id"] != planned
        # By a run, not by systemd after a death; and from the tree that is there now.
        and unit["restarts"] == 0
        and unit["started_at"] > built
        and unit["launch"] == launch_of(environment.content)
        and _release.linked(node.root, "current") == wanted.release
    )


def switch(node: Node, wanted: Wanted, config: Path, *, restart: bool, drain: bool) -> Report:
    """Write what differs, make the release current, and restart the engine.

    Args:
        node: Where.
        wanted: What shall run.
        config: The configuration folder.
        restart: Whether the engine is stopped and started; without, only files are written.
        drain: Whether running requests are finished first; without, processes are killed.

    Raises:
        SwitchError: It cannot be made; with `touched` when the engine was stopped already.
    """
    if not _complete(node.root, wanted.release):
        raise SwitchError(
            f"release {wanted.release} is not complete on this node; run the deployment"
        )
    previous = goes_back_to(node.root, config, wanted.release)
    report = Report()
    # Everything that needs space is written before the engine is touched.
    prepared: list[tuple[File, Path]] = []
    try:
        # What was written before one fails is in the list, and removed below.
        prepared.extend((entry, _prepare(entry)) for entry in in_order(different(wanted.files)))
        _make_cache(node, wanted.release)
        if restart:
            began = time.monotonic()
            _stop(node, report, drain=drain)
            report.stopping = time.monotonic() - began
            if report.lost:
                raise SwitchError(report.memory_refusal(), touched=True, memory_lost=True)
    except SwitchError:
        for _entry, temporary in prepared:
            temporary.unlink(missing_ok=True)
        raise
    began = time.monotonic()
    try:
        _adopt(node, wanted, prepared, previous)
        if prepared or restart or wanted.aside or service.unread(node.unit):
            _systemctl("daemon-reload")
        if restart:
            # Starts of ours must not use up the limit that stops a crash loop.
            _systemctl("reset-failed", node.unit, check=False)
            _systemctl("start", "--no-block", node.unit)
            # The lock is kept until then: who waits for it has to see whose start this is.
            _until(lambda: service.settled(node.unit), _SETTLE_SECONDS)
    except (OSError, SwitchError) as error:
        raise SwitchError(f"the switch was not finished: {error}", touched=restart) from error
    report.between = time.monotonic() - began
    return report


def stop(node: Node, *, drain: bool) -> Report:
    """Stop the engine and everything that it left behind."""
    report = Report()
    began = time.monotonic()
    _stop(node, report, drain=drain)
    # The engine ends itself by SIGKILL when it has drained; that is no failure of the unit.
    _systemctl("reset-failed", node.unit, check=False)
    report.stopping = time.monotonic() - began
    return report


def _prepare(entry: File) -> Path:
    path = Path(entry.path)
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(entry.content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chown(temporary, _uid(entry.owner), _gid(entry.group))
        temporary.chmod(int(entry.mode, 8))
    except KeyError as error:
        raise SwitchError(f"{entry.path}: {error.args[0]}; run the deployment") from error
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SwitchError(f"{_os_errors.explain(error, path)}; {_UNTOUCHED}") from error
    return temporary


def _uid(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def _gid(name: str) -> int:
    return grp.getgrnam(name).gr_gid


def _make_cache(node: Node, release: str) -> None:
    """The unit may write there alone; without the folder it does not even start."""
    cache = node.root / "cache" / release
    if not cache.is_dir():
        try:
            cache.mkdir(parents=True, mode=0o750)
            account = pwd.getpwnam(node.user)
            os.chown(cache, account.pw_uid, account.pw_gid)
        except OSError as error:
            raise SwitchError(f"{_os_errors.explain(error, cache)}; {_UNTOUCHED}") from error


def _adopt(
    node: Node, wanted: Wanted, prepared: Sequence[tuple[File, Path]], previous: str
) -> None:
    for entry, temporary in prepared:
        if entry.stored != ENVIRONMENT:
            temporary.replace(entry.path)
    for path in wanted.absent:
        Path(path).unlink(missing_ok=True)
    for path in wanted.aside:
        overrides.set_aside(Path(path))
    _release.switch(node.root, wanted.release, previous)
    for entry, temporary in prepared:
        if entry.stored == ENVIRONMENT:
            temporary.replace(entry.path)


def _stop(node: Node, report: Report, *, drain: bool) -> None:
    try:
        uid = _uid(node.user)
    except KeyError:
        uid = -1
    releases = node.root / "releases"
    # Beside the unit's own what an earlier engine left behind: that ends below too.
    seen = processes.orphans(processes.read_processes(uid, releases), node.unit, uid)
    old = {entry.pid for entry in seen}
    gpus, holders = processes.read_gpus()
    limits = processes.memory_limits(gpus, holders, old)
    # What lacks its scheduler or detokenizer has nothing that it could finish.
    if not drain or parts.gone(parts.read(node.unit)):
        _systemctl("stop", "--no-block", node.unit, check=False)
        _systemctl("kill", "--signal=SIGKILL", node.unit, check=False)
    # systemd itself ends what is left after the unit's own TimeoutStopSec.
    _systemctl("stop", node.unit, seconds=None, check=False)
    left = processes.orphans(processes.read_processes(uid, releases), node.unit, uid)
    report.ended = [f"{entry.pid} ({entry.command})" for entry in left]
    stuck = processes.end([entry.pid for entry in left], _KILL_SECONDS) if left else []
    if stuck:
        raise SwitchError(
            f"processes of the old engine do not end: {', '.join(map(str, stuck))} (state D means "
            "that the kernel waits for a device; only a reboot helps then)",
            touched=True,
        )
    if gpus:
        mine = old | {entry.pid for entry in left}
        said, report.lost = processes.await_memory(mine, limits, node.memory_seconds)
        report.warnings += [said] if said else []


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def enable(unit: str, on: bool) -> None:
    """Have the unit start at boot, or not."""
    _systemctl("enable" if on else "disable", unit)


def _systemctl(*words: str, seconds: float | None = _COMMAND_SECONDS, check: bool = True) -> Any:
    try:
        done = subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SwitchError(
            f"systemctl {' '.join(words)} did not end within {seconds:.0f} s", touched=True
        ) from error
    if check and done.returncode != 0:
        raise SwitchError(
            f"systemctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return done
