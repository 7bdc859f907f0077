# SPDX-License-Identifier: Apache-2.0
"""Controller side of `upload`: bring files to a node, only those that it lacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

_BATCH_BYTES = 1 << 30  # what lies on the node in two places at a time, at most
_BATCH_FILES = 32
_EVERY = 5.0  # seconds between two lines of progress


def batches(
    names: Sequence[str], sizes: Mapping[str, int], limit: int = _BATCH_BYTES
) -> Iterator[list[str]]:
    """Cut a list of files into batches that bound the space they take twice.

    Args:
        names: The files in order.
        sizes: Bytes of each.
        limit: Bytes of a batch; a single larger file is a batch of its own.

    Yields:
        Lists of names, in order, none empty, at most 32 names each.
    """
    batch: list[str] = []
    total = 0
    for name in names:
        if batch and (total + sizes[name] > limit or len(batch) == _BATCH_FILES):
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += sizes[name]
    if batch:
        yield batch


class Progress:
    """Says how far an upload is: a line in some seconds, however many files, and one at the end."""

    def __init__(self, sizes: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            sizes: Bytes of each file that is to come.
            clock: Seconds.
        """
        self._total, self._files = sum(sizes), len(sizes)
        self._bytes = self._done = 0
        self._clock = clock
        self._began = self._said = clock()

    def brought(self, size: int) -> str:
        """Count a file that has arrived; returns the line to print, empty when none is due."""
        self._bytes += size
        self._done += 1
        now = self._clock()
        if self._done < self._files and now - self._said < _EVERY:
            return ""
        self._said = now
        return (
            f"{now - self._began:5.0f}s  brought {self._bytes / 2**20:.0f} of "
            f"{self._total / 2**20:.0f} MiB, {self._done} of {self._files} files"
        )


class ActionModule(ActionBase):
    """Ask the node what it lacks, put those files there, have the node verify and adopt them."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        super().run(tmp, task_vars)
        # A file that is there but wrong is brought again like one that is missing.
        arguments = {**self._task.args, "wrong": "missing", "owned": True}
        source = Path(str(arguments.pop("src")))
        files: list[dict[str, Any]] = arguments["files"]
        sizes = {entry["name"]: int(entry["size"]) for entry in files}
        host = (task_vars or {}).get("inventory_hostname", "node")

        state = self._verify(arguments, task_vars)
        missing: list[str] = state.get("missing", [])
        mended = bool(state.get("changed"))
        result: dict[str, Any] = {"uploaded": missing, "changed": bool(missing) or mended}
        if state.get("failed"):
            return state
        if not missing:
            return result
        for name in missing:
            if not (source / name).is_file():
                raise AnsibleActionFail(
                    f"{source / name}: not on the controller, but {host} needs it. "
                    "Fetch or build it again (a wheel: remove the wheelhouse folder; a model: "
                    "check the source path and its manifest)."
                )
        if self._task.check_mode:
            return result

        progress = Progress([sizes[name] for name in missing])
        # Where modules lie without pipelining; Ansible itself removes it in the end.
        own = self._connection._shell.tmpdir
        for batch in batches(missing, sizes):
            folder = self._make_tmp_path()
            names = {}
            try:
                for number, name in enumerate(batch):
                    arrived = f"part{number}"
                    self._connection.put_file(
                        str(source / name), self._connection._shell.join_path(folder, arrived)
                    )
                    names[arrived] = name
                    if line := progress.brought(sizes[name]):
                        Display().display(f"[{host}] {line}")
                adopted = self._verify({**arguments, "incoming": folder, "names": names}, task_vars)
            finally:
                self._remove_tmp_path(folder, force=True)
                self._connection._shell.tmpdir = own
            if adopted.get("failed"):
                return adopted
        return result

    def _verify(
        self, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        outcome: dict[str, Any] = self._execute_module(
            module_name="sm120.sglang.verified_files",
            module_args=arguments,
            task_vars=task_vars,
        )
        return outcome
