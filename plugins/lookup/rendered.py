# SPDX-License-Identifier: Apache-2.0
"""Lookup of rendered templates, without a copy of all variables for each."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rendered
short_description: The content of files that are made of templates
description:
  - As P(ansible.builtin.template#lookup), which first copies all variables of the host, what was
    read of the node among them; for each file that takes longer than to render it.
options:
  _terms:
    description: Paths of templates on the controller. They include no other template.
    required: true
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show the unit
  ansible.builtin.debug:
    msg: "{{ lookup('sm120.sglang.rendered', role_path ~ '/templates/sglang.service.j2') }}"
"""

RETURN = r"""
_raw:
  description: One text for each template, with its newline at the end.
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.template import trust_as_template


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[str]:
        """Render templates.

        Args:
            terms: Paths.
            variables: The host's variables.
            **kwargs: No options.

        Returns:
            One text for each.

        Raises:
            OSError: A template cannot be read.
            AnsibleError: A template names what is not defined.
        """
        self.set_options(var_options=variables, direct=kwargs)
        templar = self._templar.copy_with_new_env(available_variables=dict(variables or {}))
        texts = [trust_as_template(Path(term).read_text(encoding="utf-8")) for term in terms]
        return [templar.template(text, escape_backslashes=False) for text in texts]
