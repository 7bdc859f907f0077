# SPDX-License-Identifier: Apache-2.0
"""Decisions about launches: whether one still has to prove itself, and what to go back to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _prune
from ansible_collections.sm120.sglang.plugins.module_utils._decide import Difference

_MAX_CAUSE_LINES = 8


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
    if not pending:
        return []
    reason = f"begun on {_when(pending['started'])} and not finished; its guard is taken away"
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

    Args:
        node: The reading.
        launch: Digest of the wanted launch.

    Returns:
        A phrase such as "about 127 s: the last start took 127 s"; empty without a measurement.
    """
    records = node["launches"]["records"]
    own = records.get(launch, {}).get("ready_seconds")
    if own:
        return f"about {own:.0f} s: the last start of this launch took {own:.0f} s"
    timed = [record for record in records.values() if record.get("ready_seconds")]
    if not timed:
        return ""
    last = max(timed, key=lambda record: float(record["gated_at"]))
    return f"about {last['ready_seconds']:.0f} s: the last start took {last['ready_seconds']:.0f} s"


def remarks(node: Mapping[str, Any], launch: str, release: str) -> list[str]:
    """What an operator should know of the wanted launch's past.

    Args:
        node: The reading.
        launch: Digest of the wanted launch.
        release: The wanted release's id.

    Returns:
        A sentence when its release was built before, one when this launch failed its last gate
        here, and one when it was left by hand, none of them when it is the one that serves; one
        when a benchmark's guard had to put back what serves.
    """
    known = node["launches"]
    restored = node["benchmark"]["restored"]
    found = []
    if restored.get("launch") == known["serving"] != "":
        found.append(
            f"a benchmark was interrupted and the node went back by itself on "
            f"{_when(restored['at'])}: {restored['why']}"
        )
    if known["serving"] == launch:
        return found
    seen = node["releases"]
    whole = release in seen["built"] and not seen["drift"].get(release)
    if whole and release != seen["current"]:
        found.append(
            f"release {release} is there since {_when(seen['built'][release])}: nothing is built"
        )
    failed = [entry for entry in node["failures"] if entry["launch"] == launch]
    if failed:
        last = failed[-1]
        found.append(
            f"this launch FAILED on {_when(last['at'])}: {last['message'].splitlines()[0]} "
            f"(kept in {last['folder']})"
        )
    left = known["rolled_back"]
    if left.get("launch") == launch:
        found.append(
            f"this launch was rolled back by hand on {_when(left['at'])}; this run deploys it again"
        )
    return found


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def automatic_target(node: Mapping[str, Any], failed: str) -> str:
    """The launch to go back to by itself when a launch fails; empty without one.

    A launch that passed its gate before and now fails is not what changed: the node is, and an
    older launch would meet the same. Then there is nothing to go back to.
    """
    serving: str = node["launches"]["serving"]
    return serving if serving != failed and _complete(node, serving) else ""


def _complete(node: Mapping[str, Any], launch: str) -> bool:
    record = node["launches"]["records"].get(launch)
    return record is not None and record["release"] in node["releases"]["complete"]


def choose(node: Mapping[str, Any], wanted: str = "") -> dict[str, str]:
    """Decide what a rollback by hand goes back to.

    Args:
        node: The reading.
        wanted: A release's id or a launch's digest; empty for the launch before.

    Returns:
        `launch` and `release`, or `error`, one sentence that names what there is.
    """
    known = node["launches"]
    records: Mapping[str, Any] = known["records"]
    usable = [
        record
        for name, record in records.items()
        if _complete(node, name) and name != known["serving"]
    ]
    usable.sort(key=lambda record: float(record["gated_at"]), reverse=True)
    names = ", ".join(f"{record['release']} (launch {record['launch']})" for record in usable)
    have = f"available: {names}" if names else "no other launch has passed its gate on this node"
    if wanted:
        found = [r for r in usable if wanted in (r["release"], r["launch"])]
        serving = records.get(known["serving"], {})
        if not found and wanted in (serving.get("release"), known["serving"]):
            return _refuse(f"{wanted} is what serves; {have}")
        if not found:
            return _refuse(f"there is no launch of {wanted} to go back to; {have}")
    else:
        found = [record for record in usable if record["launch"] == known["before"]]
        if not found:
            hint = "; name one with -e rollback_release=..." if names else ""
            return _refuse(f"there is nothing to go back to; {have}{hint}")
    return {"launch": found[0]["launch"], "release": found[0]["release"], "error": ""}


def _refuse(sentence: str) -> dict[str, str]:
    return {"launch": "", "release": "", "error": sentence}


def serving_screen(node: Mapping[str, Any], host: str, unit: str) -> str:
    """What an operator reads after something failed before the gate: what serves, what to do.

    Args:
        node: A reading made after the failure; anything else when the node could not be read.
        host: The node's name.
        unit: The engine's unit.

    Returns:
        Two lines; the failure itself was told before.
    """
    try:
        serving = _serving(node, unit)
    except KeyError:
        serving = f"unknown: {host} cannot be read any more; playbooks/status.yml tells it later"
    return (
        f"Serving now on {host}: {serving}.\n"
        "To do: act on the message above and run the deployment again; it goes on where this one "
        "stopped."
    )


def _serving(node: Mapping[str, Any], unit: str) -> str:
    launch, active = node["unit"]["launch"], node["unit"]["active_state"]
    current = node["releases"]["current"]
    if active != "active":
        return f"nothing; {unit} is {active}" if current else "nothing; nothing was deployed yet"
    record = node["launches"]["records"].get(launch)
    if record is None:
        return f"release {current} (launch {launch or 'unknown'}), which never passed its gate here"
    return f"{_named(record)}, which passed its gate on {_when(float(record['gated_at']))}"


def failure_notice(failed: Mapping[str, Any], back: Mapping[str, Any]) -> list[str]:
    """What an operator reads as soon as a launch failed: the cause in short, and what comes next.

    Args:
        failed: As for `failure_screen`.
        back: The launch record to go back to, empty without one.

    Returns:
        Two or three lines.
    """
    said = failed["message"].strip().splitlines()
    causes = [line for line in said[1:] if line.startswith(("Cause: ", "FAIL "))]
    after = (
        f"Next: {_named(back)}, which served before, is restored and gated again."
        if back
        else "Next: the engine is stopped; no other launch is there to go back to."
    )
    return [*said[:1], *causes[:1], after]


def failure_screen(failed: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    """What an operator reads when a launch did not prove itself; it fits one screen.

    Args:
        failed: `host`, `launch`, `release`, `message` (what failed, cause and remedy), `folder`
            (where its log is), `root`, `unit`, and `differences` (phrases, what differs from the
            launch that served; may be left out).
        outcome: `serving` (a launch record, empty when nothing serves), `message` (why going back
            failed, empty when it did not, or there was nothing to go back to), `foreign` (whether
            somebody else had deployed meanwhile), and `accept_length` and `ready_seconds` of the
            launch that serves again.

    Returns:
        At most some twenty lines.
    """
    lines = failed["message"].strip().splitlines()
    if len(lines) > _MAX_CAUSE_LINES:
        more = len(lines) - _MAX_CAUSE_LINES
        lines = [*lines[:_MAX_CAUSE_LINES], f"... {more} more line(s) in the log"]
    shown = [
        f"{failed['host']}: {_named(failed)} did not prove itself.",
        *lines,
        *_serving_now(failed, outcome),
        _kept(failed),
    ]
    return "\n".join(shown)


def _kept(failed: Mapping[str, Any]) -> str:
    stays = f"the release stays in {failed['root']}/releases until it is the oldest."
    folder = failed["folder"]
    if not folder.startswith("/"):  # a full disk
        return f"Kept: {folder}; {stays}"
    return f"Kept: {folder} on the node (journal.log, failure.json, unit, environment); {stays}"


def _named(launch: Mapping[str, Any]) -> str:
    return f"release {launch['release']} (launch {launch['launch']})"


def _advice(failed: Mapping[str, Any]) -> str:
    """What to do about a failure: its remedy, else where to look for its cause."""
    if "Remedy: " in failed["message"]:
        return "act on the remedy"
    known = "no known fault explains it"
    if differs := failed.get("differences"):
        told = "; ".join(differs)
        return f"{known}; what differs from the launch that served: {told}. Mend that"
    return f"{known}; look at journal.log in the folder below"


def _serving_now(failed: Mapping[str, Any], outcome: Mapping[str, Any]) -> Sequence[str]:
    record = outcome["serving"]
    if outcome.get("foreign"):
        return (
            "Serving now: what somebody else has deployed meanwhile; it was left alone.",
            "To do: find out who deploys to this node, and run one deployment at a time.",
        )
    if record and not outcome["message"]:
        length = outcome.get("accept_length")
        figures = f", accept length {length}" if length else ""
        return (
            (
                f"Serving now: {_named(record)}, as it served before; ready "
                f"{outcome['ready_seconds']:.0f} s after its start and gated again{figures}."
            ),
            f"To do: {_advice(failed)} and run the deployment again; until then the node serves.",
        )
    stopped = (
        f"Serving now: NOTHING. The engine is stopped; its log: journalctl -u {failed['unit']}"
    )
    if not record:
        return (
            f"{stopped}. There is no other launch that passed its gate to go back to.",
            f"To do: {_advice(failed)} and run the deployment again.",
        )
    first = outcome["message"].strip().splitlines()
    return (
        f"{stopped}.",
        (f"Going back to {_named(record)} failed too: {' '.join(first[:3])}"),
        (
            "To do: what fails both is the node or the models, not the release: start with the "
            "cause above, then run the deployment or playbooks/rollback.yml again."
        ),
    )
