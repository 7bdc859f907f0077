#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what an SGLang release's speculative code asks of the target model's class."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_contract_info
short_description: Say which methods a target model's class lacks for speculative decoding
version_added: "0.1.0"
description:
  - Finds, in the source of the SGLang release at O(root), every place in its speculative and
    model-runner code that touches the target model object, and says for each whether the engine
    fails there when the model has no such member. Nothing of the release is imported or run.
  - Then looks whether the class of the model has each member, bases in other files, properties,
    attributes of C(__init__) and forwarding included. What the sources do not tell is called
    unknown, never guessed.
  - For a missing method it says whether the model inside the wrapper has it, and writes the patch
    catalogue entry that forwards it, for M(sm120.sglang.source_patch).
  - A class without gaps has the methods; that hidden states are captured rightly is another matter.
options:
  root:
    description:
      - The installed C(sglang) package folder, its C(site-packages), a source checkout, a virtual
        environment, or a wheel file.
    type: path
    required: true
  architecture:
    description:
      - The class, as in C(architectures) of the model's C(config.json), or V(all) for every
        multimodal wrapper that the release registers.
    type: str
    default: all
  algorithm:
    description:
      - Speculative algorithm as C(--speculative-algorithm) takes it; which there are depends on
        the release.
    type: str
    default: EAGLE3
attributes:
  check_mode:
    support: full
    description: Nothing is ever changed.
  diff_mode:
    support: none
    description: There is nothing to compare.
seealso:
  - module: sm120.sglang.source_patch
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Ask a wheel on the controller about one model
  sm120.sglang.engine_contract_info:
    root: wheels/sglang-0.5.9-py3-none-any.whl
    architecture: KimiVLForConditionalGeneration
  delegate_to: localhost
  register: contract

- name: Give the model what it lacks
  sm120.sglang.source_patch:
    root: /opt/sglang/current/venv
    patches: ["{{ entry.id }}"]
    catalog: ["{{ entry }}"]
  vars:
    entry: "{{ contract.architectures.KimiVLForConditionalGeneration.catalogue_entry }}"
  when: entry is truthy
"""

RETURN = r"""
root:
  description: The package folder or the wheel that was read.
  returned: always
  type: str
release:
  description: Version of the release; empty where the tree does not tell.
  returned: always
  type: str
algorithm:
  description: The algorithm, aliases such as C(NEXTN) resolved.
  returned: always
  type: str
workers:
  description: The worker classes that the release makes for it, each with C(class) and C(at).
  returned: always
  type: list
  elements: dict
doubts:
  description: What the reading could not follow, C(file:line) and a sentence.
  returned: always
  type: list
  elements: str
call_sites:
  description: The places that touch the target model.
  returned: always
  type: list
  elements: dict
  contains:
    at:
      description: C(file:line) inside the package.
      type: str
      sample: srt/speculative/eagle_worker.py:157
    function:
      description: The function it stands in.
      type: str
    member:
      description: What is asked for.
      type: str
      sample: get_embed_and_head
    how:
      description: >-
        C(call), C(read), C(write), C(getattr), C(getattr_default), C(hasattr) or C(isinstance).
      type: str
    need:
      description: C(required) where the engine fails without it, else C(optional).
      type: str
    scope:
      description: >-
        C(speculation) where only this algorithm leads there, C(engine) where every launch may.
      type: str
    unless:
      description: Members whose presence, or absence (C(no X)), spares the place.
      type: list
      elements: str
    when:
      description: Conditions on the way that the release alone does not decide.
      type: list
      elements: str
counts:
  description: How many C(classes) there are, and how many are C(ok), C(missing) and C(unknown).
  returned: always
  type: dict
without_class:
  description: Architectures that the release lists as multimodal and registers no class for.
  returned: always
  type: list
  elements: str
architectures:
  description: The verdict on each class, by its name.
  returned: always
  type: dict
  contains:
    at:
      description: Where the class stands.
      type: str
    verdict:
      description: C(ok), C(missing) or C(unknown).
      type: str
    algorithm:
      description: The algorithm.
      type: str
    required:
      description: Members that the engine needs of this class.
      type: list
      elements: str
    optional:
      description: Members that it asks for and does without.
      type: list
      elements: str
    missing:
      description: >-
        Required members that the class lacks, each with C(member), C(call_sites), C(reason),
        C(delegation) (C(yes), C(no) or C(unknown)) and C(delegation_reason).
      type: list
      elements: dict
    unknown:
      description: Required members of which the sources do not tell.
      type: list
      elements: dict
    delegation_fixes:
      description: >-
        Whether forwarding to the model inside supplies all that is missing; null where nothing is
        missing or it is not certain.
      type: bool
    inner:
      description: The attribute that the entry forwards to.
      type: str
    catalogue_entry:
      description: The entry, as data; null for none.
      type: dict
    catalogue_entry_yaml:
      description: The same, ready to paste.
      type: str
    note:
      description: Why there is no entry although forwarding would do.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _priority
from ansible_collections.sm120.sglang.plugins.module_utils._contract import ALL, audit
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._tree import open_tree


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "architecture": {"type": "str", "default": ALL},
            "algorithm": {"type": "str", "default": "EAGLE3"},
        },
        supports_check_mode=True,
    )
    try:
        tree = open_tree(module.params["root"])
        found = audit(tree, module.params["algorithm"], module.params["architecture"])
        module.exit_json(changed=False, root=tree.where, release=tree.version(), **found.as_dict())
    except PatchError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    _priority.give_way()
    main()
