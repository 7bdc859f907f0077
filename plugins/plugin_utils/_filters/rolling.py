# SPDX-License-Identifier: Apache-2.0
"""Filters: the decisions of `_rolling` over what the hosts of a run know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils import _rolling
from ansible_collections.sm120.sglang.plugins.module_utils._rolling import Result, Rules, Unit

# Facts of the role deploy.
_UNIT, _RESULT = "_deploy_unit", "_deploy_result"
_NOBODY = "all:!all"
_EARLIER = "failed before its switch, see above"
# What takes an engine out of service: its own switch, or a change of its host before that.
_SWITCH, _HOST = "switches", "host"
# That its host was changed in turn.
_TURN = "_deploy_turn"


def _known(hostvars: Mapping[str, Any], host: str, name: str) -> Any:
    """A host's fact; None without one."""
    return hostvars[host].get(name) if host in hostvars else None


def _units(
    hostvars: Mapping[str, Any], engines: Sequence[str], what: str = _SWITCH
) -> tuple[list[Unit], list[Unit]]:
    """The engines of this run, in the inventory's order: those that were read, and the others.

    `what` names what is meant by their switch. A host that serves nobody needs no turn of its own.

    An engine of which a node was not read is among the others. A node that a limit leaves out is
    among neither: nothing says that it is out of service.
    """
    states = {host: state for host in engines if (state := _known(hostvars, host, _UNIT))}
    owners = {member: state["members"] for state in states.values() for member in state["members"]}
    targets = {host for state in states.values() for host in state["targets"]}
    read: dict[str, Unit] = {}
    lost: dict[str, Unit] = {}
    for host in engines:
        members = tuple(owners.get(host, (host,)))
        known = [states[member] for member in members if member in states]
        if len(known) == len(members):
            serving = all(one["serving"] for one in known)
            # Once its turn is over, nothing is left to do for a host: it had one all the same.
            had = what == _HOST and any(_known(hostvars, member, _TURN) for member in members)
            wanted = had or any(one[what] for one in known)
            switches = wanted and (serving or what == _SWITCH)
            read.setdefault(members[0], Unit(members, serving, switches))
        elif known or host in targets or _known(hostvars, host, _RESULT):
            lost.setdefault(members[0], Unit(members, serving=False, switches=False))
    return list(read.values()), list(lost.values())


def _results(
    hostvars: Mapping[str, Any], read: Iterable[Unit], lost: Iterable[Unit]
) -> dict[str, Result]:
    """Engine to its result: the worst of its nodes'. One that was not read has failed."""
    found = {}
    for unit in read:
        known = [r for host in unit.hosts if (r := _known(hostvars, host, _RESULT)) is not None]
        worst = [result for result in known if result["verdict"] != "ok"] or known
        if worst:
            serving = all(result["serving"] for result in known)
            found[unit.name] = Result(worst[0]["verdict"], serving, worst[0].get("cause", ""))
    for unit in lost:
        results = [_known(hostvars, host, _RESULT) for host in unit.hosts]
        serving = all(result is not None and result["serving"] for result in results)
        found[unit.name] = Result("failed", serving)
    return found


def _rules(hostvars: Mapping[str, Any], units: Sequence[Unit]) -> Rules:
    return Rules(**_known(hostvars, units[0].name, _UNIT)["rules"])


def _total(hostvars: Mapping[str, Any], engines: Iterable[str]) -> int:
    """Engines in the inventory; of a node that was not read nothing says that it is none."""
    heads = set()
    for host in engines:
        state = _known(hostvars, host, _UNIT)
        heads.add(state["members"][0] if state else host)
    return len(heads)


def _batches(hostvars: Mapping[str, Any], engines: Sequence[str], part: str) -> list[list[Unit]]:
    read, lost = _units(hostvars, engines, _HOST if part == _HOST else _SWITCH)
    results = _results(hostvars, read, lost)
    units = [
        unit
        for unit in read
        if unit.name not in results  # those failed already
        and any(_known(hostvars, host, _UNIT)[part] for host in unit.hosts)
        and (unit.switches or part != _HOST)
    ]
    if not units:
        return []
    try:
        rules = _rules(hostvars, units)
        return _rolling.batches(units, _total(hostvars, engines), rules)
    except _rolling.RollingError as error:
        raise AnsibleFilterError(str(error)) from None


def deploy_order(hostvars: Mapping[str, Any], engines: Sequence[str], part: str) -> list[str]:
    """The nodes to go on with, batch after batch; the whole group before anything was read.

    Args:
        hostvars: What the hosts know.
        engines: The inventory's nodes.
        part: What is to be done for a node's engine: `prepares`, or `proves`, which is to switch
            it, to prove it, or both.
    """
    if not any(_known(hostvars, host, fact) for host in engines for fact in (_UNIT, _RESULT)):
        return ["engines"]
    hosts = [
        host for batch in _batches(hostvars, engines, part) for unit in batch for host in unit.hosts
    ]
    return hosts or [_NOBODY]


def deploy_sizes(hostvars: Mapping[str, Any], engines: Sequence[str]) -> list[int]:
    """How many nodes each batch has of those that are switched or proved."""
    batches = _batches(hostvars, engines, "proves")
    sizes = [sum(len(unit.hosts) for unit in batch) for batch in batches]
    return sizes or [len(engines) or 1]


def host_order(hostvars: Mapping[str, Any], engines: Sequence[str]) -> list[str]:
    """The nodes whose host is changed in turn, batch after batch; nobody before the reading."""
    batches = _batches(hostvars, engines, _HOST)
    return [host for batch in batches for unit in batch for host in unit.hosts] or [_NOBODY]


def host_sizes(hostvars: Mapping[str, Any], engines: Sequence[str]) -> list[int]:
    """How many nodes each batch of `host_order` has."""
    batches = _batches(hostvars, engines, _HOST)
    return [sum(len(unit.hosts) for unit in batch) for batch in batches] or [1]


def host_turns(hostvars: Mapping[str, Any], engines: Sequence[str]) -> list[str]:
    """What the plan of the run says about `host_order`; nothing where nobody is changed in turn."""
    lines = []
    for number, batch in enumerate(_batches(hostvars, engines, _HOST), start=1):
        for unit in batch:
            told = {
                reason: None
                for host in unit.hosts
                for reason in _known(hostvars, host, _UNIT)["host"]
            }
            lines.append(f"{number}. {', '.join(unit.hosts)}: {'; '.join(told)}")
    if not lines:
        return []
    return ["hosts are changed in turn, those with one number at once:", *lines]


def host_left(hostvars: Mapping[str, Any], engines: Sequence[str], host: str) -> list[str]:
    """What would take a node's engine down for its host although its turn is over.

    An engine that serves nobody is disturbed by nothing.
    """
    read, _lost = _units(hostvars, engines, _HOST)
    serves = any(unit.serving for unit in read if host in unit.hosts)
    return list(_known(hostvars, host, _UNIT)[_HOST]) if serves else []


def host_refusal(
    hostvars: Mapping[str, Any], engines: Sequence[str], batch: Sequence[str], host: str
) -> str:
    """Why a node's host must not be changed now; empty when it may."""
    return _refusal(hostvars, engines, batch, host, _HOST)


def deploy_refusal(
    hostvars: Mapping[str, Any], engines: Sequence[str], batch: Sequence[str], host: str
) -> str:
    """Why a node's engine must not be switched now; empty when it may."""
    return _refusal(hostvars, engines, batch, host, _SWITCH)


def _refusal(
    hostvars: Mapping[str, Any],
    engines: Sequence[str],
    batch: Sequence[str],
    host: str,
    what: str,
) -> str:
    read, lost = _units(hostvars, engines, what)
    own = next(unit for unit in read if host in unit.hosts)
    now = [unit for unit in read if set(unit.hosts) & set(batch)]
    results = _results(hostvars, read, lost)
    total, rules = _total(hostvars, engines), _rules(hostvars, read)
    return _rolling.refusals(now, [*read, *lost], results, total, rules).get(own.name, "")


def deploy_table(
    hostvars: Mapping[str, Any], engines: Sequence[str], run: Mapping[str, Any]
) -> list[str]:
    """The results of all nodes of a run (`_rolling.table`).

    Args:
        hostvars: What the hosts know.
        engines: The inventory's nodes.
        run: `targets`, the run's nodes; `here`, those that it has not lost; `tags` and `skip_tags`,
            what it was limited to.
    """
    read, lost = _units(hostvars, engines)
    results = _results(hostvars, read, lost)
    failed = {host for unit in [*read, *lost] if unit.name in results for host in unit.hosts}
    limited = _rolling.cut_short(run["tags"], run["skip_tags"])
    rows = []
    for host in engines:
        if host not in run["targets"]:
            continue
        state = _known(hostvars, host, _UNIT) or {}
        result = _known(hostvars, host, _RESULT)
        if result is None:
            result = {"verdict": "failed", "cause": _EARLIER}
            if state and not state["proves"]:
                result = {"verdict": "ok"}
            elif limited and host in run["here"] and host not in failed:
                result = limited
        # What went on serving may have proved itself all the same.
        ok, switches = result["verdict"] == "ok", state.get("switches", False)
        if ok and switches and limited.get("verdict") == _rolling.NOT_SWITCHED:
            result = {**result, **limited}
        changed = ", ".join(state.get("changed", []))
        nothing = "nothing" if state else ""
        rows.append({"node": host, **state, **result, "changed": changed or nothing})
    return _rolling.table(rows)


def rolling_problems(rules: Mapping[str, Any], engines: Sequence[str]) -> list[str]:
    """`_rolling.problems` for the role's variables."""
    return _rolling.problems(Rules(**rules), engines)


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "cut_short": _rolling.cut_short,
        "deploy_order": deploy_order,
        "deploy_refusal": deploy_refusal,
        "deploy_sizes": deploy_sizes,
        "deploy_table": deploy_table,
        "host_left": host_left,
        "host_order": host_order,
        "host_refusal": host_refusal,
        "host_sizes": host_sizes,
        "host_turns": host_turns,
        "rolling_problems": rolling_problems,
        "short_cause": _rolling.short_cause,
    }
