#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin `pass_on`; the work is in plugins/action/pass_on.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pass_on
short_description: Bring files with known digests to many nodes, which pass them on
description:
  - Asks each node which of the files it lacks, and lets the nodes pass them on among themselves;
    the controller gives each network of nodes each file once. Nodes give what they have while
    more still arrives.
  - Every file is verified by its sha256 where it arrives, before it appears under its name or is
    given on. Parts of files stay and the next run goes on with them.
  - Meant for C(run_once). It fails for none of the nodes; what it could not bring is brought by
    M(sm120.sglang.upload) afterwards, and said in RV(troubles).
  - For the time of the run a node has an SSH server of its own for the others, as a unit of
    systemd which ends, with its keys, when the connection to the controller ends.
options:
  nodes:
    description: The nodes that take part, those that may give included.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name in the inventory.
        type: str
        required: true
      address:
        description:
          - The node's own address for the other nodes; without one the controller brings
            everything.
        type: str
        default: ""
      port:
        description: TCP port on which it gives.
        type: int
        default: 22730
      network:
        description: Nodes with the same name here reach each other.
        type: str
        default: nodes
      takes:
        description: Whether it is brought what it lacks; one that is not may still give.
        type: bool
        default: true
      folders:
        description: What the node must have.
        type: list
        elements: dict
        required: true
        suboptions:
          dest:
            description: Folder on the node; the folder above it exists.
            type: path
            required: true
          record:
            description: See M(sm120.sglang.verified_files).
            type: path
            default: ""
          src:
            description: Folder on the controller that holds the files; empty where it has none.
            type: path
            default: ""
          files:
            description: The files.
            type: list
            elements: dict
            required: true
            suboptions:
              name:
                description: Name relative to O(nodes[].folders[].dest).
                type: str
                required: true
              sha256:
                description: Digest in lower case hexadecimal.
                type: str
                required: true
              size:
                description: Size in bytes.
                type: int
                required: true
  streams:
    description: Transfers that a node, or the controller, gives at a time, and that a node takes.
    type: int
    default: 2
  least:
    description: Bytes below which files travel together, several with one connection.
    type: int
    default: 134217728
  limit:
    description: Million bytes a second that a node gives to the others at most; 0 for no limit.
    type: float
    default: 0.0
  controller_limit:
    description: Million bytes a second that the controller gives at most; 0 for no limit.
    type: float
    default: 0.0
attributes:
  check_mode:
    description: Asks the nodes, and tells who would take how much from whom.
    support: full
  diff_mode:
    description: Names of files, not contents.
    support: none
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Bring a model to two nodes
  sm120.sglang.pass_on:
    nodes:
      - {name: node-1, address: 10.0.0.1, folders: "{{ folders }}"}
      - {name: node-2, address: 10.0.0.2, folders: "{{ folders }}"}
    limit: 500
  run_once: true
  vars:
    folders:
      - dest: /var/lib/sglang/models/draft/1
        src: /srv/models/draft
        files: "{{ files }}"
"""

RETURN = r"""
lines:
  description: What each node took from whom, or would take in check mode.
  type: list
  elements: str
  returned: always
resumed:
  description: Bytes of each receiver that were there from an earlier attempt.
  type: dict
  returned: always
troubles:
  description: What went wrong, and between whom.
  type: list
  elements: str
  returned: always
waves:
  description:
    - The plan, as if all transfers took equally long. Each wave is a list of transfers with
      C(receiver), C(source) (empty for the controller), C(files) and C(bytes).
  type: list
  elements: list
  returned: always
"""
