# SPDX-License-Identifier: Apache-2.0
"""Plan and make the edits of a patch set: what the module, and everybody else, calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._patch import rule_digest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    ManifestError,
    TreeError,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.files import replace_all
from ansible_collections.sm120.sglang.plugins.module_utils._patch.manifest import (
    Manifest,
    dump,
    undo,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.proof import Prover
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import Patch
from ansible_collections.sm120.sglang.plugins.module_utils._patch.state import Decision, conflict
from ansible_collections.sm120.sglang.plugins.module_utils._patch.work import (
    Outcome,
    Plan,
    Work,
    applied,
    finish,
    outcome_of,
    places,
    plain_outcome,
)
from ansible_collections.sm120.sglang.plugins.module_utils._tree import Folder, Tree


def plan_present(
    tree: Tree, patches: Sequence[Patch], catalogue: Sequence[Patch], record: Manifest, policy: str
) -> Plan:
    """Plan to have patches in a release.

    Args:
        tree: the release.
        patches: the patches wanted.
        catalogue: all patches; a changed rule may ask for others of its file to be made again.
        record: what was edited before.
        policy: ``missing`` edits wherever the thing is missing, ``needed_only`` not where the
            release copes without.
    """
    work = Work(tree, record, tree.version())
    return finish(work, [_present(work, patch, catalogue, policy) for patch in patches])


def _present(work: Work, patch: Patch, catalogue: Sequence[Patch], policy: str) -> Outcome:
    try:
        if not work.open(patch.file):
            return outcome_of(patch, decide(patch, work.read))
        if patch.file in work.drift:
            return outcome_of(patch, work.drift[patch.file])
        names = [step.patch for step in work.steps[patch.file]]
        if patch.id in names:
            return _in_place(work, patch, catalogue, names.index(patch.id), policy)
    except (TreeError, ManifestError) as error:
        return outcome_of(patch, conflict(str(error), patch.file))
    decision = decide(patch, work.read)
    if not _edits(decision, policy):
        return outcome_of(patch, decision)
    work.put(patch, decision)
    return outcome_of(patch, decision, changed=True)


def _in_place(
    work: Work, patch: Patch, catalogue: Sequence[Patch], index: int, policy: str
) -> Outcome:
    """A patch that was made earlier; where its rule has changed, it is made anew."""
    step = work.steps[patch.file][index]
    if step.rule != rule_digest(patch):
        return _again(work, patch, catalogue, index, policy)
    return outcome_of(patch, applied(patch, work.after[patch.file], step), proof=step.proof)


def _again(
    work: Work, patch: Patch, catalogue: Sequence[Patch], index: int, policy: str
) -> Outcome:
    """Make a patch anew whose rule has changed, and those that were made on top of it."""
    known = {item.id: item for item in (*catalogue, patch)}
    above = [step.patch for step in work.steps[patch.file][index + 1 :]]
    lost = [name for name in above if name not in known]
    if lost:
        return outcome_of(
            patch,
            conflict(
                f"its rule has changed, but {', '.join(lost)} was made on top of it and is not in "
                "the catalogue any more: take that back first (state: absent)",
                patch.file,
            ),
        )
    saved = work.after[patch.file], list(work.steps[patch.file])
    work.roll_back(patch.file, index)
    first: Decision | None = None
    for name in (patch.id, *above):
        decision = decide(known[name], work.read)
        first = first or decision
        if decision.state == "conflict":
            work.after[patch.file], work.steps[patch.file] = saved
            return outcome_of(
                patch, conflict(f"its rule has changed: {decision.reason}", *decision.evidence)
            )
        if _edits(decision, policy):
            work.put(known[name], decision)
    changed = work.after[patch.file] != saved[0]
    return outcome_of(patch, first or decide(patch, work.read), changed=changed)


def _edits(decision: Decision, policy: str) -> bool:
    wanted = {"needed"} if policy == "needed_only" else {"needed", "obsolete"}
    return decision.state in wanted and bool(decision.edits)


def plan_absent(
    tree: Tree,
    patches: Sequence[Patch],
    catalogue: Sequence[Patch],
    record: Manifest,
    *,
    everything: bool = False,
) -> Plan:
    """Plan to take patches back.

    Args:
        tree: the release.
        patches: the patches to take back.
        catalogue: all patches, for those that stay and were made on top.
        record: what was edited before.
        everything: take recorded patches back that the catalogue does not have any more, too.
    """
    work = Work(tree, record, tree.version())
    outcomes: list[Outcome] = []
    wanted = {patch.id for patch in patches}
    known = {patch.id: patch for patch in catalogue}
    taken: dict[str, Decision] = {}
    for path, recorded in record.steps.items():
        forgotten = {step.patch for step in recorded if step.patch not in known}
        leaving = wanted | (forgotten if everything else set())
        # Newest first: what was made on top is out of the way then.
        for identifier in [s.patch for s in reversed(recorded) if s.patch in leaving]:
            try:
                taken[identifier] = _take_back(work, path, identifier, known)
            except (TreeError, ManifestError) as error:
                taken[identifier] = conflict(str(error), path)
            if identifier in forgotten:
                gone = plain_outcome(identifier, path, taken[identifier])
                outcomes.append(replace(gone, changed=gone.state == "applied"))
    for patch in patches:
        decision = taken.get(patch.id) or decide(patch, work.read)
        outcomes.append(outcome_of(patch, decision, changed=decision.state == "applied"))
        try:
            work.open(patch.file)
        except TreeError:
            continue  # the decision says so
    return finish(work, outcomes)


def _take_back(work: Work, path: str, identifier: str, known: Mapping[str, Patch]) -> Decision:
    if not work.open(path):
        return Decision("absent", "the file that was edited is gone", (path,))
    if path in work.drift:
        return work.drift[path]
    names = [step.patch for step in work.steps[path]]
    if identifier not in names:
        patch = known.get(identifier)
        return decide(patch, work.read) if patch else Decision("absent", "not there", (path,))
    saved = work.after[path], list(work.steps[path])
    gone = work.roll_back(path, names.index(identifier))
    for step in gone[1:]:
        above = known.get(step.patch)
        decision = decide(above, work.read) if above else None
        if above is None or decision is None or not decision.edits:
            work.after[path], work.steps[path] = saved
            return conflict(
                f"{step.patch} was made on top of it and cannot be made without it: take both back",
                path,
            )
        work.put(above, decision)
    return Decision(
        "applied",
        "taken back: the file has the bytes it had before",
        places(path, saved[0], gone[0]),
    )


def withdraw(plan: Plan) -> Plan:
    """The same findings without any change: what a refused run reports."""
    outcomes = [
        replace(outcome, changed=False, sha256_after=outcome.sha256_before)
        for outcome in plan.outcomes
    ]
    return Plan(outcomes, plan.before, dict(plan.before), plan.record)


def prove(plan: Plan, tree: Tree, patches: Sequence[Patch], prover: Prover, which: str) -> Plan:
    """Add proofs to a plan, before anything is written.

    Args:
        plan: the plan.
        tree: the release as it is.
        patches: definitions of the plan's patches.
        prover: runs the proofs.
        which: ``changed``, ``always`` (those in place too) or ``never``.

    Raises:
        ProofError: an edit does not do what it should.
    """
    known = {patch.id: patch for patch in patches}

    def after(path: str) -> bytes | None:
        return plan.after[path] if path in plan.after else tree.read(path)

    def before(path: str) -> bytes | None:
        steps = plan.record.steps.get(path, [])
        data = after(path)
        return undo(data, list(steps)) if steps and data is not None else data

    def wanted(outcome: Outcome) -> bool:
        in_place = outcome.state == "applied" and which == "always"
        return outcome.id in known and which != "never" and (outcome.changed or in_place)

    for index, outcome in enumerate(plan.outcomes):
        if wanted(outcome):
            proof = prover.prove(known[outcome.id], before, after)
            plan.outcomes[index] = replace(outcome, proof=proof)
            steps = plan.record.steps[outcome.file]
            plan.record.steps[outcome.file] = [
                replace(step, proof=proof) if step.patch == outcome.id else step for step in steps
            ]
    return plan


def commit(plan: Plan, tree: Folder, manifest: Path, old: Manifest) -> None:
    """Write a plan: the record first when edits come, last when they go.

    Raises:
        PatchError: it was not possible; everything is as before.
    """
    contents = dict(_files(plan, tree))
    if any(plan.record.steps.values()):
        new = dump(plan.record)
        if contents or new != dump(old):
            replace_all({manifest.resolve(): new, **contents})
        return
    replace_all(contents)
    manifest.unlink(missing_ok=True)


def _files(plan: Plan, tree: Folder) -> Iterator[tuple[Path, bytes]]:
    for path, data in plan.changes.items():
        real = tree.locate(path)
        if real is None:
            raise TreeError(f"{path} has gone while it was being patched", "run again")
        yield real, data
