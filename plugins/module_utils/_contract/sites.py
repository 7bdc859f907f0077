# SPDX-License-Identifier: Apache-2.0
"""Places in a release that touch the target model object, and what they ask of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

How = Literal["read", "call", "write", "getattr", "getattr_default", "hasattr", "isinstance"]
# A member of the target model, and whether it is there.
Fact = tuple[str, bool]


@dataclass(frozen=True)
class Touch:
    """One way through the release to a place that touches the model.

    Attributes:
        at: ``file:line``.
        function: where it stands, ``Class.method``.
        member: the name that is asked for.
        how: in which form.
        required: the engine fails there when the member is missing.
        facts: what must hold of the model for the engine to come here.
        spec: the engine comes here only because speculative decoding is on.
        when: conditions on the way that the release alone does not decide.
    """

    at: str
    function: str
    member: str
    how: How
    required: bool
    facts: frozenset[Fact]
    spec: bool
    when: tuple[str, ...]


@dataclass(frozen=True)
class CallSite:
    """One place, all ways to it taken together.

    Attributes:
        need: ``required``: without the member the engine fails here.
        scope: ``speculation``: only this algorithm comes here; ``engine``: every launch may.
        facts: alternatives of what must hold of the model for a required touch.
    """

    at: str
    function: str
    member: str
    how: How
    need: Literal["required", "optional"]
    scope: Literal["speculation", "engine"]
    facts: tuple[frozenset[Fact], ...]
    when: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data; ``unless`` names members whose presence or absence spares the place."""
        unless = {
            f"{'no ' if present else ''}{name}" for facts in self.facts for name, present in facts
        }
        return {
            "at": self.at,
            "function": self.function,
            "member": self.member,
            "how": self.how,
            "need": self.need,
            "scope": self.scope,
            "unless": sorted(unless) if all(self.facts) else [],
            "when": list(self.when),
        }


def gather(touches: Iterable[Touch]) -> tuple[CallSite, ...]:
    """Put the ways to each place together, in the order of files and lines."""
    groups: dict[tuple[str, str, How], list[Touch]] = {}
    for touch in touches:
        groups.setdefault((touch.at, touch.member, touch.how), []).append(touch)
    sites: list[CallSite] = []
    for (at, member, how), ways in groups.items():
        engine = [way for way in ways if not way.spec]
        # What every launch asks is not what speculation asks, even where both come by.
        counted = engine or ways
        # Behind a question for the member itself nothing fails for want of it.
        required = [w for w in counted if w.required and (member, True) not in w.facts]
        shown = min((required or counted), key=lambda way: (len(way.when), way.when))
        alternatives = {way.facts for way in (required or counted)}
        sites.append(
            CallSite(
                at=at,
                function=shown.function,
                member=member,
                how=how,
                need="required" if required else "optional",
                scope="engine" if engine else "speculation",
                facts=tuple(sorted(alternatives, key=sorted)),
                when=shown.when,
            )
        )
    return tuple(sorted(sites, key=_order))


def _order(site: CallSite) -> tuple[str, int, str, str]:
    path, _, line = site.at.rpartition(":")
    return path, int(line), site.member, site.how
