# SPDX-License-Identifier: Apache-2.0
"""Controller side of `end_failed`: a failure that says of itself that it was told."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Fail, with the mark that callbacks look for."""

    TRANSFERS_FILES = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec({"msg": {"type": "str", "required": True}})
        return {"failed": True, "told": True, "msg": asked["msg"]}
