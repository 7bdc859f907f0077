#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin `benchmark_report`; the work is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_report
short_description: Say whether speculation pays, as a page, Markdown and JSON
version_added: "0.2.0"
description:
  - Runs on the controller and asks no node. Reads the result of a benchmark and writes
    C(report.html), C(report.md) and C(report.json), each in one rename.
  - The page needs nothing beside it, no network either. docs/benchmark.md says how to read it.
  - Needs matplotlib on the controller.
options:
  document:
    description: The result, as a path on the controller or as it was read from a node.
    type: raw
    required: true
  stored:
    description:
      - Other results, in the same two forms. Of each other stack of the node, and of other nodes,
        the newest is compared with O(document).
      - One that cannot be read is left out and named in RV(ignored).
    type: list
    elements: raw
    default: []
  output:
    description: Folder on the controller for the three files; made where it is missing.
    type: path
    required: true
  tolerance:
    description: When a figure counts as worse than an earlier stack's, in multiples of the
      measured spread.
    type: float
    default: 3.0
attributes:
  check_mode:
    support: full
    description: Nothing is written.
  diff_mode:
    support: none
    description: The files are reports.
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Render a result, compared with those that the node keeps
  sm120.sglang.benchmark_report:
    document: benchmark-results/node-1/2026-11-30T10:00:00Z/result.json
    stored: "{{ stored_results }}"
    output: benchmark-results/node-1/2026-11-30T10:00:00Z
  delegate_to: localhost
"""

RETURN = r"""
files:
  description: The three files.
  type: list
  elements: str
  returned: success
verdicts:
  description: One line for each setting that speculates and each pair of lengths.
  type: list
  elements: str
  returned: success
comparisons:
  description: What the comparison with each other result says.
  type: list
  elements: dict
  returned: success
  contains:
    node:
      description: Where the other result was measured.
      type: str
    stack:
      description: Its stack.
      type: str
    verdict:
      description: C(ok), C(warn) or C(worse).
      type: str
    reason:
      description: Why, in one line.
      type: str
ignored:
  description: Stored results that could not be read, each with the reason.
  type: list
  elements: str
  returned: success
"""
