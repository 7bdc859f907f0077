# SPDX-License-Identifier: Apache-2.0
"""Rolling deployments: which engines are switched together, which may be switched now, how it went.

An engine is a unit: one node, or several that form one. What counts is engines, not nodes: one that
lacks a node serves nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SHARE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<percent>%?)")
# Lines of a failure's screen that say that it failed, not why.
_HEADINGS = (
    "did not prove itself",
    "verdict is fail",
    "cannot take this deployment",
    "nothing was",
)
_WIDEST_CAUSE = 100
NOT_SWITCHED = "not switched"
"""Verdict on an engine that a run's tags kept from its switch."""


class RollingError(ValueError):
    """A rolling deployment cannot be planned; the message names the variable and the remedy."""


@dataclass(frozen=True)
class Unit:
    """One engine in a deployment.

    Attributes:
        hosts: Its nodes, the one that answers for it first.
        serving: Whether it served when the nodes were read.
        switches: Whether this deployment stops or starts it.
    """

    hosts: tuple[str, ...]
    serving: bool
    switches: bool

    @property
    def name(self) -> str:
        """The node that answers for it."""
        return self.hosts[0]


@dataclass(frozen=True)
class Rules:
    """What the operator allows.

    Attributes:
        serial: Engines that may be out of service at once: a number, or a share as `25%`.
        canary: Engines that go first, alone: how many, or their names.
        max_fail_percentage: Share of all engines that may fail before no further one is begun.
    """

    serial: object = "25%"
    canary: object = 0
    max_fail_percentage: float = 0.0


def allowed_out(serial: object, total: int) -> int:
    """How many engines may be out of service at once.

    Args:
        serial: See `Rules`.
        total: Engines in the inventory.

    Returns:
        At least one, else nothing could ever be switched; a share is rounded down.

    Raises:
        RollingError: It is neither a number above 0 nor a share.
    """
    found = _SHARE.fullmatch(str(serial).strip())
    if found:
        number, share = float(found["number"]), bool(found["percent"])
        if share and 0 < number <= 100:
            return max(1, int(total * number / 100))
        if not share and number >= 1 and number.is_integer():
            return int(number)
    raise RollingError(
        f"deploy_serial is {serial!r}: it is a number of engines, such as 1, or a share, such "
        "as '25%'"
    )


def problems(rules: Rules, engines: Sequence[str]) -> list[str]:
    """What is wrong with an operator's rules.

    Args:
        rules: The rules.
        engines: Every node of the inventory's engines.

    Returns:
        One sentence each.
    """
    found = []
    try:
        allowed_out(rules.serial, len(engines))
    except RollingError as error:
        found.append(str(error))
    try:
        named = _named(rules.canary)
    except RollingError as error:
        found.append(str(error))
    else:
        unknown = [name for name in named or [] if name not in engines]
        if unknown:
            found.append(
                f"deploy_canary names {', '.join(unknown)}, which is no node of the group engines"
            )
    if not 0 <= rules.max_fail_percentage <= 100:
        found.append(
            f"deploy_max_fail_percentage is {rules.max_fail_percentage:g}: it is between 0 and 100"
        )
    return found


def _named(canary: object) -> list[str] | None:
    """The nodes that are named as canaries; None where a number is given."""
    if isinstance(canary, (list, tuple)):
        return [str(name) for name in canary]
    text = str(canary).strip()
    if text.isdigit():
        return None
    if isinstance(canary, str):
        return [text] if text else []
    raise RollingError(f"deploy_canary is {canary!r}: it is a number of engines, or nodes' names")


def canaries(units: Sequence[Unit], canary: object) -> list[Unit]:
    """The engines that go first, alone.

    Args:
        units: All engines of this run.
        canary: See `Rules`.

    Returns:
        Among those that are switched: the named ones, or the first ones, an engine that serves
        nobody before one that does.

    Raises:
        RollingError: It is neither a number nor names.
    """
    switched = [unit for unit in units if unit.switches]
    named = _named(canary)
    if named is not None:
        return [unit for unit in switched if set(named) & set(unit.hosts)]
    return sorted(switched, key=lambda unit: unit.serving)[: int(str(canary))]


def batches(units: Sequence[Unit], total: int, rules: Rules) -> list[list[Unit]]:
    """Which engines are deployed to together, and in what order.

    Args:
        units: The engines of this run, in the inventory's order.
        total: Engines in the inventory, those that this run leaves alone among them.
        rules: What the operator allows.

    Returns:
        Batches without an empty one. First what takes nothing out of service: engines that go on
        as they are, and, unless a canary has to go before them, those that serve nobody. Then the
        canary, then those that serve, as many at once as may be out of service.

    Raises:
        RollingError: See `allowed_out` and `canaries`.
    """
    size = allowed_out(rules.serial, total)
    first = canaries(units, rules.canary)
    rest = [unit for unit in units if unit not in first]
    same = [unit for unit in rest if not unit.switches]
    down = [unit for unit in rest if unit.switches and not unit.serving]
    live = [unit for unit in rest if unit.switches and unit.serving]
    steps = [same, *([canary] for canary in first), down] if first else [same + down]
    steps += [live[start : start + size] for start in range(0, len(live), size)]
    return [step for step in steps if step]


@dataclass(frozen=True)
class Result:
    """How an engine's deployment ended.

    Attributes:
        verdict: `ok`, `failed`, or `not tried`.
        serving: Whether it serves now, be it what it served before.
        cause: Why it failed or was not tried.
    """

    verdict: str
    serving: bool
    cause: str = ""


def refusals(
    batch: Sequence[Unit],
    units: Sequence[Unit],
    results: Mapping[str, Result],
    total: int,
    rules: Rules,
) -> dict[str, str]:
    """Which engines of a batch must not be switched now, after what happened before it.

    Args:
        batch: The batch that begins.
        units: All engines of this run.
        results: Engine to its result, for those that have one.
        total: Engines in the inventory.
        rules: What the operator allows.

    Returns:
        Engine to the reason; those that may go are not there, and engines that are not switched
        never are.

    Raises:
        RollingError: See `allowed_out` and `canaries`.
    """
    switched = [unit for unit in batch if unit.switches]
    failed = [name for name, result in results.items() if result.verdict == "failed"]
    reason = ""
    named = set(_named(rules.canary) or ())
    first = {unit.name for unit in canaries(units, rules.canary)}
    first |= {unit.name for unit in units if named & set(unit.hosts)}
    if bad := [name for name in failed if name in first]:
        reason = f"the canary {', '.join(bad)} failed"
    elif len(failed) > int(total * rules.max_fail_percentage / 100):
        reason = (
            f"{len(failed)} of {total} failed ({', '.join(failed)}), more than "
            f"deploy_max_fail_percentage ({rules.max_fail_percentage:g}) allows"
        )
    if reason:
        return {unit.name: reason for unit in switched}
    going = {unit.name for unit in batch}
    out = [
        unit.name
        for unit in units
        if unit.name not in going
        and not (results[unit.name].serving if unit.name in results else unit.serving)
    ]
    # What serves nobody takes nothing out of service, but it is out until it has proved itself.
    down = [unit.name for unit in switched if not unit.serving]
    room = allowed_out(rules.serial, total) - len(out) - len(down)
    live = [unit for unit in switched if unit.serving]
    said = (
        f"{len(out + down)} of {total} are out of service ({', '.join(out + down)}), and "
        f"deploy_serial ({rules.serial}) allows {allowed_out(rules.serial, total)}"
    )
    return {unit.name: said for unit in live[max(0, room) :]}


def short_cause(message: str, host: str) -> str:
    """Why something failed, for one cell of a table.

    Args:
        message: The whole failure, as it was told.
        host: The node, whose name is not repeated.

    Returns:
        Its first line that says why; at most 100 characters.
    """
    lines = [line.strip().removeprefix(f"{host}: ") for line in message.strip().splitlines()]
    lines = [line for line in lines if line]
    telling = [line for line in lines if not any(words in line for words in _HEADINGS)]
    line = (telling or lines or ["no message"])[0].removeprefix("Cause: ")
    return line if len(line) <= _WIDEST_CAUSE else f"{line[: _WIDEST_CAUSE - 1]}…"


def cut_short(only: Iterable[str], skip: Iterable[str]) -> dict[str, str]:
    """How an engine ended that a run's tags did not let come to its switch, or to its proof.

    Args:
        only: `ansible_run_tags`, "all" for no limit.
        skip: `ansible_skip_tags`.

    Returns:
        `verdict` and `cause`; nothing for a run that switches and proves.
    """
    only, skip = sorted(only), sorted(skip)  # Ansible gives them in any order
    # Of their tasks the one or the other carries each of these; "all" and "tagged" mean any.
    verdicts = {"engine": NOT_SWITCHED, "health_gate": "not proved"}
    for tag, verdict in verdicts.items():
        means = {"all", "tagged", tag}
        if means.isdisjoint(only) or not means.isdisjoint(skip):
            limits = [] if "all" in only else [f"had only the tags {', '.join(only)}"]
            limits += [f"left out the tags {', '.join(skip)}"] if skip else []
            return {"verdict": verdict, "cause": f"this run {' and '.join(limits)}"}
    return {}


_COLUMNS = ("node", "release", "changed", "verdict", "accept", "seconds", "cause")


def table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The results of all nodes.

    Args:
        rows: Mappings with the columns' names; what is empty or missing is shown as `-`.

    Returns:
        The lines of a table, its head first.
    """
    cells = [list(_COLUMNS)] + [[_cell(row.get(name)) for name in _COLUMNS] for row in rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_COLUMNS))]
    # The last column is the longest by far and needs no filling.
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]
        )
        for row in cells
    ]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value) if value not in (None, "", []) else "-"
