# SPDX-License-Identifier: Apache-2.0
"""What the plugins' tests share: modules run for real, wheels made by hand."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from unittest.mock import patch

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args


class RunModule(Protocol):
    """Run a module's `main` in this process and return the result that it prints."""

    def __call__(
        self, module: ModuleType, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]: ...


class MakeWheel(Protocol):
    """Make a small, valid wheel and return its path."""

    def __call__(
        self,
        folder: Path,
        name: str,
        version: str,
        files: Mapping[str, str] | None = None,
        tag: str = "py3-none-any",
    ) -> Path: ...


@pytest.fixture
def run_module() -> RunModule:
    def run(
        module: ModuleType, arguments: Mapping[str, Any], *, check: bool = False
    ) -> dict[str, Any]:
        wanted = {**arguments, "_ansible_check_mode": check, "_ansible_diff": True}
        printed, warnings = io.StringIO(), list[str]()
        with (
            # In a process that has loaded the controller's code they are shown, not returned.
            patch.object(
                AnsibleModule, "warn", lambda _self, text, **_options: warnings.append(text)
            ),
            patch_module_args(wanted),
            contextlib.redirect_stdout(printed),
            pytest.raises(SystemExit) as end,
        ):
            module.main()
        result: dict[str, Any] = json.loads(printed.getvalue().strip().splitlines()[-1])
        assert bool(end.value.code) == result.get("failed", False)
        return {**result, **({"warnings": warnings} if warnings else {})}

    return run


@pytest.fixture
def make_wheel() -> MakeWheel:
    return build_wheel


def build_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    escaped = name.replace("-", "_")
    info = f"{escaped}-{version}.dist-info"
    content = {
        f"{escaped}/__init__.py": f'__version__ = "{version}"\n',
        **(files or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = ""
    for member, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{member},sha256={digest.decode()},{len(text.encode())}\n"
    record += f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{escaped}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in {**content, f"{info}/RECORD": record}.items():
            # A fixed date: the same content gives the same digest.
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), text)
    return path
