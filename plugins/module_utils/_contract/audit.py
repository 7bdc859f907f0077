# SPDX-License-Identifier: Apache-2.0
"""Hold a release's model classes against what its speculative code asks of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ansible_collections.sm120.sglang.plugins.module_utils._contract.dispatch import (
    Demands,
    find_demands,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.members import (
    Has,
    Members,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    ContractError,
    Program,
    Reads,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.registry import Registry
from ansible_collections.sm120.sglang.plugins.module_utils._contract.remedy import (
    Remedies,
    Remedy,
    as_yaml,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import CallSite
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    Modules,
)

ALL = "all"


@dataclass(frozen=True)
class Gap:
    """A member that a class lacks, or may lack.

    Attributes:
        member: its name.
        sites: where the engine needs it.
        why: how it was looked for.
        remedy: whether forwarding supplies it; None where it is not certain that it is missing.
    """

    member: str
    sites: tuple[CallSite, ...]
    why: str
    remedy: Remedy | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        found: dict[str, Any] = {
            "member": self.member,
            "call_sites": [site.at for site in self.sites],
            "reason": self.why,
        }
        if self.remedy is not None:
            found["delegation"] = self.remedy.delegation
            found["delegation_reason"] = self.remedy.reason
        return found


@dataclass(frozen=True)
class Verdict:
    """What one class has and lacks.

    Attributes:
        architecture: the class.
        at: ``file:line``.
        algorithm: the algorithm.
        required: members without which the engine fails.
        optional: members that it asks for and does without.
        missing: the required ones that the class lacks.
        unknown: the required ones of which the sources do not tell.
        entry: a catalogue entry that supplies what forwarding can supply; None for none.
        note: why there is no entry although forwarding would do.
    """

    architecture: str
    at: str
    algorithm: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    missing: tuple[Gap, ...] = ()
    unknown: tuple[Gap, ...] = ()
    entry: dict[str, Any] | None = None
    note: str = ""

    @property
    def verdict(self) -> Literal["ok", "missing", "unknown"]:
        """What it comes to."""
        if self.missing:
            return "missing"
        return "unknown" if self.unknown else "ok"

    @property
    def delegation_fixes(self) -> bool | None:
        """Whether plain forwarding supplies all that is missing; None: nothing is, or unknown."""
        if not self.missing:
            return None
        answers = {gap.remedy.delegation if gap.remedy else "unknown" for gap in self.missing}
        if answers == {"yes"}:
            return self.entry is not None
        return False if "no" in answers else None

    def summary(self) -> dict[str, Any]:
        """The short form of reports."""
        return {
            "algorithm": self.algorithm,
            "missing": [gap.member for gap in self.missing],
            "required": list(self.required),
            "delegation_fixes": self.delegation_fixes,
            "unknown": [gap.member for gap in self.unknown],
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "at": self.at,
            "verdict": self.verdict,
            "algorithm": self.algorithm,
            "required": list(self.required),
            "optional": list(self.optional),
            "missing": [gap.as_dict() for gap in self.missing],
            "unknown": [gap.as_dict() for gap in self.unknown],
            "delegation_fixes": self.delegation_fixes,
            "inner": self.entry["rule"]["target"] if self.entry else "",
            "catalogue_entry": self.entry,
            "catalogue_entry_yaml": as_yaml(self.entry) if self.entry else "",
            "note": self.note,
        }


@dataclass(frozen=True)
class Audit:
    """The answer of one audit.

    Attributes:
        demands: what the release asks.
        verdicts: one for each class.
        without_class: architectures that the release lists as multimodal and has no class for.
    """

    demands: Demands
    verdicts: tuple[Verdict, ...]
    without_class: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many classes came to which verdict."""
        found = {"classes": len(self.verdicts), "ok": 0, "missing": 0, "unknown": 0}
        for verdict in self.verdicts:
            found[verdict.verdict] += 1
        return found

    def one(self, architecture: str) -> Verdict:
        """The verdict on one class."""
        return next(v for v in self.verdicts if v.architecture == architecture)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        demands = self.demands
        return {
            "algorithm": demands.algorithm,
            "workers": [{"class": ref.node.name, "at": ref.at} for ref in demands.workers],
            "doubts": list(demands.doubts),
            "call_sites": [site.as_dict() for site in demands.sites],
            "counts": self.counts,
            "without_class": list(self.without_class),
            "architectures": {v.architecture: v.as_dict() for v in self.verdicts},
        }


def audit(
    reads: Reads, algorithm: str, architecture: str = ALL, *, modules: Modules | None = None
) -> Audit:
    """Audit a release.

    Args:
        reads: the files of its ``sglang`` package.
        algorithm: speculative algorithm as ``--speculative-algorithm`` takes it, any case.
        architecture: a model class as in ``architectures`` of a config.json, or ``all`` for every
            multimodal wrapper.
        modules: parsed files to share with others that read the same release.

    Raises:
        ContractError: the release has no such class or algorithm, or a shape that is not known.
    """
    program = Program(reads, modules)
    with _no_collection():
        try:
            demands = find_demands(program, algorithm)
            registry = Registry(program)
            judge = _Judge(program, demands)
            if architecture != ALL:
                return Audit(demands, (judge.verdict(architecture, registry.find(architecture)),))
            classes, without = registry.wrappers()
            verdicts = [judge.verdict(name, ref) for name, ref in classes.items()]
        except RecursionError as error:
            raise ContractError(
                "this release is nested too deeply to be followed",
                "report it with the release's version",
            ) from error
    return Audit(demands, tuple(verdicts), tuple(without))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Syntax trees are many small objects that stay: looking for garbage among them is slow.

    Freezing and thawing them takes them for old without a look; else the first collection behind
    the audit would go through all of them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Judge:
    """Holds classes against demands."""

    def __init__(self, program: Program, demands: Demands) -> None:
        self.demands = demands
        self.members = Members(program)
        self.remedies = Remedies(self.members)
        self.sites: dict[str, list[CallSite]] = {}
        for site in demands.sites:
            if site.scope == "speculation":
                self.sites.setdefault(site.member, []).append(site)

    def verdict(self, architecture: str, ref: ClassRef) -> Verdict:
        """The verdict on a class."""
        required: list[str] = []
        optional: list[str] = []
        missing: dict[str, Gap] = {}
        unknown: list[Gap] = []
        for name, sites in sorted(self.sites.items()):
            if name.startswith("__"):
                continue
            needed = [(site, self._applies(ref, site)) for site in sites if site.need == "required"]
            certain = tuple(site for site, applies in needed if applies)
            possible = tuple(site for site, applies in needed if applies is None)
            if not certain and not possible:
                optional.append(name)
                continue
            required += [name] if certain else []
            has = self._has(ref, name, certain or possible)
            gap = Gap(name, certain or possible, has.why)
            if has.present is False and certain:
                missing[name] = gap
            elif not has.present:
                unknown.append(gap)
        remedies = self.remedies.for_members(ref, list(missing)) if missing else {}
        entry, note = self.remedies.entry(ref, remedies, self.demands.algorithm)
        return Verdict(
            architecture,
            ref.at,
            self.demands.algorithm,
            tuple(required),
            tuple(optional),
            tuple(Gap(g.member, g.sites, g.why, remedies[g.member]) for g in missing.values()),
            tuple(unknown),
            entry,
            note,
        )

    def _has(self, ref: ClassRef, name: str, sites: Sequence[CallSite]) -> Has:
        has = self.members.has(ref, name)
        if has.present and not has.callable and any(site.how == "call" for site in sites):
            return Has(False, f"{has.why}, which cannot be called")
        if has.forwarded:
            return self._forwarded(ref, name, has)
        return has

    def _forwarded(self, ref: ClassRef, name: str, has: Has) -> Has:
        """``__getattr__`` hands on: the inner object's class decides, where it is known."""
        answer = self.remedies.for_members(ref, [name])[name]
        if answer.delegation == "yes":
            return Has(True, f"{has.why}; {answer.reason}")
        return Has(None, f"{has.why}; {answer.reason}", forwarded=True)

    def _applies(self, ref: ClassRef, site: CallSite) -> bool | None:
        """Whether the engine comes to a place with a class; None where it is not certain."""
        ways = [
            facts
            for facts in site.facts
            if not any(
                self._fails_before(ref, name, site.member) for name, present in facts if not present
            )
        ]
        answers = [self._holds(ref, facts) for facts in ways]
        if True in answers:
            return True
        return None if None in answers else False

    def _fails_before(self, ref: ClassRef, name: str, member: str) -> bool:
        """Whether the want of a name stops the engine by itself, whatever is with a member."""
        return any(
            self._holds(ref, facts)
            for site in self.sites.get(name, ())
            if site.need == "required"
            for facts in site.facts
            if (member, False) not in facts
        )

    def _holds(self, ref: ClassRef, facts: frozenset[tuple[str, bool]]) -> bool | None:
        found: bool | None = True
        for name, wanted in facts:
            present = self.members.has(ref, name).present
            if present is None:
                found = None
            elif present is not wanted:
                return False
        return found
