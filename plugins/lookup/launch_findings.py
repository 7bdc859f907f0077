# SPDX-License-Identifier: Apache-2.0
"""Lookup of what a stack's SGLang release says about server arguments, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: launch_findings
short_description: Judge server arguments by the source of a stack's SGLang release
description:
  - Reads the arguments that the release declares out of its wheel, which lies in the wheelhouse.
    Nothing of it is installed, imported or run, and no node is needed.
  - Says which arguments are unknown, removed, renamed, ambiguous, deprecated or have a value that
    the release refuses, which are given twice in different spellings, and which SGLang variables
    nothing in the release reads.
  - An argument that a variable of the role P(sm120.sglang.engine#role) sets is refused in every
    spelling but the role's.
  - What the source does not tell is never an error.
  - To read the source takes longer than all else that a launch is judged by. What it said is kept
    in the wheelhouse, by the wheel, the launch and this collection's own files.
options:
  _terms:
    description: One stack, as the lookup P(sm120.sglang.stack#lookup) gives it.
    required: true
  words:
    description: The server arguments.
    type: list
    elements: str
    required: true
  environment:
    description: The engine's own variables.
    type: dict
    default: {}
  wheelhouse:
    description: The folder with the wheelhouses.
    type: path
    required: true
  rules:
    description:
      - The parsed C(launch_rules.yml) of the role P(sm120.sglang.engine#role). They are applied
        once the node is read; here no remedy leads into one of them.
    type: list
    elements: dict
    default: []
  history:
    description: The parsed C(argument_history.json) of the role P(sm120.sglang.engine#role).
    type: dict
    default: {}
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show what the release says about an argument
  ansible.builtin.debug:
    msg: >-
      {{ lookup('sm120.sglang.launch_findings', stack, words=['--model-path', 'm'],
                wheelhouse='~/.cache/sm120-sglang/wheelhouse') }}
"""

RETURN = r"""
_raw:
  description: One mapping with C(wheel), the path of the wheel or empty when it is not there, and
    C(findings), each with argument, kind, severity, reason, where and remedy.
  type: list
  elements: dict
"""

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.module_utils import (
    _arguments,
    _patch,
    _stack,
    _tree,
    _verified,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.check import (
    check_words,
    parse_history,
    unread_variables,
    without_misleading_remedies,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.lines import OWN_VARIABLES
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.read import read_parser
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import (
    Launch,
    judge,
    parse_rules,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree
from ansible_collections.sm120.sglang.plugins.plugin_utils import _remembered
from ansible_collections.sm120.sglang.plugins.plugin_utils._remembered import (
    fingerprint,
    remembered,
)


def wheels(stack: Mapping[str, Any], wheelhouse: Path) -> list[Path]:
    """The wheels of a stack's SGLang version in a wheelhouse, by name."""
    return sorted(wheelhouse.glob(f"*/sglang-{stack['sglang']}-*.whl"))


@functools.cache
def own_files() -> list[list[Any]]:
    """Fingerprints of the code that a judgement is made by."""
    parts = [_stack, _verified, _arguments, _patch, _tree]
    files = [Path(__file__), Path(_remembered.__file__)]
    for part in parts:
        place = Path(str(part.__file__))
        files += sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
    return [fingerprint(path) for path in files]


def find_wheel(stack: Mapping[str, Any], wheelhouse: Path) -> Path | None:
    """The SGLang wheel of a stack in a wheelhouse.

    Args:
        stack: The stack with its locks.
        wheelhouse: The folder with the wheelhouses.

    Returns:
        A wheel whose digest is in one of the locks (or of the right version, where a lock has no
        digest for it), None without one.

    Raises:
        _stack.StackError: A lock cannot be read.
        OSError: Likewise.
    """
    hashes: set[str] = set()
    unhashed = False
    for lock in stack["locks"].values():
        path = Path(lock["path"])
        for pin in _stack.parse_lock(path.read_text(encoding="utf-8"), path.name):
            if pin.name == "sglang":
                hashes |= set(pin.hashes)
                unhashed |= not pin.hashes
    for wheel in wheels(stack, wheelhouse):
        if unhashed or _verified.sha256_file(wheel) in hashes:
            return wheel
    return None


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self,
        terms: list[Mapping[str, Any]],
        variables: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[dict[str, Any]]:
        """Judge the arguments.

        Args:
            terms: One stack.
            variables: The host's variables, unused beside the options.
            **kwargs: The options.

        Returns:
            A list with one mapping.

        Raises:
            AnsibleLookupError: The wheel is there and cannot be read.
        """
        self.set_options(var_options=variables, direct=kwargs)
        stack = terms[0]
        release = str(stack["sglang"])
        wheelhouse = Path(self.get_option("wheelhouse")).expanduser()
        options = [self.get_option(name) for name in ("words", "environment", "history", "rules")]
        try:
            there = wheels(stack, wheelhouse)
            if not there:
                return [{"wheel": "", "findings": []}]
            locks = [Path(lock["path"]) for lock in stack["locks"].values()]
            files = [fingerprint(path) for path in [*locks, *there]]
            parts = [sys.version_info[:3], own_files(), release, files, options]
            made = remembered(wheelhouse, parts, lambda: self._judge(stack, wheelhouse))
        except (PatchError, _stack.StackError, OSError) as error:
            raise AnsibleLookupError(
                f"SGLang {release}: {error}"
            ) from None  # its own message is whole
        found: dict[str, Any] = made
        return [found]

    def _judge(self, stack: Mapping[str, Any], wheelhouse: Path) -> dict[str, Any]:
        release = str(stack["sglang"])
        history = self.get_option("history")
        wheel = find_wheel(stack, wheelhouse)
        if wheel is None:
            return {"wheel": "", "findings": []}
        tree = open_tree(str(wheel))
        found, options = check_words(
            read_parser(tree),
            [str(word) for word in self.get_option("words")],
            release,
            parse_history(history) if history else None,
            owned=OWN_VARIABLES,
        )
        ruled = judge(parse_rules(self.get_option("rules")), Launch(release, options))
        found = without_misleading_remedies(found, ruled)
        found += unread_variables(tree, self.get_option("environment"))
        return {"wheel": str(wheel), "findings": [finding.as_dict() for finding in found]}
