# SPDX-License-Identifier: Apache-2.0
"""Write roles/engine/files/argument_history.json: when each server argument came and went.

Reads the wheels of every release that the tests know and keeps what not every release has.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import ReleaseParser
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.read import read_parser
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree

from tests.releases import wheels

TARGET = Path(__file__).parents[1] / "roles/engine/files/argument_history.json"


def lifetimes(parsers: Mapping[str, ReleaseParser]) -> dict[str, dict[str, str]]:
    """When arguments came and went.

    Args:
        parsers: Release to parser, oldest first.

    Returns:
        Name without dashes to `first`, `last` and `successor`, each only where it says something.
    """
    names = list(parsers)
    seen: dict[str, list[str]] = {}
    for release, parser in parsers.items():
        for flag in parser.by_flag:
            if flag.startswith("--"):
                seen.setdefault(flag.removeprefix("--"), []).append(release)
    found: dict[str, dict[str, str]] = {}
    for name, releases in sorted(seen.items()):
        entry = {"first": releases[0]} if releases[0] != names[0] else {}
        if releases[-1] != names[-1]:
            entry["last"] = releases[-1]
            successor = parsers[releases[-1]].by_flag[f"--{name}"].successor
            entry |= {"successor": successor} if successor else {}
        if entry:
            found[name] = entry
    return found


def render(found: Mapping[str, Mapping[str, str]], releases: Sequence[str]) -> str:
    """The file's text: JSON with one argument a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items()]
    head = {
        "about": "Server arguments that not every SGLang release has, without dashes: the first "
        "release with it, the last, and what the last names instead. Written by "
        "`make argument-history` from the releases' own sources; do not edit.",
        "oldest": releases[0],
        "newest": releases[-1],
    }
    top = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    return (
        ",\n".join(["{\n" + top[0], *top[1:], ' "arguments": {\n' + ",\n".join(lines)])
        + "\n }\n}\n"
    )


def main() -> None:
    """Run the program."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    parsers = {name: read_parser(open_tree(str(wheels.wheel(name)))) for name in wheels.ALL}
    gaps = {name: parser.gaps for name, parser in parsers.items() if parser.gaps}
    if gaps:
        raise SystemExit(f"not written, some releases could not be read whole: {gaps}")
    TARGET.write_text(render(lifetimes(parsers), wheels.ALL), encoding="utf-8")


if __name__ == "__main__":
    main()
