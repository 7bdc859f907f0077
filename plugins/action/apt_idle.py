# SPDX-License-Identifier: Apache-2.0
"""Controller side of `apt_idle`: look again and again, and say at once who is in the way."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

_INTERVAL = 3.0
_REMIND = 60.0  # seconds until the same holder is named again


class ActionModule(ActionBase):
    """Repeat the module until it sees nobody, or until the time is over."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        super().run(tmp, task_vars)
        timeout = float(self._task.args.get("timeout", 600))
        host = (task_vars or {}).get("inventory_hostname", "node")
        started, said, named = time.monotonic(), "", 0.0
        while True:
            result: dict[str, Any] = self._execute_module(
                module_name="sm120.sglang.apt_idle",
                module_args=dict(self._task.args),
                task_vars=task_vars,
            )
            waited = time.monotonic() - started
            result["waited"] = round(waited, 1)
            holder = result.get("holder", "")
            if result.get("failed") or not holder or self._task.check_mode:
                return result
            if waited >= timeout:
                result["failed"] = True
                result["msg"] = (
                    f"apt is busy on {host} since {waited:.0f} s, nothing was changed: {holder}. "
                    "Wait for it or end it, then run again"
                )
                return result
            if holder != said or waited - named >= _REMIND:
                Display().display(f"[{host}] {waited:5.0f}s  waiting for apt: {holder}")
                said, named = holder, waited
            time.sleep(min(_INTERVAL, max(0.1, timeout - waited)))
