# SPDX-License-Identifier: Apache-2.0
"""Controller side of `benchmark_report`: results in, three files out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.regression import TOLERANCE
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.files import (
    ReportError,
    read,
    read_all,
    report,
    write,
)


class ActionModule(ActionBase):
    """Renders on the controller; no node is asked."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            argument_spec={
                "document": {"type": "raw", "required": True},
                "stored": {"type": "list", "elements": "raw", "default": []},
                "output": {"type": "path", "required": True},
                "tolerance": {"type": "float", "default": TOLERANCE},
            }
        )
        folder = Path(arguments["output"]).absolute()
        try:
            stored, ignored = read_all(arguments["stored"])
            made = report(read(arguments["document"]), stored, arguments["tolerance"])
            changed = write(folder, made.files, dry=self._task.check_mode)
        except ReportError as error:
            raise AnsibleActionFail(str(error)) from error
        return {
            **result,
            "changed": bool(changed),
            "files": [str(folder / name) for name in made.files],
            "verdicts": list(made.verdicts),
            "comparisons": [
                {
                    "node": one.other.node,
                    "stack": one.other.stack.stack,
                    "verdict": one.regression.verdict,
                    "reason": one.regression.reason,
                }
                for one in made.comparisons
            ],
            "ignored": ignored,
        }
