# SPDX-License-Identifier: Apache-2.0
"""The node's program as one archive, and the command that starts it there."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils import _verified

_PACKAGE = "ansible_collections.sm120.sglang.plugins.module_utils"
_MODULES = ("_verified", "_os_errors", "_pass_on.commands", "_pass_on.shelf", "_pass_on.agent")
_MAIN = f"""\
import runpy
runpy.run_module("{_PACKAGE}._pass_on.agent", run_name="__main__")
"""


def archive() -> bytes:
    """What Python runs as a program: the agent and what it imports, nothing else."""
    folder = Path(_verified.__file__).parent
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as sink:
        sink.writestr("__main__.py", _MAIN)
        parts = f"{_PACKAGE}._pass_on".split(".")
        for depth in range(1, len(parts) + 1):
            sink.writestr("/".join([*parts[:depth], "__init__.py"]), "")
        for module in _MODULES:
            inner = module.replace(".", "/") + ".py"
            sink.writestr(
                f"{_PACKAGE.replace('.', '/')}/{inner}", (folder / inner).read_text("utf-8")
            )
    return content.getvalue()


def starter(python: str, size: int) -> list[str]:
    """The program that reads an archive of `size` bytes from its input and becomes it."""
    program = '"$RUNTIME_DIRECTORY/agent.pyz"'
    script = f'head -c {size} >{program} && exec "$0" -I {program}'
    return ["/bin/sh", "-c", script, python]
