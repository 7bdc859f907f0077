# SPDX-License-Identifier: Apache-2.0
"""Filters: the decisions of `_benchmark` for use in roles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark import (
    announce,
    choice,
    fingerprint,
    plan,
    regression,
    schema,
)
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decode import SchemaError

_UNKNOWN_START = 600.0  # seconds to plan with while no start was measured; more are waited for


def _errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the deciders' own errors into messages of the play, without a traceback."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (plan.PlanError, SchemaError) as error:
            raise AnsibleFilterError(str(error)) from error

    return wrapped


def speculation_choice(
    wanted: object, configured: Mapping[str, Any] | None, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether to speculate and how, and one line that says why (`choice.choose`)."""
    return choice.choose(wanted, configured, known)


def benchmark_serial(hostvars: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> str:
    """How many nodes are measured at once; one where engines behind gateways restart.

    Args:
        hostvars: Ansible's `hostvars`.
        groups: Ansible's `groups`.
    """
    engines = [host for host in groups.get("engines", ()) if host in hostvars]
    restarts = any(hostvars[host].get("benchmark_allow_restart") for host in engines)
    return "1" if groups.get("gateways") and restarts else "100%"


def benchmark_settings(
    configured: Mapping[str, Any], drafts: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The settings to compare (`plan.settings`); `configured` is empty without a draft model."""
    return [asdict(one) for one in plan.settings(configured or None, drafts)]


def benchmark_points(
    concurrency: Sequence[int], lengths: Sequence[Mapping[str, int]], dataset: str, rounds: int
) -> list[dict[str, Any]]:
    """The loads (`plan.points`)."""
    return [
        asdict(one) for one in plan.points(concurrency, lengths, dataset=dataset, rounds=rounds)
    ]


def benchmark_plan(
    names: Sequence[str], points: Iterable[Mapping[str, Any]], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """The order of all runs and what they are expected to take.

    Args:
        names: Settings, the serving one first.
        points: As `benchmark_points` gives them.
        asked: `repeats`, `rate` (tokens a second of one request, assumed), `start_seconds` (of the
            last measured start, 0 when unknown), `start_timeout` (the longest that is waited).

    Returns:
        `blocks`, `runs` (how many are measured), `restarts`, `seconds` (expected in all),
        `start_seconds` (expected of one start), `start_bound` (seconds that one may take) and
        `unknown_start` (whether no start was ever measured).
    """
    loads = [schema.Point(**one) for one in points]
    blocks = plan.blocks(names, [one.id for one in loads], int(asked["repeats"]))
    restarts = plan.restarts(blocks, names[0])
    known = float(asked["start_seconds"])
    longest = float(asked["start_timeout"])
    usual = known or min(longest, _UNKNOWN_START)
    return {
        "blocks": [asdict(block) for block in blocks],
        "runs": sum(step.repeat != plan.WARM_UP for block in blocks for step in block.steps),
        "restarts": restarts,
        "seconds": plan.total(blocks, loads, float(asked["rate"]), restarts * usual),
        "start_seconds": usual,
        "start_bound": min(longest, plan.bound(known)) if known else longest,
        "unknown_start": not known,
    }


def benchmark_skipped(steps: Iterable[Mapping[str, Any]], reason: str) -> list[dict[str, Any]]:
    """Runs that were not tried, or whose setting could not serve; see `skipped` and `failed`."""
    return _without(steps, "skipped", reason)


def benchmark_failed(steps: Iterable[Mapping[str, Any]], reason: str) -> list[dict[str, Any]]:
    """Runs of a setting that does not serve."""
    return _without(steps, "failed", reason)


def _without(steps: Iterable[Mapping[str, Any]], state: str, reason: str) -> list[dict[str, Any]]:
    first = " ".join(reason.split())[:600] or "no reason is known"
    return [
        {
            **{name: step[name] for name in ("setting", "point", "repeat", "order")},
            "state": state,
            "reason": first,
        }
        for step in steps
        if step["repeat"] != plan.WARM_UP
    ]


def benchmark_document(found: Mapping[str, Any]) -> dict[str, Any]:
    """A document as it is stored; strict, so that nothing else ever is (`schema.from_json`)."""
    return schema.to_json(schema.from_json({"schema": schema.SCHEMA, **found}))


def benchmark_before(
    results: Sequence[Mapping[str, Any]], node: str, fingerprint: str, setting: str
) -> dict[str, Any]:
    """The newest stored result of another stack in which a setting was measured; empty for none."""
    found = [
        one
        for one in choice.documents(results)
        if one.node == node
        and one.stack.fingerprint != fingerprint
        and any(run.setting == setting and run.state == "ok" for run in one.runs)
    ]
    return schema.to_json(max(found, key=lambda one: one.started)) if found else {}


def benchmark_regression(
    after: Mapping[str, Any], before: Mapping[str, Any], tolerance: float, meaningless: bool = False
) -> dict[str, str]:
    """`verdict` and `reason` of a comparison with the result of the stack before."""
    found = regression.regression(
        schema.from_json(before),
        schema.from_json(after),
        tolerance,
        accept_meaningless=meaningless,
    )
    return {"verdict": found.verdict, "reason": found.reason}


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    plain: dict[str, Callable[..., Any]] = {
        "speculation_choice": speculation_choice,
        "benchmark_fingerprint": fingerprint.fingerprint,
        "benchmark_arguments": fingerprint.arguments_of,
        "benchmark_environment": fingerprint.environment_of,
        "benchmark_serial": benchmark_serial,
        "benchmark_settings": benchmark_settings,
        "benchmark_points": benchmark_points,
        "benchmark_plan": benchmark_plan,
        "benchmark_skipped": benchmark_skipped,
        "benchmark_failed": benchmark_failed,
        "benchmark_document": benchmark_document,
        "benchmark_before": benchmark_before,
        "benchmark_regression": benchmark_regression,
        "benchmark_announcement": announce.before,
        "benchmark_outcome": announce.after,
        "benchmark_checks": announce.checks,
    }
    return {name: _errors(function) for name, function in plain.items()}
