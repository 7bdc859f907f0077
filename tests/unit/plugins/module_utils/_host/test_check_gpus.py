# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import read
from ansible_collections.sm120.sglang.plugins.module_utils._host.check_gpus import check_gpus
from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import FOUND

from tests.host.nodes import bus, good
from tests.unit.plugins.module_utils._host.wanted import WANTED

ACTION = f"NVRM: Xid (PCI:{bus(1)[:-2]}): 154, GPU recovery action changed from "


@pytest.mark.parametrize(
    ("lines", "check"),
    [
        ([f"{ACTION}0x0 (None) to 0x2 (Node Reboot Required)"], "xid_fatal"),
        # A reset took place, and nothing is left to be done.
        (
            [
                f"{ACTION}0x0 (None) to 0x1 (GPU Reset Required)",
                f"{ACTION}0x1 (GPU Reset Required) to 0x0 (None)",
            ],
            "xid",
        ),
        ([f"NVRM: Xid (PCI:{bus(1)[:-2]}): 119, pid=7, Timeout after 6s"], "xid_fatal"),
        ([f"NVRM: Xid (PCI:{bus(1)[:-2]}): 13, Graphics Exception"], "xid"),
    ],
)
def test_an_xid_is_fatal_or_not(lines: list[str], check: str, tmp_path: Path) -> None:
    node = good()
    node.log(*lines)
    node.write(tmp_path)
    findings = check_gpus(read.read_host("x.service", [], str(tmp_path)), WANTED)
    assert [finding.id for finding in findings if finding.state == FOUND] == [check]
