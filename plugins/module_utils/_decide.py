# SPDX-License-Identifier: Apache-2.0
"""Decisions: what a node is against what it should be, as a list of differences.

Every function takes the reading of `node_facts` and desired values, and returns differences. A
role acts on its own differences only; check mode prints them all.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.sm120.sglang.plugins.module_utils._node import parts
from ansible_collections.sm120.sglang.plugins.module_utils._node.service import covers
from ansible_collections.sm120.sglang.plugins.module_utils._release import needs_building
from ansible_collections.sm120.sglang.plugins.module_utils._stack import version_key

GIB = 1 << 30


class Difference(TypedDict):
    """One thing that is not as it should be.

    Attributes:
        item: What, in a few words.
        reason: Why it has to change.
        restart: Whether the engine has to restart for it.
    """

    item: str
    reason: str
    restart: bool


class Verdict(TypedDict):
    """The outcome of one preflight check: `ok`, `warn` or `fail`, what was read, what to do."""

    id: str
    verdict: str
    read: str
    remedy: str


def _difference(item: str, reason: str, restart: bool = False) -> Difference:
    return {"item": item, "reason": reason, "restart": restart}


def release(node: Mapping[str, Any], wanted: str) -> list[Difference]:
    """Decide whether a release has to be built.

    Args:
        node: The reading.
        wanted: The release's id.

    Returns:
        At most one difference, plus one for leftovers of an interrupted run.
    """
    seen = node["releases"]
    found = []
    if wanted not in seen["complete"]:
        found.append(_difference(f"release {wanted}", "not on this node", restart=True))
    elif seen["drift"].get(wanted):
        edits = seen["drift"][wanted]
        told = "; ".join(f"{edit['file']}: {edit['what']}" for edit in edits[:3])
        # What was there when the engine started, it may have loaded.
        loaded = any(0.0 < edit["since"] < node["unit"]["started_at"] for edit in edits)
        found.append(
            _difference(
                f"release {wanted}",
                f"{len(edits)} file(s) not as built: {told}",
                restart=loaded or needs_building(edits),
            )
        )
    if not found and seen["unfinished"]:
        found.append(
            _difference(
                f"leftovers {', '.join(seen['unfinished'])}", "an earlier run was interrupted"
            )
        )
    return found


def models(node: Mapping[str, Any], wanted: Iterable[Mapping[str, Any]]) -> list[Difference]:
    """Decide which models have to be brought or read.

    Args:
        node: The reading.
        wanted: Models as the lookup `model` gives them.

    Returns:
        One difference a model that is incomplete or not verified.
    """
    found = []
    for model in wanted:
        label = f"model {model['name']} {model['revision']}"
        seen = node["models"].get(model["name"], {"missing": ["everything"], "unverified": []})
        link = model["source"]["path"] if model["source"]["on"] == "node" else ""
        if seen["missing"]:
            found.append(
                # Of a model that an engine has loaded, it is not known what it has loaded.
                _difference(
                    label,
                    f"{len(seen['missing'])} file(s) missing or of another size: "
                    f"{_some(seen['missing'])}",
                    restart=True,
                )
            )
        elif seen["unverified"]:
            found.append(
                _difference(
                    label, f"changed since verified: {_some(seen['unverified'])}", restart=True
                )
            )
        elif seen.get("attributes"):
            found.append(_difference(label, f"another mode or owner: {_some(seen['attributes'])}"))
        elif seen.get("link", "") != link:
            found.append(_difference(label, f"points to {seen.get('link') or 'no other place'}"))
    return found


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def files(
    node: Mapping[str, Any], wanted: Iterable[Mapping[str, Any]], launch: str
) -> list[Difference]:
    """Decide which configuration files have to be written.

    Args:
        node: The reading.
        wanted: Mappings with `path`, `sha256`, `mode`, `owner`, `group`.
        launch: Digest of the wanted launch.

    Returns:
        One difference a file that is missing, has another content, mode or owner. An engine that
        claims to be the wanted launch restarts where it was started with another content.
    """
    found, unit = [], node["unit"]
    for entry in wanted:
        seen = node["files"].get(entry["path"], {"exists": False})
        if not seen["exists"]:
            found.append(_difference(entry["path"], "missing"))
            continue
        wrong = [
            f"{key} is {seen[key]}, not {entry[key]}"
            for key in ("mode", "owner", "group")
            if seen[key] != entry[key]
        ]
        # What the unit has started is looked at itself (`_decide_own.process`).
        used = (
            seen["sha256"] != entry["sha256"]
            and entry["path"] != unit["fragment_path"]
            and unit["active_state"] == "active"
            and unit["launch"] == launch
            and seen["changed_at"] < unit["started_at"]
        )
        if seen["sha256"] != entry["sha256"]:
            wrong.insert(0, "content differs")
        if used:
            wrong.insert(1, "and the engine was started with it")
        if wrong:
            found.append(_difference(entry["path"], ", ".join(wrong), restart=used))
    return found


def engine(
    node: Mapping[str, Any],
    release_id: str,
    launch: str,
    enabled: bool,
    changes: Sequence[str] = (),
) -> list[Difference]:
    """Decide whether the engine has to be switched, started or restarted.

    Args:
        node: The reading.
        release_id: The wanted release.
        launch: Digest of the wanted launch (`_launch.launch_digest`).
        enabled: Whether the unit starts at boot.
        changes: What differs from the configuration on the node, in phrases (`_changes`).

    Returns:
        The differences of link, unit and process.
    """
    unit, found = node["unit"], []
    current = node["releases"]["current"]
    if current != release_id:
        found.append(_difference("current release", f"is {current or 'none'}", restart=True))
    if unit["load_state"] == "masked":
        found.append(_difference("unit", "is masked; unmask it with systemctl unmask"))
    elif unit["active_state"] != "active":
        found.append(
            _difference("engine", f"is {unit['active_state']} ({unit['sub_state']})", restart=True)
        )
    elif unit["launch"] != launch:
        reason = "runs with another launch command, environment or release"
        found.append(_difference("engine", reason, restart=True))
    elif lost := _lost(node):
        found.append(_difference("engine", lost, restart=True))
    other = unit["active_state"] == "active" and unit["launch"] != launch
    found += [_difference("launch", phrase, restart=other) for phrase in changes]
    if unit["need_reload"]:
        found.append(_difference("unit", "changed on disk since systemd read it"))
    if enabled and unit["unit_file_state"] not in ("enabled", ""):
        found.append(_difference("unit", f"is {unit['unit_file_state']}, not enabled"))
    elif not enabled and unit["unit_file_state"] == "enabled":
        found.append(_difference("unit", "is enabled, and should not start at boot"))
    return found


def _lost(node: Mapping[str, Any]) -> str:
    """What of an engine that serves was killed without the rest of it noticing, in words."""
    unit = node["unit"]
    arguments = node.get("configured", {}).get("arguments", {})
    ranks = parts.rank_count(arguments.get("--tp-size", ""), arguments.get("--nnodes", ""))
    lost = parts.gone(unit["titles"], parts.node_rank(arguments), ranks)
    if lost and any(entry["unit"] == unit["name"] for entry in node["ports"]):
        return f"its {' and '.join(lost)} was killed, and the HTTP server has not noticed"
    return ""


def packages(node: Mapping[str, Any], wanted: Iterable[str]) -> list[Difference]:
    """Decide which Debian packages are missing."""
    have = node["system"]["packages"]
    return [
        _difference(f"package {name}", "not installed") for name in wanted if not have.get(name)
    ]


def preflight(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Verdict]:
    """Judge a node before anything on it is touched.

    Args:
        node: The reading.
        wanted: `systems` (id to version list), `stack` (the stack), `python` (chosen version or
            the reason why none), `memory` and `disks` (path to bytes needed there now),
            `address`, `port`, `unit`.

    Returns:
        One verdict a check.
    """
    system = node["system"]
    verdicts = [
        _system(system, wanted["systems"]),
        _python(wanted["python"]),
        _glibc(system, wanted["stack"]),
        _memory(system, wanted["memory"]),
        *_disks(system, wanted["disks"]),
        _port(node["ports"], wanted["address"], wanted["port"], wanted["unit"]),
    ]
    masked = node["unit"]["load_state"] == "masked"
    verdicts.append(
        _verdict(
            "unit_masked",
            "fail" if masked else "ok",
            f"unit {wanted['unit']} is {node['unit']['load_state']}",
            f"systemctl unmask {wanted['unit']}, if nobody masked it on purpose",
        )
    )
    return verdicts


def _verdict(check: str, verdict: str, read: str, remedy: str) -> Verdict:
    return {
        "id": check,
        "verdict": verdict,
        "read": read,
        "remedy": "" if verdict == "ok" else remedy,
    }


def _system(system: Mapping[str, Any], supported: Mapping[str, Sequence[str]]) -> Verdict:
    name, version = system["os"]["id"], system["os"]["version"]
    fine = version in supported.get(name, ()) and system["machine"] == "x86_64"
    known = "; ".join(f"{key} {', '.join(values)}" for key, values in supported.items())
    read = f"{name} {version} on {system['machine']}"
    return _verdict("system", "ok" if fine else "fail", read, f"supported: {known}, on x86_64")


def _python(chosen: Mapping[str, str]) -> Verdict:
    if chosen.get("error"):
        return _verdict("python", "fail", chosen["error"], "see the message")
    return _verdict("python", "ok", f"{chosen['version']} at {chosen['path']}", "")


def _glibc(system: Mapping[str, Any], stack: Mapping[str, Any]) -> Verdict:
    have, need = system["glibc"], stack["glibc"]
    fine = version_key(have) >= version_key(need)
    return _verdict(
        "glibc",
        "ok" if fine else "fail",
        f"C library {have or 'unknown'}, stack {stack['name']} needs {need}",
        "choose a stack for this system, or a newer system",
    )


def _memory(system: Mapping[str, Any], needed: int) -> Verdict:
    total = system["memory"]["total"]
    return _verdict(
        "memory",
        "ok" if total >= needed else "fail",
        f"{total / GIB:.1f} GiB of memory, {needed / GIB:.1f} GiB wanted",
        "lower preflight_memory_gib only if you know that the models fit",
    )


def _disks(system: Mapping[str, Any], needed: Mapping[str, int]) -> list[Verdict]:
    by_device: dict[int, list[str]] = {}
    for path in needed:
        by_device.setdefault(system["disks"][path]["device"], []).append(path)
    verdicts = []
    for paths in by_device.values():
        free = min(system["disks"][path]["free"] for path in paths)
        need = sum(needed[path] for path in paths)
        verdicts.append(
            _verdict(
                "disk",
                "ok" if free >= need else "fail",
                f"{' and '.join(sorted(paths))}: {free / GIB:.1f} GiB free, "
                f"{need / GIB:.1f} GiB to come",
                "free space there, or move the folder to a larger file system",
            )
        )
    return verdicts


def _port(listeners: Iterable[Mapping[str, Any]], address: str, port: int, unit: str) -> Verdict:
    for entry in listeners:
        same = entry["port"] == port and covers(entry["address"], address)
        if same and entry["unit"] != unit:
            who = f"pid {entry['pid']} ({entry['command']}, {entry['unit'] or 'no unit'})"
            return _verdict(
                "port",
                "fail",
                f"{entry['address']}:{port} is taken by "
                + (who if entry["pid"] else "a process outside this system's view"),
                "stop it, or choose another engine_port",
            )
    return _verdict("port", "ok", f"{address}:{port} is free or our engine's own", "")


def unknown_variables(
    names: Iterable[str], known: Iterable[str], roles: Iterable[str]
) -> list[str]:
    """Find mistyped variables.

    Args:
        names: Every variable name that the inventory and the command line give.
        known: The roles' public variables.
        roles: Role names; a variable that begins with one belongs to it.

    Returns:
        One sentence a variable that no role knows, with the nearest name.
    """
    public = set(known)
    prefixes = tuple(f"{role}_" for role in roles)
    found = []
    for name in sorted(set(names) - public):
        if name.startswith(("_", "ansible_", "molecule_")):
            continue
        ours = name.startswith(prefixes)
        close = difflib.get_close_matches(name, public, n=1, cutoff=0.6 if ours else 0.9)
        if ours or close:
            hint = f"; did you mean {close[0]}?" if close else ""
            found.append(f"{name}: no role has this variable{hint}")
    return found


def summary(
    differences: Mapping[str, Sequence[Difference]], serving: bool, downtime: str = ""
) -> list[str]:
    """Render a plan for people.

    Args:
        differences: Role to its differences, in the order of the play.
        serving: Whether the engine runs now.
        downtime: How long a restart takes (`_lifecycle.downtime`), empty when nobody knows.

    Returns:
        One line a difference, and one that says whether the engine restarts.
    """
    lines = [
        f"{role}: {entry['item']}: {entry['reason']}"
        for role, entries in differences.items()
        for entry in entries
    ]
    if not lines:
        return ["nothing to do"]
    restarts = any(entry["restart"] for entries in differences.values() for entry in entries)
    if serving and not restarts:
        return [*lines, "the engine goes on without a restart"]
    verb = "the engine RESTARTS" if serving else "the engine starts"
    return [*lines, f"{verb}, {downtime}" if downtime else verb]
