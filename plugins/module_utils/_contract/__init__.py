# SPDX-License-Identifier: Apache-2.0
"""The interface contract: what a release's speculative code asks of the target model object."""

from ansible_collections.sm120.sglang.plugins.module_utils._contract.audit import (
    ALL,
    Audit,
    Verdict,
    audit,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    ContractError,
    Reads,
)

__all__ = ["ALL", "Audit", "ContractError", "Reads", "Verdict", "audit"]
