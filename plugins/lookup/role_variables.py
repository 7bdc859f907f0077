# SPDX-License-Identifier: Apache-2.0
"""Lookup of the public variables of roles."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_variables
short_description: Names of the public variables of roles, from their argument specs
description:
  - An argument spec is the one list of what a role takes.
options:
  _terms:
    description: Role names.
    required: true
  folder:
    description: The folder that holds the roles.
    type: path
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show the engine's variables
  ansible.builtin.debug:
    msg: "{{ q('sm120.sglang.role_variables', 'engine', folder='roles') }}"
"""

RETURN = r"""
_raw:
  description: Variable names.
  type: list
  elements: str
"""

import functools
from pathlib import Path
from typing import Any

from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.lookup import LookupBase


@functools.cache
def role_options(folder: Path, role: str) -> dict[str, dict[str, Any]]:
    """The public variables of a role.

    Args:
        folder: The folder that holds the roles.
        role: The role's name.

    Returns:
        Variable to its argument specification, in order.

    Raises:
        OSError: The role has no argument spec.
    """
    text = (folder / role / "meta" / "argument_specs.yml").read_text("utf-8")
    options: dict[str, dict[str, Any]] = yaml_load(text)["argument_specs"]["main"]["options"]
    return options


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[str]:
        """List the names.

        Args:
            terms: Role names.
            variables: The host's variables, unused beside the options.
            **kwargs: The options.

        Returns:
            Every role's option names, in order.
        """
        self.set_options(var_options=variables, direct=kwargs)
        folder = Path(self.get_option("folder"))
        names: list[str] = []
        for role in terms:
            names += role_options(folder, role)
        return names
