# SPDX-License-Identifier: Apache-2.0
"""Options of every module that ends what a run has built."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that ansible-doc puts into each module that extends `sm120.sglang.claimed`."""

    DOCUMENTATION = r"""
options:
  builder:
    description:
      - The run whose tree it has to be, as M(sm120.sglang.release_build) returned it. Another
        controller may have begun to build the same release between two tasks.
    type: str
    default: ""
"""
