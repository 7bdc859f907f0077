#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin `release_report`; the work is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_report
short_description: Say what an SGLang release needs, has, lacks and refuses
version_added: "0.2.0"
description:
  - Runs on the controller and asks no node. Reads the files of SGLang releases, imports nothing of
    them, prints a table, and writes JSON and Markdown.
  - Says for each release the state of every shipped patch (M(sm120.sglang.source_patch)), which
    methods the Kimi-K2.5 model class lacks for EAGLE-3, how many multimodal wrappers have them,
    which of the product's own launch arguments are unknown, deprecated or fatal on compute
    capability 12, and what the release depends on.
  - What a patch does not do stands in RV(releases[].patches[].does_not). The two patches of the
    all-reduce tables bring no speed on PCIe cards.
options:
  releases:
    description:
      - Versions as on the package index, wheel files, package folders, checkouts, virtual
        environments; a list, or one text with commas.
    type: raw
    required: true
  cache:
    description: Folder for the wheels of versions; pip downloads those that it lacks.
    type: path
    required: true
  report:
    description: Path of the files to write, without C(.json) and C(.md).
    type: path
    required: true
attributes:
  check_mode:
    support: full
    description: The two files are not written. Wheels are downloaded, for there is no other way
      to know.
  diff_mode:
    support: none
    description: The files are reports.
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Look at two releases before an upgrade
  sm120.sglang.release_report:
    releases: [0.5.9, 0.5.23]
    cache: ~/.cache/sm120-sglang/wheels
    report: release-report
  delegate_to: localhost
"""

RETURN = r"""
releases:
  description: One description for each release; docs/releases.md explains the keys.
  type: list
  elements: dict
  returned: success
  contains:
    release:
      description: The version.
      type: str
    source:
      description: The wheel or folder that was read.
      type: str
    sha256:
      description: Digest of the wheel.
      type: str
    patches:
      description: One entry for each patch, with its state, reason, evidence, and what it does
        not do.
      type: list
      elements: dict
    contract:
      description: What the served model class lacks, by class.
      type: dict
    contract_counts:
      description: How many multimodal wrappers have what EAGLE-3 asks.
      type: dict
    launch:
      description: Launch arguments that are unknown, deprecated, or fatal on compute capability 12.
      type: dict
    dependencies:
      description: What the release's metadata asks for.
      type: dict
    problems:
      description: What needs a person.
      type: list
      elements: str
problems:
  description: What needs a person, of all releases.
  type: list
  elements: str
  returned: success
report_json:
  description: The JSON file.
  type: str
  returned: success
report_markdown:
  description: The Markdown file.
  type: str
  returned: success
"""
