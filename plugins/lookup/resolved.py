# SPDX-License-Identifier: Apache-2.0
"""Lookup of derived variables of roles, each resolved once."""

from __future__ import annotations

DOCUMENTATION = r"""
name: resolved
short_description: Derived variables of roles, each resolved once
description:
  - Ansible resolves a variable anew wherever it is named, with all that it is made of. One that is
    made of others in several layers is so computed hundreds of times in a play.
  - This resolves each variable once, in the given order, so that a later one finds the earlier
    ones settled. Given to P(ansible.builtin.set_fact#module), the values hold for the rest of the
    play.
  - Look again when something that they are made of has changed. It starts from the roles'
    C(vars/main.yml) each time, never from values that were kept.
options:
  _terms:
    description: Names, each after those that it is made of.
    required: true
  roles:
    description: The roles whose C(vars/main.yml) define them.
    type: list
    elements: str
    required: true
  folder:
    description: The folder that holds the roles.
    type: path
    required: true
  stop:
    description: Names that end the look when their value holds something; the rest is left out.
    type: list
    elements: str
    default: []
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Settle the launch
  ansible.builtin.set_fact:
  args: >-
    {{ lookup('sm120.sglang.resolved', '_engine_arguments', '_engine_launch', roles=['engine'],
              folder=role_path ~ '/..') }}
"""

RETURN = r"""
_raw:
  description: One mapping of name to value.
  type: list
  elements: dict
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Resolve the variables in order.

        Args:
            terms: Names of variables.
            variables: The host's variables.
            **kwargs: The options.

        Returns:
            A list with one mapping of name to value.

        Raises:
            AnsibleLookupError: A name is in none of the roles' `vars/main.yml`.
            AnsibleError: A variable cannot be resolved.
        """
        self.set_options(var_options=variables, direct=kwargs)
        folder = Path(self.get_option("folder"))
        sources: dict[str, Any] = {}
        for role in self.get_option("roles"):
            path = str(folder / role / "vars" / "main.yml")
            # Read when the role was loaded, and nothing here changes it.
            sources |= self._loader.load_from_file(path, unsafe=True, trusted_as_template=True)
        unknown = sorted(set(terms) - set(sources))
        if unknown:
            raise AnsibleLookupError(f"{', '.join(unknown)}: no such derived variable")
        # What an earlier look kept must not be what this one starts from.
        known = {**(variables or {}), **{name: sources[name] for name in terms}}
        found: dict[str, Any] = {}
        templar = self._templar.copy_with_new_env(available_variables=known)
        for name in terms:
            known[name] = found[name] = templar.template(sources[name])
            templar.available_variables = known
            if name in self.get_option("stop") and found[name]:
                break
        return [found]
