# SPDX-License-Identifier: Apache-2.0
"""Decisions about a rollback by hand: to which launch, from which, and what if that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._lifecycle import (
    complete,
    downtime,
    incomplete,
    runs,
)


def crashed(node: Mapping[str, Any]) -> bool:
    """Whether an engine that does not run died by itself, and was not stopped.

    systemd counts restarts since somebody started the unit. A plain `systemctl stop` makes the unit
    failed as well: SGLang ends itself by SIGKILL when it has drained.
    """
    unit = node["unit"]
    if unit["active_state"] == "active":
        return False
    if unit.get("restarts", 0) > 0 or str(unit.get("sub_state", "")).startswith("auto-restart"):
        return True
    return unit["active_state"] == "failed" and not unit.get("stop_asked", False)


def left(node: Mapping[str, Any]) -> dict[str, str]:
    """What a rollback by hand leaves: `launch`, that runs or ran last, and its `release`."""
    known = node["launches"]
    launch = runs(node) or known.get("configured", "")
    record = known["records"].get(launch, {})
    return {"launch": launch, "release": record.get("release") or node["releases"]["current"]}


def return_target(node: Mapping[str, Any], failed: str) -> str:
    """The launch to put back when that of a rollback by hand fails; empty without one.

    It is the one that ran until then, or until an interrupted run, if it has ever passed its gate.
    """
    ran = runs(node)
    if ran == failed:
        ran = _unfinished(node, ran)
    return ran if ran != failed and complete(node, ran) else ""


def _failed_at(node: Mapping[str, Any], launch: str) -> float:
    """When a launch failed, if that was after its last passed gate; else 0.0."""
    passed = float(node["launches"]["records"][launch]["gated_at"])
    at = [
        float(entry["at"])
        for entry in node["failures"]
        if entry["launch"] == launch and not entry.get("by_hand")
    ]
    return max((one for one in at if one > passed), default=0.0)


def _unfinished(node: Mapping[str, Any], launch: str) -> str:
    """What an earlier rollback by hand to a launch left, if that was interrupted; else empty.

    The log of what is left is kept first, the link `serving` is moved last, after the gate.
    """
    known = node["launches"]
    serving, records = known["serving"], known["records"]
    if launch == serving or serving not in records or not complete(node, launch):
        return ""
    began = [
        float(entry["at"])
        for entry in node["failures"]
        if entry["launch"] == serving and entry.get("by_hand")
    ]
    passed = float(records[serving]["gated_at"])
    begun = any(at > passed for at in began) and not _failed_at(node, launch)
    return str(serving) if begun else ""


def choose(
    node: Mapping[str, Any],
    wanted: str = "",
    running: str | None = None,
    dead: bool | None = None,
) -> dict[str, Any]:
    """Decide what a rollback by hand goes back to.

    One that was interrupted before the gate's verdict is finished: to what runs, or ran last.

    The launch that passed last, unless it is what runs, or failed since; else the one before it; of
    two that failed since, the one that failed first.
    Whatever runs, the link `serving` only says which launch passed last: another one may have been
    started since and never proved, or nothing runs. A launch that has crashed has failed, though
    no gate says so.

    Args:
        node: The reading.
        wanted: A release's id or a launch's digest; empty for what served.
        running: The launch that runs, of an engine over several nodes on all of them; what runs
            on this node where it is not given.
        dead: Whether the engine crashed, on any of its nodes; this one's where it is not given.

    Returns:
        `launch` and `release`, or `error`, one sentence that names what there is; `passed_over`,
        why another one that would come first is not taken; `unfinished`, the launch that an
        interrupted rollback to this one left; `restart`, whether the engine has to be started;
        `crashed`, whether what is left died by itself.
    """
    known = node["launches"]
    records: Mapping[str, Any] = known["records"]
    now, passed_over = runs(node) if running is None else running, ""
    there = [record for name, record in records.items() if name != now and complete(node, name)]
    usable = [record for record in there if not incomplete(node, record["launch"])]
    usable.sort(key=lambda record: float(record["gated_at"]), reverse=True)
    names = ", ".join(f"{record['release']} (launch {record['launch']})" for record in usable)
    have = f"available: {names}" if names else "no other launch has passed its gate on this node"
    last = now or str(known.get("configured", ""))
    died = crashed(node) if dead is None else dead
    unfinished = "" if died else _unfinished(node, last)
    if unfinished and wanted in ("", last, records[last]["release"]):
        found = [records[last]]
    elif wanted:
        found = [r for r in usable if wanted in (r["release"], r["launch"])]
        if not found and wanted in (now, records.get(now, {}).get("release")):
            return _refuse(f"{wanted} is what runs; {have}")
        broken = [r["launch"] for r in there if wanted in (r["release"], r["launch"])]
        if not found and broken:
            return _refuse(f"{incomplete(node, broken[0])}; {have}")
        if not found:
            return _refuse(f"there is no launch of {wanted} to go back to; {have}")
    else:
        order = [known["serving"], known["before"]]
        found = [record for name in order for record in usable if record["launch"] == name]
        # Stable: of two that did not fail, the one that passed last.
        fell = str(known.get("configured", "")) if died else ""
        found.sort(
            key=lambda r: float("inf") if r["launch"] == fell else _failed_at(node, r["launch"])
        )
        broken = [r["launch"] for r in there if r["launch"] in order and r not in usable]
        passed_over = "; ".join(incomplete(node, launch) for launch in broken)
        if not found and passed_over:
            return _refuse(f"{passed_over}; {have}")
        if not found:
            hint = "; name one with -e rollback_release=..." if names else ""
            return _refuse(f"there is nothing to go back to; {have}{hint}")
    launch = found[0]["launch"]
    return {
        "launch": launch,
        "release": found[0]["release"],
        "error": "",
        "passed_over": passed_over,
        "unfinished": unfinished if launch == last else "",
        "restart": launch != now,
        "crashed": died,
    }


def rollback_plan(node: Mapping[str, Any], choice: Mapping[str, Any]) -> list[str]:
    """The lines of a rollback's plan.

    Args:
        node: The reading.
        choice: What `choose` returned, without an error.
    """
    records, now = node["launches"]["records"], left(node)
    goal = f"release {choice['release']} (launch {choice['launch']})"
    if choice["unfinished"]:
        old = records[choice["unfinished"]]
        first = (
            f"a rollback from release {old['release']} (launch {old['launch']}) was begun and not "
            "finished; this run finishes it"
        )
    elif now["launch"] == choice["launch"]:
        first = f"{goal} crashed" if choice["crashed"] else "nothing runs"
    else:
        how = "crashed and is left" if choice["crashed"] else "is left"
        first = f"release {now['release']} (launch {now['launch'] or 'none'}) {how}"
    over = f"; {choice['passed_over']}" if choice["passed_over"] else ""
    if not choice["restart"]:
        return [first, f"{goal} runs and is gated{over}", "the engine does not restart"]
    time_down = downtime(node, choice["launch"])
    restarts = f"the engine RESTARTS{f', {time_down}' if time_down else ''}"
    return [first, f"{goal} is restored and gated{over}", restarts]


def reaches(node: Mapping[str, Any], failed: Sequence[str]) -> dict[str, Any]:
    """The launch that a rollback by hand reaches by itself once launches failed and were stopped.

    Args:
        node: The reading from before.
        failed: Their digests.

    Returns:
        Its record; empty where there is only what failed.
    """
    fallen = [*failed, *([str(node["launches"]["configured"])] if crashed(node) else [])]
    now = [{"launch": launch, "at": float("inf")} for launch in fallen]
    found = choose({**node, "failures": [*node["failures"], *now]}, running="", dead=False)
    if found["error"] or found["launch"] in fallen:
        return {}
    return dict(node["launches"]["records"][found["launch"]])


def _refuse(sentence: str) -> dict[str, Any]:
    nothing = {"launch": "", "release": "", "passed_over": "", "unfinished": "", "restart": True}
    return {**nothing, "crashed": False, "error": sentence}
