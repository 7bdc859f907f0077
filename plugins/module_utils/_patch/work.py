# SPDX-License-Identifier: Apache-2.0
"""A plan in the making: a release as it is, and as it will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch import rule_digest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import (
    Manifest,
    Step,
    sha256,
    undo,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import Patch
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import (
    Decision,
    State,
    conflict,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree import Tree


@dataclass(frozen=True)
class Outcome:
    """What a run finds and does for one patch.

    Attributes:
        id: the patch.
        file: its file inside the package.
        state: state found before the run changes anything.
        reason: one sentence.
        evidence: lines ``file:line what``.
        changed: the run changes the file for this patch.
        sha256_before: checksum of the file before the run, None where it does not exist.
        sha256_after: checksum of the file after the run.
        proof: what was proved about the behaviour; None where nothing was.
    """

    id: str
    file: str
    state: State
    reason: str
    evidence: tuple[str, ...]
    changed: bool = False
    sha256_before: str | None = None
    sha256_after: str | None = None
    proof: Mapping[str, Any] | None = None


@dataclass
class Plan:
    """Everything that a run would do.

    Attributes:
        outcomes: one for each patch.
        before: bytes of the touched files as they are.
        after: bytes that they get.
        record: the manifest as it would be.
    """

    outcomes: list[Outcome]
    before: dict[str, bytes]
    after: dict[str, bytes]
    record: Manifest

    @property
    def conflicts(self) -> list[Outcome]:
        """Patches that a person must look at."""
        return [outcome for outcome in self.outcomes if outcome.state == "conflict"]

    @property
    def changes(self) -> dict[str, bytes]:
        """Files whose bytes change."""
        return {path: data for path, data in self.after.items() if data != self.before[path]}


@dataclass
class Work:
    """A plan in the making: the release as it will be, on top of the release as it is."""

    tree: Tree
    record: Manifest
    version: str
    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)
    steps: dict[str, list[Step]] = field(default_factory=dict)
    drift: dict[str, Decision] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        if path in self.after:
            return self.after[path]
        return self.tree.read(path)

    def open(self, path: str) -> bool:
        """Load a file and the steps that stand in it; False where it does not exist."""
        if path in self.before:
            return True
        data = self.tree.read(path)
        if data is None:
            return False
        self.before[path] = self.after[path] = data
        drifted = self._drifted(path, data)
        if drifted is not None:
            self.drift[path] = _drift(path, data, drifted)
            self.steps[path] = list(self.record.steps[path])
        else:
            self.steps[path] = self.record.standing(path, data)
        return True

    def _drifted(self, path: str, data: bytes) -> Step | None:
        """A recorded step whose text stands in a file that somebody has edited since."""
        recorded = self.record.steps.get(path, [])
        standing = self.record.standing(path, data)
        if self.record.release != self.version or standing == recorded:
            return None
        if sha256(data) in {step.before for step in recorded}:
            return None
        later = recorded[len(standing) :]
        return next((s for s in later if all(edit.new in data for edit in s.edits)), None)

    def roll_back(self, path: str, count: int) -> list[Step]:
        """Keep the first ``count`` steps of a file; return the others, taken back."""
        steps = self.steps[path]
        gone = steps[count:]
        self.after[path] = undo(self.after[path], gone)
        self.steps[path] = steps[:count]
        return gone

    def put(self, patch: Patch, decision: Decision) -> None:
        """Make a decision's edits."""
        old = self.after[patch.file]
        new = apply_edits(old, decision.edits)
        step = Step(
            patch=patch.id,
            rule=rule_digest(patch),
            state=decision.state,
            reason=decision.reason,
            before=sha256(old),
            after=sha256(new),
            edits=decision.edits,
        )
        self.after[patch.file] = new
        self.steps[patch.file].append(step)


def applied(patch: Patch, data: bytes, step: Step) -> Decision:
    return Decision(
        "applied",
        f"made by this tool ({step.state}: {step.reason})",
        places(patch.file, data, step),
    )


def _drift(path: str, data: bytes, step: Step) -> Decision:
    return conflict(
        "the file was edited by somebody else after it was patched: reinstall the release, or "
        "put the file back",
        f"{path} expected sha256 {step.after}",
        f"{path} found sha256 {sha256(data)}",
    )


def places(path: str, data: bytes, step: Step) -> tuple[str, ...]:
    """``file:line`` of a step's text, as far as it stands where it was put."""
    places: list[str] = []
    for edit in step.edits:
        at = data.find(edit.new) if edit.new.strip() else -1
        if at >= 0:
            lead = len(edit.new) - len(edit.new.lstrip())
            line = data.count(b"\n", 0, at + lead) + 1
            text = edit.new.strip().splitlines()[0].decode("utf-8", "replace").strip()
            places.append(f"{path}:{line} {text}")
    return tuple(places)


def outcome_of(
    patch: Patch,
    decision: Decision,
    *,
    changed: bool = False,
    proof: Mapping[str, Any] | None = None,
) -> Outcome:
    outcome = plain_outcome(patch.id, patch.file, decision)
    reason = decision.reason
    if decision.state == "obsolete" and patch.obsolete:
        reason = f"{reason}: {patch.obsolete}"
    if decision.state == "conflict" and patch.remedy:
        reason = f"{reason}. {patch.remedy}"
    changed = changed and decision.state != "conflict"
    return replace(outcome, reason=reason, changed=changed, proof=proof)


def plain_outcome(identifier: str, path: str, decision: Decision) -> Outcome:
    return Outcome(identifier, path, decision.state, decision.reason, decision.evidence)


def finish(work: Work, outcomes: list[Outcome]) -> Plan:
    record = Manifest(work.version, {**work.record.steps, **work.steps})
    if not any(record.steps.values()):
        record = Manifest()
    plan = Plan(outcomes, work.before, work.after, record)
    plan.outcomes = [
        replace(
            outcome,
            sha256_before=sha256(work.before[outcome.file])
            if outcome.file in work.before
            else None,
            sha256_after=sha256(work.after[outcome.file]) if outcome.file in work.after else None,
        )
        for outcome in outcomes
    ]
    return plan
