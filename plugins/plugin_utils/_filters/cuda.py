# SPDX-License-Identifier: Apache-2.0
"""Filters: the decisions of `_cuda` for use in roles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._cuda import (
    decide,
    disturbance,
    files,
    runtime,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host import judge


def cuda_file_paths(_: object = None) -> list[str]:
    """Configuration files of the host that the decision has to see."""
    return [files.PREFERENCES, files.UNATTENDED, files.NOUVEAU, files.OPTIONS, files.GRUB]


def cuda_running(node: Mapping[str, Any]) -> dict[str, str]:
    """`runtime.running` for a reading."""
    return runtime.running(node["cuda"], bool(node["cuda"]["packages"]["driver"]))


def cuda_still_wrong(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`runtime.still_wrong` for the readings before and after a reboot."""
    then, now = before["cuda"], after["cuda"]
    return runtime.still_wrong(
        then["boot_id"], now["boot_id"], cuda_running(after), now["kernel"]["release"]
    )


def cuda_reboot_reasons(node: Mapping[str, Any], changed: Iterable[str]) -> list[str]:
    """Why a node should reboot: its running driver, and files that only a boot reads.

    Args:
        node: The reading after the change.
        changed: Paths of configuration files that were written or removed.
    """
    reason = cuda_running(node)["reason"]
    words = {files.GRUB: "kernel arguments changed", files.OPTIONS: "module options changed"}
    return [*([reason] if reason else []), *(words[p] for p in changed if p in words)]


def cuda_card_verdicts(
    host: Mapping[str, Any],
    wanted: Mapping[str, Any],
    fail_on: Collection[str],
    accept: Collection[str],
) -> list[judge.Verdict]:
    """Refusals of `judge.judge` now that nothing installs a driver any more.

    Args:
        host: The reading's `host` part.
        wanted: As for `judge.judge`.
        fail_on: Checks that refuse the node.
        accept: Checks that somebody accepted by name.
    """
    found = judge.judge(host, {**wanted, "driver_by": ""}, fail_on, accept)
    return [entry for entry in found if entry["verdict"] == "fail"]


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "cuda_plan": decide.plan,
        "cuda_file_paths": cuda_file_paths,
        "cuda_running": cuda_running,
        "cuda_still_wrong": cuda_still_wrong,
        "cuda_reboot_reasons": cuda_reboot_reasons,
        "cuda_card_verdicts": cuda_card_verdicts,
        "cuda_disturbing": disturbance.disturbing,
        "cuda_turn_line": disturbance.turn_line,
        "cuda_obstacles": disturbance.obstacles,
        "cuda_runs_on": disturbance.runs_on,
    }
