# SPDX-License-Identifier: Apache-2.0
"""A release's own argument parser, built by its own code, without torch.

`server_args.py` and what lies in `arg_groups` run as they are; everything else that they import is
a stand-in that is never asked for anything but a name. So flags, arities, types and most choices
are those that argparse itself makes of the release's code, by another way than reading it.

Run as a program: folder of the release, then folders with packages. Prints JSON.
"""

from __future__ import annotations

import abc
import argparse
import importlib.abc
import importlib.machinery
import json
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

OWN = ("sglang.srt.server_args", "sglang.srt.model_executor.cuda_graph_config")
OWN_BELOW = "sglang.srt.arg_groups"


class Name(abc.ABCMeta):
    """Stands for anything that a stood-in module has: a class, a decorator, a function."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return named(name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        decorates = len(args) == 1 and callable(args[0]) and not isinstance(args[0], Name)
        return args[0] if decorates else cls

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return cls

    def __add__(cls, other: Any) -> Any:
        return other

    __ror__ = __or__


def named(name: str) -> Any:
    return Name(name, (), {})


class Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return named(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        real = (
            fullname.split(".", maxsplit=1)[0] in sys.stdlib_module_names or fullname == "msgspec"
        )
        if real or fullname.startswith("msgspec.") or fullname in OWN:
            return None
        if fullname.startswith(OWN_BELOW):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module = Module(spec.name)
        module.__path__ = [f"{self.root}/{spec.name.replace('.', '/')}"]
        return module

    def exec_module(self, module: Any) -> None:
        pass


def describe(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    return [
        {
            "flags": action.option_strings,
            "nargs": action.nargs,
            "required": action.required,
            "type": getattr(action.type, "__name__", None),
            # A stand-in among the choices: they come from a module that did not run.
            "choices": None
            if action.choices is None
            or isinstance(action.choices, Name)
            or any(isinstance(choice, Name) for choice in action.choices)
            else list(action.choices),
        }
        for action in parser._actions
    ]


def own_parser(wheel: Path, folder: Path, packages: Path | None = None) -> list[dict[str, Any]]:
    """Every argument of a release, as its own code declares it to argparse.

    Args:
        wheel: The release.
        folder: Where to unpack what is needed of it.
        packages: Folder with msgspec, which releases from 0.5.20 on declare their fields with.

    Returns:
        `flags`, `nargs`, `required`, `type` (name) and `choices` of each; choices are None where
        there are none, or where they come from a module that did not run.
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py") and name.startswith(
                ("sglang/srt/server_args", "sglang/srt/arg_groups/", "sglang/srt/model_executor/")
            ):
                archive.extract(name, folder)
    command = [sys.executable, "-S", __file__, str(folder)]
    command += [str(packages)] if packages else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    sys.path[:1] = sys.argv[1:]
    sys.meta_path.insert(0, Finder(sys.argv[1]))
    server_args = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser()
    server_args.ServerArgs.add_cli_args(parser)
    print(json.dumps(describe(parser)))


if __name__ == "__main__":
    main()
