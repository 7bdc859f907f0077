#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: bring semantic patches into an SGLang release, or take them back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: source_patch
short_description: Patch an SGLang release by meaning, or take the patches back
version_added: "0.1.0"
description:
  - Says for each patch of a catalogue whether the SGLang release at O(root) needs it, has it,
    or copes without it, and makes the edits that are needed. All edits of a run are made, or none.
  - A patch is judged on the syntax tree of the release, bases in other files included, and never
    by text. What the release does by its own code is never defined a second time.
  - An edit is compiled and its behaviour proved, without a GPU, before it is written.
  - The shipped patches are C(kimi_k25_eagle3_delegation), C(sm120_allreduce_sizes) and
    C(sm120_symm_mem_world_sizes).
  - C(kimi_k25_eagle3_delegation) lets SGLang 0.5.9 serve Kimi-K2.5 with EAGLE-3; newer releases
    have its methods themselves.
  - The two C(sm120_) patches bring no speed on PCIe cards. Without NVSwitch multicast they only
    turn the crash C(KeyError 12) of SGLang 0.5.13.post1 and older, with
    C(--enable-torch-symm-mem), into a warning; the communicator is disabled either way and NCCL
    does the work. Leaving that flag out has the same effect, and from 0.5.14 on no patch is
    needed. See the catalogue and docs/patches.md.
options:
  root:
    description:
      - The installed C(sglang) package folder, its C(site-packages), a source checkout, or a
        virtual environment.
    type: path
    required: true
  patches:
    description:
      - Ids of the patches; all of the catalogue when not given.
    type: list
    elements: str
  catalog:
    description:
      - More patches, by the schema in docs/patches.md. A value in C(rule.value) may be data, or a
        Python literal as text.
    type: list
    elements: dict
    default: []
  shipped_catalog:
    description:
      - The patches of the collection. Filled in by the action plugin; not for playbooks.
    type: list
    elements: dict
    default: []
  policy:
    description:
      - V(missing) edits wherever the entry or the method is missing, also where the release copes
        without it (RV(patches[].state=obsolete)).
      - V(needed_only) edits only where its absence does harm.
      - Neither edits what the release has by its own code.
    type: str
    choices: [missing, needed_only]
    default: missing
  on_conflict:
    description:
      - What to do when a patch fits the release in no certain way.
      - V(fail) changes nothing at all and fails. V(skip) makes the other patches and only reports.
    type: str
    choices: [fail, skip]
    default: fail
  state:
    description:
      - V(present) makes the patches. V(absent) takes them back; the files get their old bytes.
    type: str
    choices: [present, absent]
    default: present
  manifest:
    description:
      - The file that records what was edited, with all that is needed to take it back.
      - By default C(sglang.patches.json) beside the package folder.
    type: path
  python:
    description:
      - The release's Python interpreter. When given, the delegation patches are also proved on the
        real class, which is imported by it; an import that fails is reported and no error.
    type: path
  python_environment:
    description:
      - Environment variables for O(python).
    type: dict
    default: {}
  builder:
    description:
      - The run whose tree it has to be, as M(sm120.sglang.release_build) returned it; then nothing
        else is built on the node meanwhile. Another controller may have begun to build the same
        release between two tasks.
      - Any tree when empty.
    type: str
    default: ""
  prove:
    description:
      - Whose behaviour is proved. V(changed) is that of the patches made in this run, V(always)
        also that of those in place, V(never) none.
    type: str
    choices: [changed, always, never]
    default: changed
attributes:
  check_mode:
    support: full
    description: Says exactly what a run would do; proofs run on the planned bytes.
  diff_mode:
    support: full
    description: Shows the files as they are and as they would be.
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Bring all patches that the release needs
  sm120.sglang.source_patch:
    root: /opt/sglang/current/venv
    manifest: /opt/sglang/current/patches.json

- name: Say what a release on the controller would need
  sm120.sglang.source_patch:
    root: ~/src/sglang
    on_conflict: skip
  check_mode: true
  delegate_to: localhost

- name: Add a patch of your own
  sm120.sglang.source_patch:
    root: /opt/sglang/current/venv
    patches: [kimi_vl_eagle3_delegation]
    catalog:
      - id: kimi_vl_eagle3_delegation
        title: KimiVL answers the EAGLE-3 calls for its language model
        file: srt/models/kimi_vl.py
        rule:
          kind: ensure_delegating_methods
          class: KimiVLForConditionalGeneration
          target: language_model
          methods: [set_eagle3_layers_to_capture(layer_ids=None), get_embed_and_head()]

- name: Take everything back
  sm120.sglang.source_patch:
    root: /opt/sglang/current/venv
    manifest: /opt/sglang/current/patches.json
    state: absent
"""

RETURN = r"""
root:
  description: The package folder that was found.
  returned: always
  type: str
release:
  description: Version of the release; empty where the tree does not tell.
  returned: always
  type: str
manifest:
  description: The record of the edits.
  returned: always
  type: str
patches:
  description: What was found and done, one for each patch.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: The patch.
      type: str
    file:
      description: Its file, relative to the package folder.
      type: str
    state:
      description:
        - What was found before anything changed. C(needed), C(applied) (by this module, the record
          and the file agree), C(upstream) (the release does it itself), C(obsolete) (missing, but
          the release copes), C(conflict) (not certain; nothing is changed), C(absent) (no such
          file in this release).
      type: str
      sample: needed
    reason:
      description: One sentence for a person.
      type: str
    evidence:
      description: Lines C(file:line what).
      type: list
      elements: str
    changed:
      description: The file is changed for this patch.
      type: bool
    sha256_before:
      description: Checksum of the file before the run; null where there is none.
      type: str
    sha256_after:
      description: Checksum of the file after the run.
      type: str
    proof:
      description: What was proved about the behaviour, with a C(summary); null where nothing was.
      type: dict
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sm120.sglang.plugins.module_utils import _priority, _release
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.run import Request, Result, run


def arguments() -> dict[str, Any]:
    """The module's parameters."""
    return {
        "root": {"type": "path", "required": True},
        "patches": {"type": "list", "elements": "str"},
        "catalog": {"type": "list", "elements": "dict", "default": []},
        "shipped_catalog": {"type": "list", "elements": "dict", "default": []},
        "policy": {"type": "str", "choices": ["missing", "needed_only"], "default": "missing"},
        "on_conflict": {"type": "str", "choices": ["fail", "skip"], "default": "fail"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "manifest": {"type": "path"},
        "python": {"type": "path"},
        "python_environment": {"type": "dict", "default": {}},
        "prove": {"type": "str", "choices": ["changed", "always", "never"], "default": "changed"},
        "builder": {"type": "str", "default": ""},
    }


def report(result: Result) -> dict[str, Any]:
    """The run's result in the module's words."""
    return {
        "changed": result.changed,
        "root": str(result.root),
        "release": result.release,
        "manifest": str(result.manifest),
        "patches": [asdict(outcome) for outcome in result.outcomes],
        "diff": result.diff,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=arguments(), supports_check_mode=True)
    own = {"patches", "manifest", "python", "builder"}
    names = [name for name in arguments() if name not in own]
    request = Request(
        **{name: module.params[name] for name in names},
        patches=module.params["patches"],
        manifest=module.params["manifest"] or "",
        python=module.params["python"] or "",
        check_mode=module.check_mode,
    )
    try:
        with _release.claimed(Path(request.root), module.params["builder"]):
            result = run(request)
    except (PatchError, _release.ReleaseError) as error:
        module.fail_json(msg=str(error))
    if result.refused:
        module.fail_json(msg=result.refused, **report(result))
    module.exit_json(**report(result))


if __name__ == "__main__":
    _priority.give_way()
    main()
