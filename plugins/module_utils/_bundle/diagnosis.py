# SPDX-License-Identifier: Apache-2.0
"""What a support bundle says of an engine that died, dies again and again, or hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import (
    Cause,
    find_cause,
    find_suspect,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.invocation import (
    of_death,
    of_life,
    within,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line


def diagnose(
    state: UnitState,
    kernel: Sequence[Line],
    start: Callable[[str], list[Line]],
    previous: Callable[[], str],
    release: str = "",
) -> list[str]:
    """Say why an engine died.

    Args:
        state: Its unit now.
        kernel: The kernel's log, of any time.
        start: Reads the journal of one start, by its invocation ID.
        previous: Finds the invocation before the unit's present one, empty where there is none.
        release: SGLang's, where known.

    Returns:
        Lines. Of a unit that runs: how often systemd restarted it, why the start before died, and
        the known fault that its present log tells, which may be why it hangs.
    """
    lines = start(state.invocation_id) if state.invocation_id else []
    if not state.running:
        near = within(kernel, of_death(lines, state.started))
        return _said(find_cause(lines, state, kernel=near, release=release))
    said = [
        f"the unit runs; systemd has restarted it, times: {state.restarts}"
        if state.restarts
        else "the unit runs; no death to explain"
    ]
    suspect = find_suspect(lines, within(kernel, of_life(lines, state.started)), release)
    if suspect:
        said += ["", "the log of this start tells a known fault:", *_said(suspect)]
    if not state.restarts:
        return said
    invocation = previous()
    if not invocation:
        return [*said, "", "the journal does not have the start before this one"]
    died = start(invocation)
    near = within(kernel, of_death(died))
    cause = find_cause(died, ended(state.name, died), kernel=near, release=release)
    return [*said, "", "the start before this one died:", *_said(cause)]


def _said(cause: Cause) -> list[str]:
    said = [f"cause: {cause}", f"known fault: {cause.signature or 'none'}"]
    said += [f"what it is: {cause.known} ({cause.source})"] if cause.known else []
    said += [f"remedy: {cause.remedy}"] if cause.remedy else []
    said += [f"evidence: {one}" for one in cause.evidence]
    return said + [f"raised: {one}" for one in cause.chain]
