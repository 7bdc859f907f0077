#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin `upload`; the work is in plugins/action/upload.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: upload
short_description: Bring files with known digests to a node, only those that it lacks
description:
  - Asks the node which of the files it has (M(sm120.sglang.verified_files)), copies the others
    over Ansible's own connection in batches of at most 1 GiB, and has the node verify each one
    before it appears under its name. An interrupted upload goes on where it stopped.
options:
  src:
    description: Folder on the controller that holds the files.
    type: path
    required: true
  dest:
    description: Folder on the node; it must exist.
    type: path
    required: true
  files:
    description: The files that must be there, each with C(name), C(sha256) and C(size).
    type: list
    elements: dict
    required: true
  record:
    description: See M(sm120.sglang.verified_files).
    type: path
  mode:
    description: Mode of files that are brought.
    type: str
    default: "0644"
attributes:
  check_mode:
    description: Reports what would be brought.
    support: full
  diff_mode:
    description: Names of files, not contents.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Bring the wheels
  sm120.sglang.upload:
    src: /srv/wheelhouse/lab
    dest: /opt/sglang/wheels
    files: "{{ wheels }}"
"""

RETURN = r"""
uploaded:
  description: Files that the node lacked.
  type: list
  elements: str
  returned: always
"""
