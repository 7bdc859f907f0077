# SPDX-License-Identifier: Apache-2.0
"""Lookup of what the patches would do to a release that no node has yet, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: patch_forecast
short_description: Say what the patches would do to a release, by its wheel
description:
  - Decides each patch as M(sm120.sglang.source_patch) does on the node, from the files in the
    release's wheel, so that a plan can say what a release needs before it is built.
options:
  _terms:
    description: One wheel of SGLang; empty text for none.
    required: true
  catalogue:
    description: All patches, the operator's behind the shipped ones.
    type: list
    elements: dict
    required: true
  patches:
    description: Ids of the patches that are wanted.
    type: list
    elements: str
    required: true
  policy:
    description: As in M(sm120.sglang.source_patch).
    type: str
    default: missing
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Show what the release needs
  ansible.builtin.debug:
    msg: >-
      {{ lookup('sm120.sglang.patch_forecast', 'sglang-0.5.9-py3-none-any.whl',
                catalogue=catalogue, patches=['kimi_k25_eagle3_delegation']) }}
"""

RETURN = r"""
_raw:
  description: One list; for each patch its C(id), C(state), C(reason), and C(changed), whether
    files are edited for it. Empty without a wheel.
  type: list
  elements: list
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.sm120.sglang.plugins.module_utils._patch import select
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import parse_catalogue
from ansible_collections.sm120.sglang.plugins.module_utils._patch.engine import plan_present
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import Manifest
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self,
        terms: list[str],
        variables: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[list[dict[str, Any]]]:
        """Decide the patches.

        Args:
            terms: One wheel, or empty text.
            variables: The host's variables, unused beside the options.
            **kwargs: The options.

        Returns:
            A list with one list.

        Raises:
            AnsibleLookupError: The wheel cannot be read, or the catalogue is wrong.
        """
        self.set_options(var_options=variables, direct=kwargs)
        if not terms[0]:
            return [[]]
        try:
            catalogue = parse_catalogue(self.get_option("catalogue"))
            wanted = select(catalogue, self.get_option("patches"))
            tree = open_tree(str(terms[0]))
            plan = plan_present(tree, wanted, catalogue, Manifest(), self.get_option("policy"))
        except PatchError as error:
            raise AnsibleLookupError(f"{terms[0]}: {error}") from None  # its own message is whole
        names = ("id", "state", "reason", "changed")
        return [[{name: getattr(one, name) for name in names} for one in plan.outcomes]]
