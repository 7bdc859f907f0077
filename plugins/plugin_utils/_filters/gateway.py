# SPDX-License-Identifier: Apache-2.0
"""Filters: the decisions of `_gateway` for use in roles and playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._gateway import decide


def router_choice(
    pythons: Mapping[str, str], version: str, locks: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """`decide.choose` for a host's interpreters."""
    return dict(decide.choose(version, locks, pythons))


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "gateway_lines": decide.lines,
        "gateway_membership": decide.membership,
        "gateway_plan": decide.plan,
        "gateway_problems": decide.problems,
        "gateway_restart_reasons": decide.restart_reasons,
        "gateway_strangers": decide.strangers,
        "gateway_summary": decide.summary,
        "gateway_workers": decide.workers,
        "router_choice": router_choice,
        "worker_address": decide.worker_address,
    }
