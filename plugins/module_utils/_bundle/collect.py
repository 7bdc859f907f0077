# SPDX-License-Identifier: Apache-2.0
"""Collects the parts of a support bundle on the node. What cannot be had is named, never raised."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._bundle.diagnosis import diagnose
from ansible_collections.sm120.sglang.plugins.module_utils._bundle.redact import (
    clean,
    secrets_of,
)
from ansible_collections.sm120.sglang.plugins.module_utils._command import run
from ansible_collections.sm120.sglang.plugins.module_utils._engine.invocation import (
    before,
    manager_selection,
    selection,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line, parse_lines
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import (
    PROPERTIES,
    parse_show,
)
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import parse_environ

Run = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs a command with a limit in seconds; status and output, both streams together."""

_SECONDS = 20.0
_CONFIG = "etc/sglang"
_KEY_LINE = re.compile(r"^\s*[\w-]+\s*:\s*(?P<value>\S.*)$", re.MULTILINE)
_MANIFESTS = ("COMPLETE", "patches.json", "stack.lock", "launch.json", "release.json")
_VERSIONS = re.compile(
    r"torch|sgl|flashinfer|triton|transformers|nvidia|cuda|numpy|xgrammar", re.IGNORECASE
)
_COMMANDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("host/uname.txt", ("uname", "-a")),
    ("host/uptime.txt", ("uptime",)),
    ("host/memory.txt", ("free", "-m")),
    ("host/disks.txt", ("df", "-h")),
    ("host/mounts.txt", ("findmnt", "-D")),
    ("host/listeners.txt", ("ss", "-ltnp")),
    ("host/pci.txt", ("lspci", "-nn")),
    ("host/modinfo-nvidia.txt", ("modinfo", "nvidia")),
    ("gpu/nvidia-smi-q.txt", ("nvidia-smi", "-q")),
    ("gpu/nvidia-smi.txt", ("nvidia-smi",)),
    ("gpu/topology.txt", ("nvidia-smi", "topo", "-m")),
)


@dataclass
class Bundle:
    """Parts by name, already without secrets, and what could not be had."""

    secrets: set[str] = field(default_factory=set)
    parts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, text: str, limit: int) -> None:
        """Add a part; of a long one its end, which is what a fault leaves."""
        if len(text) > limit:
            kept = text[-limit:].partition("\n")[2]
            text = f"[{len(text) - len(kept)} characters left out]\n{kept}"
        self.parts[name] = clean(text, self.secrets)


@dataclass(frozen=True)
class Wanted:
    """What to collect.

    `system` is the root of the file system; `lines` of the journal, `limit` characters a part;
    `given` are parts that the controller adds; `url` is where the engine answers, empty not to ask.
    `api_key` is sent there and removed everywhere.
    """

    root: str
    unit: str
    system: Path = Path("/")
    lines: int = 5000
    limit: int = 4_000_000
    given: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    api_key: str = ""


def collect(wanted: Wanted, secrets: Iterable[str] = (), runner: Run = run) -> Bundle:
    """Collect everything.

    Args:
        wanted: What.
        secrets: Values that the controller knows to be secret.
        runner: Runs commands.
    """
    bundle = Bundle({one for one in (*secrets, wanted.api_key) if one})
    shown = _command(bundle, runner, ("systemctl", "show", wanted.unit), "")
    properties = dict(line.partition("=")[::2] for line in shown.splitlines() if "=" in line)
    bundle.secrets |= known_secrets(wanted.system, properties.get("MainPID", ""))
    for name, text in wanted.given.items():
        bundle.add(name, text, wanted.limit)
    if shown:
        bundle.add("unit/show.txt", shown, wanted.limit)
    _unit(bundle, wanted, runner, properties)
    _journal(bundle, wanted, runner)
    _files(bundle, wanted)
    for name, command in _COMMANDS:
        _add_command(bundle, wanted, runner, name, command)
    _server_info(bundle, wanted)
    if bundle.problems:
        bundle.parts["problems.txt"] = clean("\n".join(bundle.problems) + "\n", bundle.secrets)
    return bundle


def known_secrets(system: Path, pid: str) -> set[str]:
    """Secrets that the node itself keeps: credentials, environment files, the engine's process."""
    found: set[str] = set()
    config = system / _CONFIG
    # An older launch may have had another key, and the journal still has its starts.
    for path in sorted([*config.glob("*"), *config.glob("launches/*/*")]):
        text = _text(path)
        if path.name.startswith("secrets"):
            for match in _KEY_LINE.finditer(text):
                value = match["value"].strip()
                try:
                    loaded = json.loads(value)
                except ValueError:
                    loaded = value.strip("'\"")
                found.add(str(loaded))
        elif path.suffix == ".env":
            pairs = (line.partition("=") for line in text.splitlines())
            found |= secrets_of({name.strip(): value.strip("\"' ") for name, _, value in pairs})
    if pid.isdigit() and pid != "0":
        try:
            content = (system / "proc" / pid / "environ").read_bytes()
        except OSError:
            content = b""
        found |= secrets_of(parse_environ(content))
    return {value for value in found if value}


def _unit(bundle: Bundle, wanted: Wanted, runner: Run, properties: Mapping[str, str]) -> None:
    _add_command(
        bundle, wanted, runner, "unit/unit.txt", ("systemctl", "cat", "--no-pager", wanted.unit)
    )
    _add_command(
        bundle,
        wanted,
        runner,
        "unit/status.txt",
        ("systemctl", "status", "--no-pager", "-l", "-n", "0", wanted.unit),
    )
    for path in sorted((wanted.system / _CONFIG).glob("*.env")):
        bundle.add(f"unit/{path.name}", _text(path), wanted.limit)
    group = properties.get("ControlGroup", "").strip("/")
    pids: list[str] = []
    if group:
        for mount in ("sys/fs/cgroup", "sys/fs/cgroup/systemd", "sys/fs/cgroup/unified"):
            pids += _text(wanted.system / mount / group / "cgroup.procs").split()
    rows = []
    for pid in sorted(set(pids), key=int):
        words = _text(wanted.system / "proc" / pid / "cmdline").replace("\0", " ").strip()
        rows.append(f"{pid} {words}")
    if rows:
        bundle.add("unit/processes.txt", "\n".join(rows) + "\n", wanted.limit)


def _journal(bundle: Bundle, wanted: Wanted, runner: Run) -> None:
    """The unit's journal over its last starts, the kernel's, and what explains the last death."""
    base = ("journalctl", "-q", "--no-pager", "-n", str(wanted.lines), "-o", "json")
    raw = _command(bundle, runner, (*base, "-u", wanted.unit), "the unit's journal")
    kernel_raw = _command(bundle, runner, (*base, "-k"), "the kernel's log")
    lines, kernel = parse_lines(raw.splitlines()), parse_lines(kernel_raw.splitlines())
    for name, found in (("journal/unit.txt", lines), ("journal/kernel.txt", kernel)):
        text = "\n".join(f"{line.time:.3f} [{line.pid}] {line.text}" for line in found)
        bundle.add(name, f"{text}\n" if text else "nothing\n", wanted.limit)
    if not kernel:
        _add_command(bundle, wanted, runner, "journal/dmesg.txt", ("dmesg", "-T"))
    shown = _command(
        bundle,
        runner,
        ("systemctl", "show", "--timestamp=unix", "-p", ",".join(PROPERTIES), wanted.unit),
        "",
    )
    try:
        state = parse_show(wanted.unit, shown)
    except ValueError as error:
        bundle.problems.append(str(error))
        return

    def start(invocation: str) -> list[Line]:
        command = ("journalctl", *selection(invocation, wanted.lines))
        text = _command(bundle, runner, command, f"the journal of start {invocation}")
        return parse_lines(text.splitlines())

    def previous() -> str:
        command = ("journalctl", *manager_selection(wanted.unit))
        told = _command(bundle, runner, command, "systemd's own lines")
        return before(told.splitlines(), state.invocation_id)

    said = diagnose(state, kernel, start, previous, _version(wanted))
    bundle.add("diagnosis.txt", "\n".join(said) + "\n", wanted.limit)


def _version(wanted: Wanted) -> str:
    """SGLang's release that `current` has, empty where it has none."""
    place = wanted.system / wanted.root.lstrip("/") / "current"
    for path in place.glob("venv/lib/python3.*/site-packages/sglang-*.dist-info"):
        return path.name.removeprefix("sglang-").removesuffix(".dist-info")
    return ""


def _files(bundle: Bundle, wanted: Wanted) -> None:
    system, root = wanted.system, wanted.system / wanted.root.lstrip("/")
    for name in ("etc/os-release", "proc/driver/nvidia/version", "proc/cmdline", "proc/meminfo"):
        if text := _text(system / name):
            bundle.add(f"host/{name.rsplit('/', 1)[-1]}.txt", text, wanted.limit)
    for link in ("current", "previous"):
        place = root / link
        if not place.is_symlink():
            bundle.problems.append(f"{wanted.root}/{link}: no such release")
            continue
        target = str(place.readlink())
        bundle.add(f"release/{link}.txt", f"{target}\n", wanted.limit)
        for name in _MANIFESTS:
            if text := _text(place / name):
                bundle.add(f"release/{link}/{name}", text, wanted.limit)
        packages = sorted(
            path.name.removesuffix(".dist-info")
            for path in place.glob("venv/lib/python3.*/site-packages/*.dist-info")
            if _VERSIONS.search(path.name)
        )
        if packages:
            bundle.add(f"release/{link}/packages.txt", "\n".join(packages) + "\n", wanted.limit)
    releases = root / "releases"
    if releases.is_dir():
        names = "\n".join(sorted(path.name for path in releases.iterdir()))
        bundle.add("release/all.txt", f"{names}\n", wanted.limit)


def _server_info(bundle: Bundle, wanted: Wanted) -> None:
    """What the engine says of itself; it returns its keys too, which are known here and removed."""
    if not wanted.url:
        return
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in ("/server_info", "/model_info"):
        request = urllib.request.Request(f"{wanted.url}{path}")  # noqa: S310 - the role's own URL
        if wanted.api_key:
            request.add_header("Authorization", f"Bearer {wanted.api_key}")
        try:
            with opener.open(request, timeout=5) as answer:
                bundle.add(
                    f"engine{path}.json",
                    answer.read(wanted.limit).decode(errors="replace"),
                    wanted.limit,
                )
        except (urllib.error.URLError, OSError, ValueError) as error:
            bundle.problems.append(f"{wanted.url}{path}: {error}")


def _add_command(
    bundle: Bundle, wanted: Wanted, runner: Run, name: str, command: Sequence[str]
) -> None:
    status, text = runner(command, _SECONDS)
    if status in (126, 127):
        bundle.problems.append(f"{' '.join(command)}: {text.strip()}")
    elif text:
        note = "" if status == 0 else f"[exit status {status}]\n"
        bundle.add(name, note + text, wanted.limit)


def _command(bundle: Bundle, runner: Run, command: Sequence[str], what: str) -> str:
    status, text = runner(command, _SECONDS)
    if status != 0:
        said = text.strip().splitlines()
        label = what or " ".join(command[:2])
        bundle.problems.append(f"{label}: exit status {status} {said[-1] if said else ''}".rstrip())
    return text if status == 0 else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
