# SPDX-License-Identifier: Apache-2.0
"""Going back by hand to what does not start any more."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Broken, ends_well, mended

pytestmark = pytest.mark.faults

DROP_IN = "/run/systemd/system/sglang.service.d/by-hand.conf"


@pytest.mark.fault("rollback-fails")
def test_a_rollback_by_hand_to_a_launch_that_does_not_start(node: Broken) -> None:
    """A drop-in refuses that one launch, as a library that the host has lost would."""
    node.wanted = node.other()
    mended(node)
    serving, before = node.link("serving"), node.link("before")
    node.run(
        f"mkdir $(dirname {DROP_IN}); printf '[Service]\\nExecStartPre=/bin/sh -c "
        f'"! grep -q {before} /etc/sglang/engine.env"\\n\' > {DROP_IN}; systemctl daemon-reload'
    )
    try:
        outcome = node.play("rollback")
    finally:
        node.run(f"rm -r $(dirname {DROP_IN}); systemctl daemon-reload")
    ends_well(outcome, cause=f"(launch {before}) did not prove itself", remedy="To do: ")
    assert outcome.says(f"(launch {serving}), as it served before; ready"), outcome.output
    assert (node.link("serving"), node.link("before")) == (serving, before)
    # The log of what was left, and of the start that failed.
    kept = node.run("ls /var/lib/sglang/failures | tail -2").split()
    left, failed = (node.run(f"cat /var/lib/sglang/failures/{name}/failure.json") for name in kept)
    assert '"by_hand": true' in left
    assert f'"launch": "{serving}"' in left
    assert f'"launch": "{before}"' in failed
