# SPDX-License-Identifier: Apache-2.0
"""Describe one release: patches, interface contract, launch arguments, dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments import ArgumentsError
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.report import launch_report
from ansible_collections.sm120.sglang.plugins.module_utils._contract import ContractError, audit
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import parse_catalogue
from ansible_collections.sm120.sglang.plugins.module_utils._patch.engine import plan_present
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import ManifestError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import Manifest, load
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import Modules
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import Patch
from ansible_collections.sm120.sglang.plugins.module_utils._patch.work import Outcome
from ansible_collections.sm120.sglang.plugins.module_utils._report.dependencies import (
    dependencies,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree import Folder, Tree

ARCHITECTURE = "KimiK25ForConditionalGeneration"
MODEL_FILE = "srt/models/kimi_k25.py"
ALGORITHM = "EAGLE3"

# A release on a node: releases/NAME/patches.json beside venv/lib/python3.X/site-packages/sglang.
_RECORD_ABOVE = 5


@dataclass(frozen=True)
class Knowledge:
    """What the product brings to a release.

    Attributes:
        catalogue: the patches.
        launch_rules: the parsed rules on launch arguments.
        argument_history: the parsed history of launch arguments.
    """

    catalogue: Sequence[Patch]
    launch_rules: object
    argument_history: object

    @classmethod
    def of(cls, catalogue: Any, launch_rules: object, argument_history: object) -> Knowledge:
        """From the parsed files.

        Raises:
            CatalogueError: the catalogue has a bad entry.
        """
        return cls(parse_catalogue(catalogue), launch_rules, argument_history)


def describe(tree: Tree, knowledge: Knowledge, argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Describe a release. Reads only.

    Args:
        tree: the release.
        knowledge: patches and rules.
        argv: launch arguments to judge; the product's own for Kimi-K2.5 with EAGLE-3 where None.

    Returns:
        Plain data; the keys are in docs/releases.md. ``problems`` names what needs a person.

    Raises:
        PatchError: the release cannot be read: damaged files, or syntax that this Python lacks.
    """
    modules = Modules(tree.read)
    for path in {patch.file: None for patch in knowledge.catalogue if patch.file.endswith(".py")}:
        modules.source(path)  # a damaged file is no finding but bad input
    outcomes = _patches(tree, knowledge)
    problems = [
        f"patch {outcome.id}: {outcome.reason}"
        for outcome in outcomes
        if outcome.state == "conflict"
    ]
    contract, counts, doubts = _contract(tree, modules)
    held = [outcome.id for outcome in outcomes if outcome.state in {"applied", "upstream"}]
    version = tree.version()
    try:
        launch = launch_report(
            tree,
            version,
            knowledge.launch_rules,
            argv,
            raw_history=knowledge.argument_history,
            patches=held,
            modules=modules,
        )
    except ArgumentsError as error:
        problems.append(f"launch: {error}")
        keys = ("unknown", "deprecated", "fatal_on_sm120", "findings", "original_command")
        launch = {key: [] for key in keys}
    return {
        "release": version,
        "source": tree.where,
        "patches": [_patch(outcome, knowledge) for outcome in outcomes],
        "contract": contract,
        "contract_counts": counts,
        "launch": launch,
        "dependencies": dependencies(tree.metadata()),
        "problems": [*problems, *doubts],
    }


def _patches(tree: Tree, knowledge: Knowledge) -> list[Outcome]:
    record = _record(tree)
    return plan_present(tree, knowledge.catalogue, knowledge.catalogue, record, "missing").outcomes


def _record(tree: Tree) -> Manifest:
    """What this product edited there earlier; an empty record where there is none."""
    for path in _record_places(tree):
        try:
            found = load(path)
        except ManifestError:
            continue  # a file of that name that is something else
        if found.steps:
            return found
    return Manifest()


def _record_places(tree: Tree) -> Iterator[Path]:
    if isinstance(tree, Folder):
        yield tree.root.parent / f"{tree.root.name}.patches.json"
        for above in tree.root.parents[:_RECORD_ABOVE]:
            yield above / "patches.json"


def _patch(outcome: Outcome, knowledge: Knowledge) -> dict[str, Any]:
    patch = next(item for item in knowledge.catalogue if item.id == outcome.id)
    return {
        "id": outcome.id,
        "file": outcome.file,
        "state": outcome.state,
        "reason": outcome.reason,
        "evidence": list(outcome.evidence),
        "edit": outcome.changed,
        "does_not": patch.does_not,
    }


def _contract(tree: Tree, modules: Modules) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    """The audit of the served model, the counts of all wrappers, and what needs a person."""
    counts = {"classes": 0, "ok": 0, "missing": 0, "unknown": 0}
    verdicts: dict[str, Any] = {}
    try:
        every = audit(tree, ALGORITHM, modules=modules)
        counts = every.counts
        verdicts = {verdict.architecture: verdict for verdict in every.verdicts}
        if ARCHITECTURE not in verdicts and tree.read(MODEL_FILE) is not None:
            alone = audit(tree, ALGORITHM, ARCHITECTURE, modules=modules)
            verdicts[ARCHITECTURE] = alone.one(ARCHITECTURE)
    except ContractError as error:
        return {}, counts, [f"contract: {error}"]
    # Older releases have no such model: nothing to audit.
    served = verdicts.get(ARCHITECTURE)
    return ({ARCHITECTURE: served.summary()} if served else {}), counts, []
