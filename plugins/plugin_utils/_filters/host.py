# SPDX-License-Identifier: Apache-2.0
"""Filters: verdicts on a node, and the report of all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _decide
from ansible_collections.sm120.sglang.plugins.module_utils._group import reach
from ansible_collections.sm120.sglang.plugins.module_utils._host import judge, report


def preflight_verdicts(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[judge.Verdict]:
    """Judge a node: what the deployment needs of it, and the host itself.

    Args:
        node: What `node_facts` with `host: true` gave.
        wanted: As for `_decide.preflight`, and `group` (as for `reach.judge`), `host` (as for
            `judge.judge`), `fail_on` and `accept`.

    Returns:
        One verdict a check.
    """
    deployment = [
        judge.verdict(
            judge.explain(entry["id"], entry["verdict"], entry["read"], entry["remedy"]),
            wanted["fail_on"],
            wanted["accept"],
        )
        for entry in [*_decide.preflight(node, wanted), *reach.judge(node, wanted["group"])]
    ]
    host = judge.judge(node["host"], wanted["host"], wanted["fail_on"], wanted["accept"])
    return [*deployment, *host]


def unreadable_verdicts(result: Mapping[str, Any]) -> list[judge.Verdict]:
    """The one verdict on a node whose reading failed.

    Args:
        result: The failed task's result.
    """
    said = " ".join(str(result.get("msg", "no answer")).split())[:300]
    return [judge.verdict(judge.explain("reachable", "fail", said), ("reachable",))]


def preflight_report(
    hostvars: Mapping[str, Any], names: Iterable[str], written: str
) -> dict[str, Any]:
    """Assemble the report of all nodes.

    Args:
        hostvars: Ansible's `hostvars`.
        names: The nodes of the play; one whose play ended before its verdicts is a failure.
        written: When, ISO 8601.

    Returns:
        See `report.report`.
    """
    lost = {"msg": "the play ended for this node before it was judged; its message stands above"}
    nodes = {}
    for name in names:
        verdicts = hostvars[name].get("_preflight_verdicts")
        nodes[name] = unreadable_verdicts(lost) if verdicts is None else verdicts
    return report.report(nodes, written)


def preflight_table(found: Mapping[str, Any]) -> str:
    """A report as a table for people."""
    tables = [report.table(name, entry["verdicts"]) for name, entry in found["nodes"].items()]
    return "\n\n".join(tables)


def verdict_lines(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line each verdict, for a play's messages."""
    return [
        f"{entry['id']}: {entry['read']}."
        + (
            " Accepted."
            if entry["accepted"]
            else f" Why: {entry['why']}. Remedy: {entry['remedy']}."
        )
        for entry in verdicts
    ]


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "preflight_verdicts": preflight_verdicts,
        "mistyped_checks": judge.mistyped,
        "unreadable_verdicts": unreadable_verdicts,
        "preflight_report": preflight_report,
        "preflight_table": preflight_table,
        "verdict_lines": verdict_lines,
    }
