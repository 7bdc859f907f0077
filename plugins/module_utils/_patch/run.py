# SPDX-License-Identifier: Apache-2.0
"""One run of a patch set on one release: everything behind the module's face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch import POLICIES, select
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import (
    merge,
    parse_catalogue,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.engine import (
    commit,
    plan_absent,
    plan_present,
    prove,
    withdraw,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import PatchError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.files import locked
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import load
from ansible_collections.sm120.sglang.plugins.module_utils._patch.proof import Prover
from ansible_collections.sm120.sglang.plugins.module_utils._patch.work import Outcome, Plan
from ansible_collections.sm120.sglang.plugins.module_utils._tree import Folder, open_folder


@dataclass(frozen=True)
class Request:
    """What a run is asked for; the module's parameters under the same names."""

    root: str
    shipped_catalog: Sequence[Mapping[str, Any]] = ()
    catalog: Sequence[Mapping[str, Any]] = ()
    patches: Sequence[str] | None = None
    policy: str = "missing"
    on_conflict: str = "fail"
    state: str = "present"
    manifest: str = ""
    python: str = ""
    python_environment: Mapping[str, object] = field(default_factory=dict)
    prove: str = "changed"
    check_mode: bool = False


@dataclass(frozen=True)
class Result:
    """What a run found and did.

    Attributes:
        root: the package folder.
        release: its version, or "".
        manifest: the record.
        outcomes: one for each patch.
        diff: before and after of each file that changes, as Ansible shows them.
        refused: why nothing was changed; "" where the run went through.
    """

    root: Path
    release: str
    manifest: Path
    outcomes: Sequence[Outcome]
    diff: Sequence[Mapping[str, str]]
    refused: str = ""

    @property
    def changed(self) -> bool:
        """Some file changes."""
        return bool(self.diff)


def run(request: Request) -> Result:
    """Plan, prove and, outside check mode, write.

    Raises:
        PatchError: the request, the release or the record is not usable, a proof fails, or a file
            cannot be written. Nothing was changed then.
    """
    if request.policy not in POLICIES:
        raise PatchError(f"unknown policy {request.policy!r}", f"there are: {', '.join(POLICIES)}")
    catalogue = merge(parse_catalogue(request.shipped_catalog), parse_catalogue(request.catalog))
    patches = select(catalogue, request.patches)
    tree = open_folder(request.root)
    manifest = manifest_path(tree, request.manifest)
    with locked(tree.root):
        old = load(manifest)
        if request.state == "absent":
            everything = request.patches is None
            plan = plan_absent(tree, patches, catalogue, old, everything=everything)
        else:
            plan = plan_present(tree, patches, catalogue, old, request.policy)
        if plan.conflicts and request.on_conflict == "fail":
            return _result(tree, manifest, withdraw(plan), refused=_refusal(plan))
        environment = {name: str(value) for name, value in request.python_environment.items()}
        prover = Prover(tree.root, request.python, environment)
        if request.state == "present":
            plan = prove(plan, tree, patches, prover, request.prove)
        if not request.check_mode:
            commit(plan, tree, manifest, old)
    return _result(tree, manifest, plan)


def manifest_path(tree: Folder, named: str) -> Path:
    """The record's place: as named, else beside the package folder."""
    if not named:
        return tree.root.parent / f"{tree.root.name}.patches.json"
    path = Path(named).expanduser()
    if not path.parent.is_dir():
        raise PatchError(f"the folder of the manifest {path} does not exist", "make it first")
    return path


def _result(tree: Folder, manifest: Path, plan: Plan, refused: str = "") -> Result:
    diff = [
        {
            "before_header": str(tree.root / path),
            "after_header": str(tree.root / path),
            "before": plan.before[path].decode("utf-8", "replace"),
            "after": data.decode("utf-8", "replace"),
        }
        for path, data in plan.changes.items()
    ]
    return Result(tree.root, tree.version(), manifest, plan.outcomes, diff, refused)


def _refusal(plan: Plan) -> str:
    parts = [
        f"{outcome.id}: {outcome.reason} ({'; '.join(outcome.evidence)})"
        for outcome in plan.conflicts
    ]
    return (
        f"not certain how to patch this release, so nothing was changed. {' | '.join(parts)}. "
        "Look at the release, correct the catalogue entry, or leave the patch out of 'patches'; "
        "'on_conflict: skip' makes the others"
    )
