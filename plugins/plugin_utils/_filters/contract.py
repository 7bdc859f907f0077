# SPDX-License-Identifier: Apache-2.0
"""Filters over an audit of the interface contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._contract import words


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {"contract_refusals": words.refusals, "contract_remarks": words.remarks}
