# SPDX-License-Identifier: Apache-2.0
"""Small releases in memory, in the shapes that SGLang's argument declarations have had."""

from __future__ import annotations

from collections.abc import Mapping


class Memory:
    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = {path: text.encode() for path, text in files.items()}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def names(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))


def calls(body: str, above: str = "", **more: str) -> Memory:
    """A release whose `add_cli_args` has this body."""
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    text = (
        f"import argparse\nimport json\n{above}\n\nclass ServerArgs:\n    @staticmethod\n"
        f"    def add_cli_args(parser: argparse.ArgumentParser):\n{lines}"
    )
    return Memory({"srt/server_args.py": text, **more})


ARG_UTILS = """
import dataclasses
from typing import Annotated
A = Annotated

@dataclasses.dataclass(frozen=True)
class Arg:
    help: str = ""
    choices: list = None
    aliases: list = None
    cli_name: str = None
    type_parser: object = None
    nargs: str = None
    required: bool = None
    action: object = None
    action_kwargs: dict = None
    const: object = None
    no_cli: bool = False

def add_cli_args_from_dataclass(parser, cls):
    ...
"""

IMPORTS = (
    "from typing import Annotated, List, Literal, Optional, Union\n"
    "from sglang.srt.arg_groups.arg_utils import A, Arg, add_cli_args_from_dataclass\n"
)


def fields(body: str, above: str = "", **more: str) -> Memory:
    """A release with these annotated fields in `ServerArgs`."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    text = (
        f"import argparse, json\n{IMPORTS}{above}\n\nclass ServerArgs:\n{lines}\n"
        "    @staticmethod\n    def add_cli_args(parser):\n"
        "        add_cli_args_from_dataclass(parser, ServerArgs)\n"
    )
    files = {"srt/arg_groups/arg_utils.py": ARG_UTILS, "srt/server_args.py": text}
    return Memory({**files, **more})
