# SPDX-License-Identifier: Apache-2.0
"""Decisions about launches: whether one still has to prove itself, and what is known of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
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


def automatic_target(node: Mapping[str, Any], failed: str) -> str:
    """The launch to go back to by itself when a launch fails; empty without one.

    A launch that passed its gate before and now fails is not what changed: the node is, and an
    older launch would meet the same. Then there is nothing to go back to.
    """
    serving: str = node["launches"]["serving"]
    return serving if serving != failed and complete(node, serving) else ""


def complete(node: Mapping[str, Any], launch: str) -> bool:
    """Whether a launch passed its gate and its release is on the node."""
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
