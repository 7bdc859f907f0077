# SPDX-License-Identifier: Apache-2.0
"""What an operator reads when something failed: why, what serves now, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._lifecycle import when

_MAX_CAUSE_LINES = 8


def untouched_screen(message: str, changed: Sequence[str], unit: str) -> str:
    """What an operator reads when the one question to a launch that this run left alone fails.

    Args:
        message: What failed, cause and remedy.
        changed: What is asked now and was not when the launch passed (`_lifecycle.gate_changes`).
        unit: The engine's unit.
    """
    lines = message.strip().splitlines()
    return "\n".join(
        [
            *lines[:1],
            *_question_changed(changed),
            *lines[1:],
            f"Nothing was changed by this run; the engine was left as it is: journalctl -u {unit}",
        ]
    )


def _question_changed(changed: Sequence[str]) -> list[str]:
    if not changed:
        return []
    told = ", ".join(changed)
    return [
        f"The launch passed its gate before; the gate has changed since: {told}. Look there first."
    ]


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
    return f"{_named(record)}, which passed its gate on {when(float(record['gated_at']))}"


def failure_notice(
    failed: Mapping[str, Any], back: Mapping[str, Any], further: Mapping[str, Any]
) -> list[str]:
    """What an operator reads as soon as a launch failed: the cause in short, and what comes next.

    Args:
        failed: As for `failure_screen`.
        back: The launch record to go back to, empty without one.
        further: As `next` for `failure_screen`.

    Returns:
        Two or three lines.
    """
    said = failed["message"].strip().splitlines()
    causes = [line for line in said[1:] if line.startswith(("Cause: ", "FAIL "))]
    after = (
        f"Next: {_named(back)}, which served before, is restored and gated again."
        if back
        else f"Next: the engine is stopped. {_no_return(failed, further)}"
    )
    return [*said[:1], *causes[:1], after]


def failure_screen(failed: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    """What an operator reads when a launch did not prove itself; it fits one screen.

    Args:
        failed: `host`, `launch`, `release`, `message` (what failed, cause and remedy), `folder`
            (where its log is), `root`, `unit`, `again` (what to run again), and, where there are
            any, `differences` (phrases, what differs from the launch that served), `gate`
            (`_lifecycle.gate_changes`), `memory_lost` (whether no launch can start for want of GPU
            memory) and `too` (where the log of the launch is that was gone back to, and failed as
            well).
        outcome: `serving` (a launch record, empty when nothing serves), `message` (why going back
            failed, empty when it did not, or there was nothing to go back to), `unproved` (whether
            nobody could look at what was restored, which then runs), `foreign` (whether
            somebody else had deployed meanwhile), `next` (the launch record that
            playbooks/rollback.yml reaches then, empty without one), and `accept_length` and
            `ready_seconds` of the launch that serves again.

    Returns:
        At most some twenty lines.
    """
    lines = failed["message"].strip().splitlines()
    if len(lines) > _MAX_CAUSE_LINES:
        more = len(lines) - _MAX_CAUSE_LINES
        lines = [*lines[:_MAX_CAUSE_LINES], f"... {more} more line(s) in the log"]
    shown = [
        f"{failed['host']}: {_named(failed)} did not prove itself.",
        *_question_changed(failed.get("gate", [])),
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
    if failed.get("too"):
        folder = f"{folder} and {failed['too']}"
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
            (
                f"To do: {_advice(failed)} and run {failed['again']} again; until then the node "
                "serves."
            ),
        )
    if record and outcome.get("unproved"):
        seen = outcome["message"].strip().splitlines()
        return (
            (
                f"Serving now: {_named(record)}, as far as anybody knows: it was restored, and not "
                f"proved ({' '.join(seen[:3])}). It was left as it is."
            ),
            (
                f"To do: see with playbooks/status.yml that it serves; {_advice(failed)} and run "
                f"{failed['again']} again, which makes all checks."
            ),
        )
    further = outcome.get("next", {})
    reach = ""
    if further and not failed.get("memory_lost"):
        reach = f", or playbooks/rollback.yml to go back to {_named(further)}"
    stopped = (
        f"Serving now: NOTHING. The engine is stopped; its log: journalctl -u {failed['unit']}"
    )
    if not record:
        return (
            f"{stopped}. {_no_return(failed, further)}",
            f"To do: {_advice(failed)} and run {failed['again']} again{reach}.",
        )
    first = outcome["message"].strip().splitlines()
    return (
        f"{stopped}.",
        (f"Going back to {_named(record)} failed too: {' '.join(first[:3])}"),
        (
            "To do: what fails both is the node or the models, not the release: start with the "
            f"cause above, then run {failed['again']} again{reach}."
        ),
    )


def _no_return(failed: Mapping[str, Any], further: Mapping[str, Any]) -> str:
    """Why nothing was gone back to, and what could be."""
    if failed.get("memory_lost"):
        return "Nothing was gone back to: any launch would die for want of that GPU memory."
    if not further:
        return "There is no other launch that passed its gate to go back to."
    passed = when(float(further["gated_at"]))
    return f"Nothing older is started by itself; {_named(further)} passed its gate on {passed}."
