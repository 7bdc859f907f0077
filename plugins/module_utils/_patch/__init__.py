# SPDX-License-Identifier: Apache-2.0
"""Semantic patches of an SGLang release: decide, edit, prove, undo."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import parse_catalogue
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import Patch

# Raised whenever the engine would write other bytes for the same catalogue and source. Releases
# are named after it, so that a newer engine never takes an older release for its own work.
PATCH_ENGINE_VERSION = "1"

# What gets edited: everything that is not there, or only what would hurt by its absence.
POLICIES = ("missing", "needed_only")


def rule_digest(patch: Patch) -> str:
    """Name of what a patch does to a file; its texts for people do not count."""
    content = [PATCH_ENGINE_VERSION, patch.id, patch.file, type(patch.rule).__name__]
    return _digest([*content, asdict(patch.rule)])


def select(catalogue: Sequence[Patch], ids: Sequence[str] | None) -> tuple[Patch, ...]:
    """Pick patches by id, in the catalogue's order; None means all.

    Raises:
        PatchError: an id that the catalogue does not have.
    """
    if ids is None:
        return tuple(catalogue)
    known = [patch.id for patch in catalogue]
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise PatchError(
            f"no patch {', '.join(map(repr, unknown))} in the catalogue",
            f"there are: {', '.join(known) or 'none'}",
        )
    return tuple(patch for patch in catalogue if patch.id in ids)


def catalogue_digest(
    catalogue: Sequence[Mapping[str, Any]],
    selected_ids: Sequence[str] | None = None,
    policy: str = "missing",
) -> str:
    """Name of what a patch run would do to any release, for naming releases after it.

    Args:
        catalogue: entries as read from YAML, the shipped ones and the operator's.
        selected_ids: ids to apply, None for all.
        policy: one of `POLICIES`.

    Returns:
        64 hexadecimal digits; equal for equal rules, whatever their texts and order of ids.

    Raises:
        PatchError: an entry that is not usable, an unknown id or policy.
    """
    if policy not in POLICIES:
        raise PatchError(f"unknown policy {policy!r}", f"there are: {', '.join(POLICIES)}")
    patches = select(parse_catalogue(catalogue), selected_ids)
    return _digest([PATCH_ENGINE_VERSION, policy, *[rule_digest(patch) for patch in patches]])


def _digest(content: list[Any]) -> str:
    text = json.dumps(content, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()
