# SPDX-License-Identifier: Apache-2.0
"""What an operator reads of an audit: why a release cannot serve a model, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

_MOST_SITES = 3


def refusals(audit: Mapping[str, Any], known: Collection[str] = ()) -> list[str]:
    """One text for each class that lacks a required member; none where nothing is missing.

    Args:
        audit: what ``engine_contract_info`` returns; an audit that could not be made has none.
        known: ids of the shipped patches, which are only to be named, not pasted.
    """
    return [
        _refusal(name, verdict, str(audit.get("algorithm", "")), known)
        for name, verdict in _classes(audit)
        if verdict["missing"]
    ]


def _classes(audit: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    found: Mapping[str, Mapping[str, Any]] = audit.get("architectures") or {}
    return found.items()


def _refusal(name: str, verdict: Mapping[str, Any], algorithm: str, known: Collection[str]) -> str:
    head = (
        f"SGLang's {algorithm} needs members of the target model that {name} ({verdict['at']}) "
        "lacks, and dies without them, maybe after the full weight load:"
    )
    lines = [head]
    for gap in verdict["missing"]:
        sites = gap["call_sites"]
        more = f" and {len(sites) - _MOST_SITES} more" if len(sites) > _MOST_SITES else ""
        lines.append(f"{gap['member']}, asked for at {', '.join(sites[:_MOST_SITES])}{more}.")
        lines.append(f"  Forwarding: {gap['delegation']}, {gap['delegation_reason']}.")
    lines.append(_remedy(verdict, known))
    return "\n".join(lines)


def _remedy(verdict: Mapping[str, Any], known: Collection[str]) -> str:
    entry = verdict["catalogue_entry"]
    otherwise = (
        "Or serve without speculation, take another release, or set source_patches_contract: warn "
        "to see it fail."
    )
    if not entry:
        return f"No patch can be derived from the sources. {otherwise}"
    part = "" if verdict["delegation_fixes"] else ", which supplies a part of it"
    if entry["id"] in known:
        return f"Add {entry['id']} to source_patches_ids{part}. {otherwise}"
    return (
        f"Put this entry into source_patches_catalogue{part}, and its id into "
        f"source_patches_ids:\n{verdict['catalogue_entry_yaml']}{otherwise}"
    )


def remarks(audit: Mapping[str, Any]) -> list[str]:
    """What is worth a line in a run: the verdict on each class, or why there is none."""
    if not audit.get("architectures"):
        reason = audit.get("msg", "it was not made")
        return [f"the interface of the target model could not be audited: {reason}"]
    return [
        f"{name}, {audit.get('algorithm', '')}: {_line(verdict)}"
        for name, verdict in _classes(audit)
    ]


def _line(verdict: Mapping[str, Any]) -> str:
    missing = ", ".join(gap["member"] for gap in verdict["missing"])
    unknown = ", ".join(f"{gap['member']} ({gap['reason']})" for gap in verdict["unknown"])
    parts = [f"lacks {missing}"] if missing else []
    parts += [f"not certain whether it has {unknown}"] if unknown else []
    asked = ", ".join(verdict["required"])
    return "; ".join(parts) or (f"has {asked}" if asked else "nothing is asked of it")
