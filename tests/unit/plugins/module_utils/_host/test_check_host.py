# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._host import check_host
from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import FOUND, OK, Finding
from ansible_collections.sm120.sglang.plugins.module_utils._host.limits import INFINITY

WANTED = 65536
LOW = {"memlock": 8 << 20, "nofile": 20000, "stack": 8 << 20}
ROLES = {"memlock": INFINITY, "nofile": 1048576, "stack": 64 << 20}  # what the role's unit asks


def findings(unit: dict[str, int], process: dict[str, int]) -> list[Finding]:
    limits = {"state": "ok", "unit": unit, "process": process}
    return [
        check_host._memlock(limits),
        check_host._nofile(limits, 1 << 20, WANTED),
        check_host._stack(limits),
    ]


def test_a_limit_that_a_container_keeps_low_is_raised_at_its_manager() -> None:
    for finding in findings(ROLES, LOW):
        assert finding.state == FOUND
        assert "a container's manager (docker run --ulimit " in finding.remedy
        assert "drop-in" not in finding.remedy


@pytest.mark.parametrize("process", [{}, LOW])
def test_a_limit_that_the_unit_itself_has_is_raised_there(process: dict[str, int]) -> None:
    for finding in findings(LOW, process):
        assert finding.state == FOUND
        assert finding.remedy == ""  # the catalogue's: the drop-in


@pytest.mark.parametrize("process", [{}, ROLES, dict.fromkeys(ROLES, INFINITY)])
def test_what_the_role_asks_for_is_enough(process: dict[str, int]) -> None:
    assert {finding.state for finding in findings(ROLES, process)} == {OK}
