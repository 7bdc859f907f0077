# SPDX-License-Identifier: Apache-2.0
"""The few lines an operator reads when an engine does not come up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import Cause
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState


def dead_message(host: str, reason: str, elapsed: float, cause: Cause, phase: str) -> str:
    """What happened, why, and what to do, for a unit that died."""
    lines = [
        f"{host}: the engine failed after {elapsed:.0f} s: {reason}. Last phase: {phase}.",
        f"Cause: {cause}",
    ]
    if cause.known:
        lines.append(f"Known fault {cause.signature}: {cause.known} ({cause.source})")
    if cause.remedy:
        lines.append(f"Remedy: {cause.remedy}")
    else:
        # The cause itself stands above.
        lines += [f"Raised: {line}" for line in cause.chain if line != cause.summary]
    lines += [f"Evidence: {line}" for line in cause.evidence if not _told(line, lines)]
    return "\n".join(lines)


def lost_message(host: str, elapsed: float, other: str, said: str) -> str:
    """Another node of the same engine failed, so this one's start cannot succeed."""
    return (
        f"{host}: the engine cannot come up without {other}, which failed "
        f"({elapsed:.0f} s waited):\n{said}"
    )


def _told(evidence: str, lines: Sequence[str]) -> bool:
    """Whether a line of evidence stands in the message already."""
    return any(evidence.strip() in line for line in lines)


def unauthorized_message(host: str, where: str) -> str:
    """The engine runs but does not take the key."""
    return (
        f"{host}: the engine on {where} answers 401 to /model_info: the API key given here is not "
        "the one it was started with.\n"
        "Remedy: compare the inventory's API key with the credential of the unit; a changed key "
        "needs a restart of the engine."
    )


def stuck_message(host: str, elapsed: float, waiting_for: str, reason: str) -> str:
    """An engine that served and does not any more, though its processes run."""
    return (
        f"{host}: the engine was ready before and is not any more, for {elapsed:.0f} s: "
        f"{waiting_for}.\n"
        f"Cause: {reason}. playbooks/status.yml names the state.\n"
        "Remedy: overloaded: send less, and wait. Hung: collect playbooks/support_bundle.yml, run "
        "playbooks/stop.yml, then the deployment again; before a second restart look at the GPUs."
    )


def timeout_message(
    host: str, elapsed: float, phase: str, waiting_for: str, unit: UnitState
) -> str:
    """The time is up and the engine is neither ready nor dead."""
    return (
        f"{host}: the engine is not ready after {elapsed:.0f} s; last phase: {phase}.\n"
        f"Evidence: {unit.name} is {unit.active} ({unit.sub}), main process {unit.main_pid}; "
        f"{waiting_for}.\n"
        f"Remedy: if it only needs longer, raise the timeout; `journalctl -u {unit.name}` on the "
        "node shows what it did."
    )
