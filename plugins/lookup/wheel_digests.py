# SPDX-License-Identifier: Apache-2.0
"""Lookup of the wheels in a folder on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: wheel_digests
short_description: Wheels in a folder on the controller, with their digests
description:
  - Wheels that are built on the controller shape a release like those that the lock pins.
options:
  _terms:
    description: One folder; empty text for none.
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show the wheels that were built here
  ansible.builtin.debug:
    msg: "{{ lookup('sm120.sglang.wheel_digests', '.lab/wheels') }}"
"""

RETURN = r"""
_raw:
  description: File name to sha256.
  type: list
  elements: dict
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.module_utils import _verified


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, str]]:
        """Digest the wheels.

        Args:
            terms: One folder, or empty text.
            variables: The host's variables, unused.
            **kwargs: No options.

        Returns:
            A list with one mapping, empty without a folder.

        Raises:
            AnsibleLookupError: The folder holds no wheel.
        """
        if not terms[0]:
            return [{}]
        folder = Path(terms[0])
        digests = {path.name: _verified.sha256_file(path) for path in sorted(folder.glob("*.whl"))}
        if not digests:
            raise AnsibleLookupError(
                f"{folder}: no wheel there; build it (the lab: make lab-models), or clear "
                "engine_release_local_wheels"
            )
        return [digests]
