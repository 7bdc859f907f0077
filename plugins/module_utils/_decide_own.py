# SPDX-License-Identifier: Apache-2.0
"""Decisions about what the roles own beside releases, models and configuration files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._decide import Difference
from ansible_collections.sm120.sglang.plugins.module_utils._node import running
from ansible_collections.sm120.sglang.plugins.module_utils._release import needs_building


def builds(node: Mapping[str, Any], wanted: str) -> bool:
    """Whether a release is built, and not only put right in place.

    Args:
        node: The reading.
        wanted: The release's id.
    """
    seen = node["releases"]
    return wanted not in seen["complete"] or needs_building(seen["drift"].get(wanted, ()))


def folders(node: Mapping[str, Any], wanted: Iterable[Mapping[str, Any]]) -> list[Difference]:
    """Decide which folders have to be made, or given other modes and owners.

    Args:
        node: The reading.
        wanted: Mappings with `path`, `mode`, `owner` and `group`; `optional` for one that need not
            be there.

    Returns:
        One difference a folder.
    """
    found = []
    for entry in wanted:
        seen = node["files"].get(entry["path"], {"exists": False})
        if not seen["exists"]:
            if not entry.get("optional"):
                found.append(_difference(entry["path"], "missing"))
        elif seen["kind"] != "folder":
            found.append(_difference(entry["path"], f"is a {seen['kind']}, not a folder"))
        else:
            wrong = [
                f"{key} is {seen[key]}, not {entry[key]}"
                for key in ("mode", "owner", "group")
                if seen[key] != entry[key]
            ]
            if wrong:
                found.append(_difference(entry["path"], ", ".join(wrong)))
    return found


def account(node: Mapping[str, Any], wanted: Mapping[str, str]) -> list[Difference]:
    """Decide whether the engine's user has to be made or changed.

    Args:
        node: The reading.
        wanted: `name`, `group`, `home` and `shell`.

    Returns:
        At most one difference.
    """
    seen, item = node["user"], f"user {wanted['name']}"
    if not seen["exists"]:
        return [_difference(item, "missing")]
    wrong = [
        f"{key} is {seen[key]}, not {wanted[key]}"
        for key in ("group", "home", "shell")
        if seen[key] != wanted[key]
    ]
    return [_difference(item, ", ".join(wrong))] if wrong else []


def overrides(node: Mapping[str, Any], kept: Collection[str]) -> list[Difference]:
    """Decide which drop-ins and other units of the same name are set aside.

    Args:
        node: The reading.
        kept: The site's own: paths, or names of files.

    Returns:
        One difference a file. The engine restarts for one that systemd had read before its start.
    """
    unit = node["unit"]
    return [
        _difference(
            entry["path"],
            "overrides the unit and is not in engine_drop_ins; it is set aside",
            restart=unit["active_state"] == "active"
            and entry["loaded"]
            and entry["changed_at"] < unit["started_at"],
        )
        for entry in unit["overrides"]
        if entry["path"] not in kept and entry["path"].rpartition("/")[2] not in kept
    ]


def process(node: Mapping[str, Any], launch: str, wanted: Mapping[str, Any]) -> list[Difference]:
    """Decide whether the engine runs with something else than its files say.

    Args:
        node: The reading.
        launch: Digest of the wanted launch. Of another launch the engine restarts anyway.
        wanted: `arguments`, `environment` and `release`.

    Returns:
        One difference a kind; the engine restarts for each.
    """
    unit = node["unit"]
    if unit["active_state"] != "active" or unit["launch"] != launch:
        return []
    phrases = running.differences(
        unit["process"], wanted["arguments"], wanted["environment"], wanted["release"]
    )
    return [_difference("engine", phrase, restart=True) for phrase in phrases]


def previous(node: Mapping[str, Any], release: str) -> list[Difference]:
    """Decide whether the link `previous` has to be put right.

    Args:
        node: The reading.
        release: The wanted release; while another one is current, the switch sets the link.

    Returns:
        At most one difference.
    """
    seen = node["releases"]
    if seen["current"] != release:
        return []
    known, now = node["launches"], seen["previous"]
    for name in ("serving", "before"):
        gone_back_to = known["records"].get(known[name], {}).get("release", "")
        if gone_back_to not in ("", release) and gone_back_to in seen["complete"]:
            if now != gone_back_to:
                return [_difference("previous release", f"is {now or 'none'}, not {gone_back_to}")]
            return []
    if now and now not in seen["complete"]:
        return [_difference("previous release", f"is {now}, which is not there")]
    return []


def _difference(item: str, reason: str, restart: bool = False) -> Difference:
    return {"item": item, "reason": reason, "restart": restart}
