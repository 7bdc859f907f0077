# SPDX-License-Identifier: Apache-2.0
"""Turn findings into verdicts: what refuses, what warns, what somebody has accepted."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypedDict

from ansible_collections.sm120.sglang.plugins.module_utils._host.catalogue import (
    CHECKS,
    DRIVER,
    NEVER_ACCEPTED,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.check_gpus import (
    check_driver,
    check_gpus,
)
from ansible_collections.sm120.sglang.plugins.module_utils._host.check_host import check_host
from ansible_collections.sm120.sglang.plugins.module_utils._host.check_pcie import check_pcie
from ansible_collections.sm120.sglang.plugins.module_utils._host.finding import (
    FOUND,
    OK,
    UNKNOWN,
    Finding,
)

# Checks whose trouble needs traffic between cards: without it they only warn.
_PEER = frozenset({"acs", "iommu", "hmm", "bar1", "p2p"})
_ORDER = ("ok", "warn", "fail")


class Verdict(TypedDict):
    """The outcome of one check.

    Attributes:
        id: The check.
        verdict: `ok`, `warn` or `fail`.
        read: What was read.
        why: Why it matters, with its source.
        remedy: What to do; empty when the verdict is `ok`.
        accepted: Whether it would be `warn` or `fail` and somebody accepted that.
    """

    id: str
    verdict: str
    read: str
    why: str
    remedy: str
    accepted: bool


def findings(host: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """Check a host.

    Args:
        host: The reading (`read.read_host`).
        wanted: `gpus`, `gpu_names`, `gpu_capabilities`, `minimum_driver`, `shm`, `nofile`,
            `unit`.

    Yields:
        Findings; nothing about cards where none are wanted.
    """
    if wanted["gpus"] > 0:
        yield from check_driver(host, wanted)
        yield from check_gpus(host, wanted)
        yield from check_pcie(host, wanted)
    yield from check_host(host, wanted)


def verdict(
    finding: Finding,
    fail_on: Collection[str],
    accept: Collection[str] = (),
    soft: Mapping[str, str] | None = None,
) -> Verdict:
    """Judge one finding.

    Args:
        finding: What was found.
        fail_on: Checks that refuse the node; the others warn. What could not be read warns.
        accept: Checks that somebody accepted by name.
        soft: Checks that only warn this time, each to the reason.

    Returns:
        The verdict.
    """
    check = CHECKS[finding.id]
    result, reason = "ok", ""
    if finding.state == UNKNOWN:
        result = "warn"
    elif finding.state == FOUND:
        reason = (soft or {}).get(finding.id, "")
        result = "fail" if finding.id in fail_on and not reason else "warn"
    accepted = result != "ok" and finding.id in accept and finding.id not in NEVER_ACCEPTED
    usual = "provide what is missing, then run again" if finding.state == UNKNOWN else check.remedy
    remedy = "; ".join(part for part in (reason, finding.remedy or usual) if part)
    return {
        "id": finding.id,
        "verdict": "ok" if accepted else result,
        "read": finding.read,
        "why": f"{check.why} ({check.source})" if check.source else check.why,
        "remedy": "" if result == "ok" or accepted else remedy,
        "accepted": accepted,
    }


def judge(
    host: Mapping[str, Any],
    wanted: Mapping[str, Any],
    fail_on: Collection[str],
    accept: Collection[str] = (),
) -> list[Verdict]:
    """Judge a host.

    Args:
        host: The reading.
        wanted: As for `findings`, and `peer` (False when NCCL is told to leave peer access alone)
            and `driver_by` (what will install the driver in this run; empty for nothing).
        fail_on: See `verdict`.
        accept: See `verdict`.

    Returns:
        One verdict a finding, in the catalogue's order.
    """
    soft = {}
    if not wanted.get("peer", True):
        soft.update(dict.fromkeys(_PEER, "NCCL_P2P_DISABLE=1 is set, so it slows down only"))
    if wanted.get("driver_by"):
        reason = f"{wanted['driver_by']} takes care of it when you deploy"
        soft.update(dict.fromkeys(DRIVER, reason))
    place = {name: number for number, name in enumerate(CHECKS)}
    found = sorted(findings(host, wanted), key=lambda finding: place[finding.id])
    return [verdict(finding, fail_on, accept, soft) for finding in found]


def worst(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """The worst verdict, `ok` for none."""
    return max((v["verdict"] for v in verdicts), key=_ORDER.index, default="ok")


def mistyped(fail_on: Iterable[str], accept: Iterable[str]) -> list[str]:
    """Find checks that do not exist, and such that cannot be accepted.

    Args:
        fail_on: As for `verdict`.
        accept: As for `verdict`.

    Returns:
        One sentence each.
    """
    found = []
    for name in dict.fromkeys([*fail_on, *accept]):
        if name not in CHECKS:
            close = difflib.get_close_matches(name, CHECKS, n=1)
            found.append(f"no check {name}" + (f"; did you mean {close[0]}?" if close else ""))
    found += [
        f"{name} cannot be accepted, there would be nothing to go on with"
        for name in accept
        if name in NEVER_ACCEPTED
    ]
    return found


def explain(check: str, outcome: str, read: str, remedy: str = "") -> Finding:
    """A finding of another decider (`ok` or `fail`), for `verdict`."""
    return Finding(check, OK if outcome == "ok" else FOUND, read, remedy)
