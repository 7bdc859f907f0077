# SPDX-License-Identifier: Apache-2.0
"""Decisions about launches: whether one still has to prove itself, and what to go back to."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _prune
from ansible_collections.sm120.sglang.plugins.module_utils._decide import Difference
from ansible_collections.sm120.sglang.plugins.module_utils._release import lost, needs_building

_NAMED = 3  # of many files that are gone
# What the gate asks and which limits it has, to the variables that say so.
_ASKED = {
    name: f"health_gate_{name}"
    for name in (
        "request_timeout",
        "checks_timeout",
        "known_answer",
        "accept_length_warn",
        "accept_length_fail",
        "kv_tokens",
        "long_prompt_tokens",
        "concurrency",
        "sampling",
        "tool_call",
        "image",
        "gpu_free_mib",
    )
} | {"min_verify_steps": "health_gate_verify_steps"}


def unproved(node: Mapping[str, Any], launch: str) -> list[Difference]:
    """Decide whether the launch that runs still has to pass its whole gate.

    Args:
        node: The reading.
        launch: Digest of the wanted launch.

    Returns:
        One difference when the wanted launch runs but no record says that it passed: its
        controller was killed between start and gate, or it was started by hand.
    """
    unit, known = node["unit"], node["launches"]
    if unit["active_state"] != "active" or unit["launch"] != launch or known["serving"] == launch:
        return []
    reason = "started, but it never passed its gate; all checks are made"
    return [{"item": f"launch {launch}", "reason": reason, "restart": False}]


def interrupted_benchmark(node: Mapping[str, Any]) -> list[Difference]:
    """Decide whether a benchmark that was not finished has to be ended.

    Args:
        node: The reading.

    Returns:
        One difference when the node still waits to put back what served before a benchmark. The
        switch ends that; whether the engine restarts is told by what runs now.
    """
    pending = node["benchmark"]["pending"]
    if not pending and node["benchmark"]["unit"]:
        reason = "its guard's unit is left, and guards nothing; it is taken away"
        return [{"item": "benchmark", "reason": reason, "restart": False}]
    if not pending:
        return []
    reason = f"begun on {when(pending['started'])} and not finished; its guard is taken away"
    return [{"item": "benchmark", "reason": reason, "restart": False}]


def prune(node: Mapping[str, Any], release: str, keep: int) -> list[Difference]:
    """Decide which old releases go after the gate (`_prune.removable`), one difference each."""
    reason = f"old, {keep} stay; goes after the gate with its cache, records and wheels"
    return [
        {"item": f"release {name}", "reason": reason, "restart": False}
        for name in _prune.removable(node, release, keep)
    ]


def downtime(node: Mapping[str, Any], launch: str) -> str:
    """How long a restart will take, by what was measured on this node.

    A release's first start compiles its kernels as well, so a launch that was never measured is
    expected to take what the longest start took.

    Args:
        node: The reading.
        launch: Digest of the wanted launch.

    Returns:
        A phrase such as "about 127 s: the longest start on this node took 127 s"; empty without a
        measurement.
    """
    records = node["launches"]["records"]
    own = records.get(launch, {}).get("ready_seconds")
    if own:
        return f"about {own:.0f} s: the last start of this launch took {own:.0f} s"
    longest = max((record.get("ready_seconds") or 0.0 for record in records.values()), default=0.0)
    if not longest:
        return ""
    return f"about {longest:.0f} s: the longest start on this node took {longest:.0f} s"


def remarks(node: Mapping[str, Any], launch: str, release: str) -> list[str]:
    """What an operator should know of the wanted launch's past.

    Args:
        node: The reading.
        launch: Digest of the wanted launch.
        release: The wanted release's id.

    Returns:
        A sentence when what would be gone back to is damaged, one when its release was built
        before, one when this launch failed its last gate here, and one when it was left by hand,
        none of them when it is the one that serves; one when a benchmark's guard had to put back
        what serves.
    """
    known = node["launches"]
    restored = node["benchmark"]["restored"]
    found = []
    if restored.get("launch") == known["serving"] != "":
        found.append(
            f"a benchmark was interrupted and the node went back by itself on "
            f"{when(restored['at'])}: {restored['why']}"
        )
    if known["serving"] == launch:
        return found
    if gone := incomplete(node, known["serving"]):
        found.append(f"what a failure would go back to may not start: {gone}")
    seen = node["releases"]
    whole = release in seen["built"] and not needs_building(seen["drift"].get(release, ()))
    if whole and release != seen["current"]:
        found.append(
            f"release {release} is there since {when(seen['built'][release])}: nothing is built"
        )
    kept = [entry for entry in node["failures"] if entry["launch"] == launch]
    failed = [entry for entry in kept if not entry.get("by_hand")]
    if failed:
        last = failed[-1]
        found.append(
            f"this launch FAILED on {when(last['at'])}: {last['message'].splitlines()[0]} "
            f"(kept in {last['folder']})"
        )
    left = known["rolled_back"]
    if left.get("launch") == launch:
        by_hand = [entry["folder"] for entry in kept if entry.get("by_hand")]
        logs = f" (its log is kept in {by_hand[-1]})" if by_hand else ""
        found.append(
            f"this launch was rolled back by hand on {when(left['at'])}{logs}; this run deploys it "
            "again"
        )
    return found


def when(at: float) -> str:
    """A time in seconds since the epoch as a person reads it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def runs(node: Mapping[str, Any]) -> str:
    """The launch that runs, proved or not; empty where none does."""
    unit = node["unit"]
    return str(unit["launch"]) if unit["active_state"] == "active" else ""


def left(node: Mapping[str, Any]) -> dict[str, str]:
    """What a rollback by hand leaves: `launch`, that runs or ran last, and its `release`."""
    known = node["launches"]
    launch = runs(node) or known.get("configured", "")
    record = known["records"].get(launch, {})
    return {"launch": launch, "release": record.get("release") or node["releases"]["current"]}


def automatic_target(node: Mapping[str, Any], failed: str) -> str:
    """The launch to go back to by itself when a launch fails; empty without one.

    A launch that passed its gate before and now fails is not what changed: the node is, and an
    older launch would meet the same. Then there is nothing to go back to.
    """
    serving: str = node["launches"]["serving"]
    return serving if serving != failed and _complete(node, serving) else ""


def return_target(node: Mapping[str, Any], failed: str) -> str:
    """The launch to put back when that of a rollback by hand fails; empty without one.

    It is the one that ran until then, or until an interrupted run, if it has ever passed its gate.
    """
    ran = runs(node)
    if ran == failed:
        ran = _unfinished(node, ran)
    return ran if ran != failed and _complete(node, ran) else ""


def _complete(node: Mapping[str, Any], launch: str) -> bool:
    record = node["launches"]["records"].get(launch)
    return record is not None and record["release"] in node["releases"]["complete"]


def incomplete(node: Mapping[str, Any], launch: str) -> str:
    """What is gone from a recorded launch's release, as far as it was looked into.

    What was only edited may serve as well as it did; without a file that it had it does not start,
    or fails when somebody asks for it.

    Returns:
        A sentence; empty for one of which nothing is gone.
    """
    record = node["launches"]["records"].get(launch)
    gone = lost(node["releases"]["drift"].get(record["release"], ())) if record else []
    if not gone:
        return ""
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    told = ", ".join(gone[:_NAMED])
    return (
        f"release {record['release']} (launch {launch}) is not whole: {told}{more} missing; a "
        "deployment of its stack builds it anew"
    )


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
    if launch == serving or serving not in records or not _complete(node, launch):
        return ""
    began = [
        float(entry["at"])
        for entry in node["failures"]
        if entry["launch"] == serving and entry.get("by_hand")
    ]
    passed = float(records[serving]["gated_at"])
    begun = any(at > passed for at in began) and not _failed_at(node, launch)
    return str(serving) if begun else ""


def choose(node: Mapping[str, Any], wanted: str = "", running: str | None = None) -> dict[str, Any]:
    """Decide what a rollback by hand goes back to.

    One that was interrupted before the gate's verdict is finished: to what runs, or ran last.

    The launch that passed last, unless it is what runs, or failed since; else the one before it; of
    two that failed since, the one that failed first.
    Whatever runs, the link `serving` only says which launch passed last: another one may have been
    started since and never proved, or nothing runs.

    Args:
        node: The reading.
        wanted: A release's id or a launch's digest; empty for what served.
        running: The launch that runs, of an engine over several nodes on all of them; what runs
            on this node where it is not given.

    Returns:
        `launch` and `release`, or `error`, one sentence that names what there is; `passed_over`,
        why another one that would come first is not taken; `unfinished`, the launch that an
        interrupted rollback to this one left; `restart`, whether the engine has to be started.
    """
    known = node["launches"]
    records: Mapping[str, Any] = known["records"]
    now, passed_over = runs(node) if running is None else running, ""
    there = [record for name, record in records.items() if name != now and _complete(node, name)]
    usable = [record for record in there if not incomplete(node, record["launch"])]
    usable.sort(key=lambda record: float(record["gated_at"]), reverse=True)
    names = ", ".join(f"{record['release']} (launch {record['launch']})" for record in usable)
    have = f"available: {names}" if names else "no other launch has passed its gate on this node"
    last = now or str(known.get("configured", ""))
    unfinished = _unfinished(node, last)
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
        found.sort(key=lambda record: _failed_at(node, record["launch"]))
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
        first = "nothing runs"
    else:
        first = f"release {now['release']} (launch {now['launch'] or 'none'}) is left"
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
    unit = {**node["unit"], "active_state": "inactive"}
    now = [{"launch": launch, "at": float("inf")} for launch in failed]
    found = choose({**node, "unit": unit, "failures": [*node["failures"], *now]})
    if found["error"] or found["launch"] in failed:
        return {}
    return dict(node["launches"]["records"][found["launch"]])


def _refuse(sentence: str) -> dict[str, Any]:
    nothing = {"launch": "", "release": "", "passed_over": "", "unfinished": "", "restart": True}
    return {**nothing, "error": sentence}


def gate_changes(node: Mapping[str, Any], launch: str, gate: Mapping[str, Any]) -> list[str]:
    """What is asked of a launch now that was not asked when it passed its gate.

    Args:
        node: The reading.
        launch: Digest of the launch.
        gate: Questions and limits as the inventory has them.

    Returns:
        Names of variables, each with its values where they are short; none for a launch that
        never passed.
    """
    passed: Mapping[str, Any] = node["launches"]["records"].get(launch, {}).get("gate", {})
    found = []
    for key, name in _ASKED.items():
        # As the record has it: a tuple is a list there.
        wanted = json.loads(json.dumps(gate.get(key)))
        if key in passed and passed[key] != wanted:
            short = not isinstance(wanted, (dict, list))
            found.append(f"{name}{f' {passed[key]} -> {wanted}' if short else ''}")
    return found
