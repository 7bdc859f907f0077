# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.sm120.sglang.plugins.action import apt_idle

HOLDER = "/var/lib/dpkg/lock-frontend is held by pid 7 (apt-get upgrade)"


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the plugin over what the module would say, look by look."""

    def run(answers: list[str], timeout: int, check: bool = False) -> tuple[Any, list[str]]:
        clock, said = Clock(), list[str]()
        monkeypatch.setattr(apt_idle, "time", clock)
        monkeypatch.setattr(apt_idle, "Display", lambda: SimpleNamespace(display=said.append))
        monkeypatch.setattr(ActionBase, "run", lambda *_: {})
        plugin = apt_idle.ActionModule.__new__(apt_idle.ActionModule)
        plugin._task = SimpleNamespace(args={"timeout": timeout}, check_mode=check)
        left = iter(answers)

        def module(**_: Any) -> dict[str, Any]:
            return {"changed": False, "holder": next(left)}

        monkeypatch.setattr(plugin, "_execute_module", module, raising=False)
        return plugin.run(task_vars={"inventory_hostname": "gpu1"}), said

    return run


def test_a_free_apt_costs_one_look_and_no_word(look: Any) -> None:
    found, said = look([""], 600)
    assert (found["holder"], found["waited"], said) == ("", 0.0, [])


def test_who_is_in_the_way_is_named_once_a_minute(look: Any) -> None:
    found, said = look([HOLDER] * 25 + ["another"] + [""], 600)
    assert "failed" not in found
    assert found["waited"] == 78.0
    assert said == [
        f"[gpu1]     0s  waiting for apt: {HOLDER}",
        f"[gpu1]    60s  waiting for apt: {HOLDER}",
        "[gpu1]    75s  waiting for apt: another",
    ]


def test_the_end_of_patience_names_the_holder(look: Any) -> None:
    found, _ = look([HOLDER] * 9, 10)
    assert found["failed"] is True
    assert found["msg"].startswith(f"apt is busy on gpu1 since 10 s, nothing was changed: {HOLDER}")


def test_check_mode_does_not_wait(look: Any) -> None:
    found, said = look([HOLDER], 600, check=True)
    assert (found["holder"], said) == (HOLDER, [])
