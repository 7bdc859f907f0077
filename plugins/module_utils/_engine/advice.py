# SPDX-License-Identifier: Apache-2.0
"""What to do about an engine that runs and does not serve as it should."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.states import (
    BROKEN,
    HUNG,
    OVERLOADED,
    State,
)

REMEDIES = {
    OVERLOADED: "wait, or send less; a long prefill does this too",
    HUNG: (
        "collect a bundle (playbooks/support_bundle.yml), then playbooks/stop.yml and the "
        "deployment; before a second restart look at the GPUs (`nvidia-smi`): after a hang they "
        "may need a reset"
    ),
    BROKEN: (
        "run the deployment again, which mends changed files and proves what serves; where the "
        "plan names none, playbooks/rollback.yml"
    ),
}
"""What to do about a state of which no cause tells it."""


def advised(state: State) -> State:
    """The state with what to do about it, where its cause does not say that already."""
    remedy = REMEDIES.get(state.name)
    if remedy is None or "Remedy: " in state.why:
        return state
    return State(state.name, f"{state.why}. Remedy: {remedy}")
