# SPDX-License-Identifier: Apache-2.0
"""Lookup of a stack by name, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: stack
short_description: Read and check a stack file with its locks
description:
  - Returns the stack C(NAME.yml) from the first folder that has it, checked, with path and digest
    of each lock. An unknown name is refused with the names that exist.
options:
  _terms:
    description: One stack name.
    required: true
  folders:
    description: Folders to search, first match wins.
    type: list
    elements: path
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show a stack
  ansible.builtin.debug:
    msg: "{{ lookup('sm120.sglang.stack', 'lab-0.5.9', folders=['/srv/stacks']) }}"
"""

RETURN = r"""
_raw:
  description: The stack's keys, and C(locks), which maps a Python version to path and sha256.
  type: list
  elements: dict
"""

import difflib
import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.module_utils import _coherence, _stack


def load(name: str, folders: list[Path]) -> dict[str, Any]:
    """Read a stack and check every lock against it.

    Args:
        name: The stack's name.
        folders: Where to look.

    Returns:
        The stack as a mapping, with `locks`.

    Raises:
        _stack.StackError: Unknown name, bad file, or a lock that disagrees.
    """
    for folder in folders:
        path = folder / f"{name}.yml"
        if path.is_file():
            stack = _stack.parse_stack(yaml.safe_load(path.read_text()), str(path))
            break
    else:
        known = sorted({path.stem for folder in folders for path in folder.glob("*.yml")})
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise _stack.StackError(
            f"unknown stack {name!r}{hint}; known: {', '.join(known) or 'none'}; a stack of your "
            "own goes into a folder named in engine_release_stack_folders"
        )
    if stack.name != name:
        raise _stack.StackError(f"{path}: its name is {stack.name!r}")
    locks = {}
    for python in stack.python:
        lock = path.with_name(f"{name}-py{python.replace('.', '')}.lock")
        if not lock.is_file():
            raise _stack.StackError(f"{lock}: missing; make it with `make lock STACK={name}`")
        content = lock.read_bytes()
        pins = _stack.parse_lock(content.decode(), lock.name)
        problems = _stack.check_coherence(stack, pins, lock.name)
        problems += _coherence.check(stack, pins, python, lock.name)
        if problems:
            raise _stack.StackError("; ".join(problems))
        locks[python] = {"path": str(lock), "sha256": hashlib.sha256(content).hexdigest()}
    return {**asdict(stack), "locks": locks}


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Look one stack up.

        Args:
            terms: One name.
            variables: The host's variables, unused beside the options.
            **kwargs: The options.

        Returns:
            A list with the stack.

        Raises:
            AnsibleLookupError: See `load`.
        """
        self.set_options(var_options=variables, direct=kwargs)
        folders = [Path(folder) for folder in self.get_option("folders")]
        try:
            return [load(str(terms[0]), folders)]
        except (_stack.StackError, yaml.YAMLError) as error:
            raise AnsibleLookupError(str(error)) from None  # its own message is whole
