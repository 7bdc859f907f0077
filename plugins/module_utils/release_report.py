# SPDX-License-Identifier: Apache-2.0
"""Say what an SGLang release needs, has, lacks and refuses, from its files alone.

    PYTHONPATH=collections python -m \
        ansible_collections.sm120.sglang.plugins.module_utils.release_report \
        TREE_OR_WHEEL... [--json] [--launch "ARGUMENTS"]

Runs on the controller, where Ansible and so PyYAML are. Nothing of the release is imported.
Exit status: 0 fine, 1 something needs a person, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.report import (
    DEFAULT_LAUNCH,
    HISTORY,
    RULES,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._report.describe import (
    Knowledge,
    describe,
)
from ansible_collections.sm120.sglang.plugins.module_utils._report.render import text_report
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree

COLLECTION = Path(__file__).parents[2]
CATALOGUE = "roles/source_patches/files/catalogue.yml"

FINE, NEEDS_A_PERSON, BAD_INPUT = 0, 1, 2


def shipped_knowledge(collection: Path = COLLECTION) -> Knowledge:
    """Read the catalogue and the launch rules of the collection.

    Raises:
        PatchError: a file is missing or not usable.
    """
    try:
        import yaml  # noqa: PLC0415 - the node, where the rest of module_utils runs, may lack it
    except ImportError as error:
        raise PatchError("PyYAML is not installed", "run with the controller's Python") from error
    try:
        return Knowledge.of(
            yaml.safe_load((collection / CATALOGUE).read_text("utf-8")),
            yaml.safe_load((collection / RULES).read_text("utf-8")),
            json.loads((collection / HISTORY).read_text("utf-8")),
        )
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PatchError(f"the collection is damaged: {error}", "install it again") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="release_report", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "releases",
        nargs="+",
        metavar="TREE_OR_WHEEL",
        help="wheel file, package folder, site-packages, virtual environment or checkout",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument(
        "--launch",
        metavar="ARGUMENTS",
        help=f"launch arguments to judge, in one string; default: {shlex.join(DEFAULT_LAUNCH)}",
    )
    options = parser.parse_args(arguments)
    try:
        argv = None if options.launch is None else shlex.split(options.launch)
        knowledge = shipped_knowledge()
    except (PatchError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT
    found = [release for named in options.releases if (release := _try(named, knowledge, argv))]
    if options.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    elif found:
        sys.stdout.write(text_report(found))
    if len(found) < len(options.releases):
        return BAD_INPUT
    return NEEDS_A_PERSON if any(release["problems"] for release in found) else FINE


def _try(named: str, knowledge: Knowledge, argv: Sequence[str] | None) -> dict[str, Any] | None:
    """Describe one release; None, with a line on standard error, where that is not possible."""
    try:
        return describe(open_tree(named), knowledge, argv)
    except PatchError as error:
        told = " ".join(str(error).split())
        sys.stderr.write(f"error: {told if named in told else f'{named}: {told}'}\n")
        return None


if __name__ == "__main__":
    sys.exit(main())
