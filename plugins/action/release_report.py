# SPDX-License-Identifier: Apache-2.0
"""Controller side of `release_report`: describe SGLang releases, print a table, write files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._report.describe import (
    Knowledge,
    describe,
)
from ansible_collections.sm120.sglang.plugins.module_utils._report.render import (
    markdown_report,
    text_report,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree
from ansible_collections.sm120.sglang.plugins.module_utils._verified import sha256_file
from ansible_collections.sm120.sglang.plugins.module_utils.release_report import shipped_knowledge
from ansible_collections.sm120.sglang.plugins.plugin_utils import _sglang_wheels


def names(given: object) -> list[str]:
    """Releases as an operator gives them: a list, or one text with commas.

    Raises:
        PatchError: none is given.
    """
    items = given if isinstance(given, list) else str(given or "").split(",")
    found = [str(item).strip() for item in items if str(item).strip()]
    if not found:
        raise PatchError(
            "no release is named",
            "give a version, a wheel, a checkout or an installed tree: -e release=0.5.23",
        )
    return found


class ActionModule(ActionBase):
    """Describes releases on the controller; no node is asked."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            argument_spec={
                "releases": {"type": "raw", "required": True},
                "cache": {"type": "path", "required": True},
                "report": {"type": "path", "required": True},
            }
        )
        try:
            knowledge = shipped_knowledge()
            releases = [
                self._release(name, Path(arguments["cache"]), knowledge)
                for name in names(arguments["releases"])
            ]
        except PatchError as error:
            raise AnsibleActionFail(str(error)) from error
        table = text_report(releases)
        Display().display(f"\n{table}")
        files = {
            "json": (".json", json.dumps(releases, indent=2) + "\n"),
            "markdown": (".md", markdown_report(releases)),
        }
        for kind, (suffix, content) in files.items():
            path = Path(f"{arguments['report']}{suffix}").absolute()
            result[f"report_{kind}"] = str(path)
            result["changed"] = self._write(path, content) or result.get("changed", False)
        problems = [
            f"{item['release'] or item['source']}: {problem}"
            for item in releases
            for problem in item["problems"]
        ]
        return {**result, "releases": releases, "problems": problems}

    @staticmethod
    def _release(name: str, cache: Path, knowledge: Knowledge) -> dict[str, Any]:
        path = Path(name).expanduser()
        if not path.exists():
            if not _sglang_wheels.is_version(name):
                raise PatchError(
                    f"{name!r} is neither a version nor a file or folder on this machine",
                    "a version looks like 0.5.10.post1",
                )
            path = _sglang_wheels.fetch(name, cache)
        described = describe(open_tree(str(path)), knowledge)
        if path.is_file():
            described["sha256"] = sha256_file(path)
            Display().display(f"{path}: sha256 {described['sha256']}")
        return described

    def _write(self, path: Path, content: str) -> bool:
        """Write a file where it differs; return whether it does."""
        try:
            if path.is_file() and path.read_text("utf-8") == content:
                return False
            if not self._task.check_mode:
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f".{path.name}.new")
                new.write_text(content, "utf-8")
                new.replace(path)
        except OSError as error:
            raise AnsibleActionFail(
                f"{path} cannot be written: {error.strerror}; name another place in "
                "check_release_report"
            ) from error
        return True
