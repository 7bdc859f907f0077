# SPDX-License-Identifier: Apache-2.0
"""Filters about launches: findings for people, and the all-reduce of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils import _allreduce, _launch
from ansible_collections.sm120.sglang.plugins.module_utils._arguments import lines
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import (
    Launch,
    judge,
    options_of,
    parse_rules,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.plugin_utils._filters.deploy import patch_line

NOTHING_PATCHED = (
    "source_patches_ids is empty: nothing is patched; once it is built, a release that lacks a "
    "method which speculation calls is refused, or with source_patches_contract: warn dies at start"
)


def allreduce_decision(
    node: Mapping[str, Any], stack: Mapping[str, Any], wanted: Mapping[str, Any]
) -> dict[str, Any]:
    """`_allreduce.decide` as a mapping.

    Args:
        node: The reading of `node_facts`.
        stack: The stack.
        wanted: Keys of `_allreduce.Wanted` beside release and cuda.

    Returns:
        `mode`, `reason`, `arguments`, `environment`.

    Raises:
        AnsibleFilterError: See `_allreduce.decide`.
    """
    asked = {**wanted, "tp_size": int(wanted["tp_size"])}
    try:
        asked["arguments"] = _launch.dash_names(asked["arguments"])
        decision = _allreduce.decide(
            _allreduce.Wanted(release=stack["sglang"], cuda=stack["cuda"] is not None, **asked),
            _allreduce.node_of(node.get("host", {})),
        )
    except _launch.LaunchError as error:
        raise AnsibleFilterError(str(error)) from None  # its own message is whole
    return asdict(decision)


def rule_findings(
    words: Sequence[str], raw_rules: object, launch: Mapping[str, Any], node: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What the rules say about a launch on a node.

    Args:
        words: The server arguments.
        raw_rules: The parsed rules.
        launch: `release`, `environment`, `patches`, `cuda` (of the stack).
        node: The reading of `node_facts`. GPUs that it does not tell the capability of count as
            those that this product is for.

    Returns:
        The findings as mappings.

    Raises:
        AnsibleFilterError: The rules cannot be used.
    """
    known = _allreduce.node_of(node.get("host", {})).sm120
    seen = Launch(
        release=launch["release"],
        options=options_of(words),
        environment=launch["environment"],
        sm120=launch["cuda"] is not None and known is not False,
        patches=frozenset(launch["patches"]),
    )
    try:
        return [finding.as_dict() for finding in judge(parse_rules(raw_rules), seen)]
    except PatchError as error:
        raise AnsibleFilterError(str(error)) from None  # its own message is whole


def launch_lines(
    findings: Iterable[Mapping[str, Any]],
    severity: str,
    release: str,
    given: Mapping[str, Any],
    accept: Sequence[str] = (),
) -> list[str]:
    """The findings of one severity, each as a line (`lines.line`).

    Args:
        findings: The findings.
        severity: `error` or `warn`.
        release: SGLang's version.
        given: `engine_arguments`.
        accept: What the operator accepts (`lines.without_accepted`).

    Returns:
        The lines.
    """
    judged = lines.without_accepted(findings, accept)
    return [lines.line(f, release, given) for f in judged if f["severity"] == severity]


def patch_plan(
    catalogue: Iterable[Mapping[str, Any]], forecast: Iterable[Mapping[str, Any]]
) -> list[str]:
    """What the patches do to a release that is to be built, and what they do not do.

    Args:
        catalogue: Catalogue entries of the wanted patches.
        forecast: What the lookup `patch_forecast` says of them; empty where nobody could look.

    Returns:
        For each patch one line: id, what is decided and why, and for one that edits, or of which
        nothing is decided yet, the first sentence of its `does_not`.
    """
    decided = {one["id"]: one for one in forecast}
    found = []
    for entry in catalogue:
        limit = " ".join(str(entry.get("does_not", "")).split()).partition(". ")[0].rstrip(".")
        one = decided.get(entry["id"])
        if one is None:
            line = f"patch {entry['id']}: {entry['title']}"
        else:
            line = f"patch {one['id']}: {patch_line(one)}"
        tell = limit and (one is None or one["changed"])
        found.append(f"{line}. Its limit: {limit}" if tell else line)
    return found


def left_out_patches(
    forecast: Iterable[Mapping[str, Any]], ids: Sequence[str], release: str
) -> list[str]:
    """What a release needs of the patches that nobody asked for.

    Args:
        forecast: What the lookup `patch_forecast` says of the patches that are left out.
        ids: The patches that are wanted.
        release: The SGLang release.

    Returns:
        A line for each patch that is needed, after one about an empty list.
    """
    found = [] if ids else [NOTHING_PATCHED]
    return found + [
        f"patch {one['id']} is left out (source_patches_ids), and SGLang {release} needs it: "
        f"{one['reason']}"
        for one in forecast
        if one["state"] == "needed"
    ]


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "allreduce_decision": allreduce_decision,
        "rule_findings": rule_findings,
        "launch_lines": launch_lines,
        "launch_overrides": lines.overrides,
        "secret_arguments": _launch.secret_arguments,
        "patch_plan": patch_plan,
        "left_out_patches": left_out_patches,
    }
