# SPDX-License-Identifier: Apache-2.0
"""Write how long each task of a play took, as the controller sees it, into TASK_SECONDS."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """One list of name and seconds, written at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_seconds"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Begin."""
        super().__init__()
        self._began: list[tuple[str, float]] = []

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002 - Ansible's
        """Note when a task begins, which is when the one before has ended."""
        self._began.append((task.get_name(), time.monotonic()))

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002 - Ansible's
        """Write the list."""
        ends = [at for _, at in self._began[1:]] + [time.monotonic()]
        rows = [(name, end - at) for (name, at), end in zip(self._began, ends, strict=True)]
        Path(os.environ["TASK_SECONDS"]).write_text(json.dumps(rows), encoding="utf-8")
