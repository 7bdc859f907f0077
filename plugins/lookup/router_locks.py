# SPDX-License-Identifier: Apache-2.0
"""Lookup: the locks of one version of SGLang's router."""

from __future__ import annotations

DOCUMENTATION = r"""
name: router_locks
short_description: Read the locks of one version of SGLang's router
description:
  - Finds C(VERSION-pyNN.lock) in a list of folders, one lock a Python version.
options:
  _terms:
    description: The router's version.
    required: true
  folders:
    description: Folders to search; the first that has this version is taken.
    type: list
    elements: path
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show the locks
  ansible.builtin.debug:
    msg: "{{ lookup('sm120.sglang.router_locks', '0.3.2', folders=['my/locks']) }}"
"""

RETURN = r"""
_raw:
  description: Python version to C(path) of its lock and C(release), the id of what it gives.
  type: dict
"""

import hashlib
import re
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.module_utils import _stack
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import decide

_LOCK = re.compile(r"(?P<version>.+)-py3(?P<minor>\d+)\.lock")
_ROUTER = "sglang-router"


def load(version: str, folders: list[Path]) -> dict[str, dict[str, str]]:
    """Read the locks and check that they pin this router.

    Args:
        version: The router's version.
        folders: Where to look.

    Returns:
        Python version to the lock's `path` and the `release` that it gives.

    Raises:
        _stack.StackError: No such version, or a lock that is not usable.
    """
    known: set[str] = set()
    for folder in folders:
        found = {}
        for path in sorted(folder.glob("*.lock")):
            match = _LOCK.fullmatch(path.name)
            if match is None:
                continue
            known.add(match["version"])
            if match["version"] == version:
                content = path.read_bytes()
                check(_stack.parse_lock(content.decode(), path.name), version, path.name)
                digest = hashlib.sha256(content).hexdigest()
                python = f"3.{match['minor']}"
                release = decide.release_id(version, python, digest)
                found[python] = {"path": str(path), "release": release}
        if found:
            return found
    raise _stack.StackError(
        f"there is no lock for router {version!r}; known: {', '.join(sorted(known)) or 'none'}; "
        "one of your own goes into a folder named in gateway_lock_folders"
    )


def check(pins: list[_stack.Pin], version: str, where: str) -> None:
    """Refuse a lock of another router, or one that cannot be verified or installed.

    Args:
        pins: The lock's pins.
        version: The router's version.
        where: The lock's name, for messages.

    Raises:
        _stack.StackError: What is wrong.
    """
    pinned = {pin.name: pin for pin in pins}
    for name in (_ROUTER, "uv"):
        if name not in pinned:
            raise _stack.StackError(f"{where}: pins no {name}")
    if pinned[_ROUTER].version != version:
        raise _stack.StackError(f"{where}: pins {_ROUTER} {pinned[_ROUTER].version}")
    without = [pin.name for pin in pins if not pin.hashes]
    if without:
        raise _stack.StackError(f"{where}: no digest for {', '.join(without)}")


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, dict[str, str]]]:
        """Look one router up.

        Args:
            terms: Its version.
            variables: The host's variables, unused beside the options.
            **kwargs: The options.

        Returns:
            A list with its locks.

        Raises:
            AnsibleLookupError: See `load`.
        """
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [load(str(terms[0]), [Path(folder) for folder in self.get_option("folders")])]
        except (_stack.StackError, OSError) as error:
            raise AnsibleLookupError(str(error)) from None  # its own message is whole
