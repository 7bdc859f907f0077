# SPDX-License-Identifier: Apache-2.0
"""Filters: what `engine_probe` found on all nodes, as one table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._gateway import decide

_UNREACHABLE = "unreachable"
_HEAD = (
    "node",
    "state",
    "release",
    "sglang",
    "patches",
    "up",
    "accept",
    "tok/s",
    "KV",
    "run/wait",
    "GPUs",
)
_GATEWAYS = "gateways"
_UNASKED = ": cannot be asked: "
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def status_table(
    found: Mapping[str, Mapping[str, Any]],
    gateways: Mapping[str, Mapping[str, Any]] | None = None,
    heads: Sequence[str] = (),
) -> list[str]:
    """Render a table, and one line below it for each node with something to say.

    Args:
        found: Node to the result of `engine_probe`, or of a task that failed.
        gateways: Gateway to the result of `gateway_facts`, or of a task that failed. Without one
            the table says nothing of them.
        heads: The nodes that answer for an engine; gateways know no other ones.

    Returns:
        Lines of text, columns aligned.
    """
    out = {node: _out(node, gateways or {}) if node in heads else None for node in found}
    rows: list[tuple[str, ...]] = [_HEAD, *(_row(node, found[node]) for node in sorted(found))]
    if gateways:
        cells = [_GATEWAYS, *(_inside(out[node], len(gateways)) for node in sorted(found))]
        rows = [(*row[:2], cell, *row[2:]) for row, cell in zip(rows, cells, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for node in sorted(found):
        one = found[node]
        if one.get("state") != "ready":
            lines.append(f"{node}: {one.get('why') or one.get('msg') or 'no answer'}")
        lines += [f"{node}: {problem}" for problem in one.get("problems", [])]
        lines += [f"{node}: {reason}" for reason in out[node] or ()]
    return lines


def _out(node: str, gateways: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why a node gets no requests, for each gateway that sends it none."""
    readings = {
        name: one.get("gateway") or {"error": str(one.get("msg") or "it cannot be reached").strip()}
        for name, one in gateways.items()
    }
    return [f"{one['item']}: {one['reason']}" for one in decide.membership(node, readings)]


def _inside(out: Sequence[str] | None, gateways: int) -> str:
    """How many gateways send to a node; of one that was not asked nobody knows."""
    if out is None:
        return "-"
    if not out:
        return "in"
    if any(_UNASKED in reason for reason in out):
        return "?"
    return "OUT" if len(out) == gateways else f"in {gateways - len(out)} of {gateways}"


def _row(node: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    if "state" not in one:
        return (node, _UNREACHABLE, *["-"] * (len(_HEAD) - 2))
    waits = "-" if one["running"] is None else f"{one['running']}/{_or(one['queued'], '{}')}"
    return (
        node,
        one["state"] + (f" ({one['node']} of {one['nodes']})" if one["nodes"] > 1 else ""),
        one["release"] or "-",
        one["sglang"] or "-",
        str(len(one["patches"])),
        _span(one["uptime"]),
        _or(one["accept_length"], "{:.2f}"),
        _or(one["throughput"], "{:.1f}"),
        _or(one["kv_use"], "{:.0%}"),
        waits,
        _gpus(one["gpus"]),
    )


def _or(value: Any, form: str) -> str:
    return "-" if value is None else form.format(value)


def _span(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> str:
    """How many, their used memory and load, and the hottest one."""
    if not gpus:
        return "none"
    used = [gpu["used_mib"] / gpu["memory_mib"] for gpu in gpus if gpu.get("memory_mib")]
    busy = [gpu["busy_percent"] for gpu in gpus if gpu.get("busy_percent") is not None]
    heat = [gpu["celsius"] for gpu in gpus if gpu.get("celsius") is not None]
    parts = [str(len(gpus))]
    if used:
        parts.append(f"mem {min(used):.0%}-{max(used):.0%}")
    if busy:
        parts.append(f"busy {min(busy):.0f}-{max(busy):.0f}%")
    if heat:
        parts.append(f"{max(heat):.0f}C")
    return " ".join(parts)


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {"status_table": status_table}
