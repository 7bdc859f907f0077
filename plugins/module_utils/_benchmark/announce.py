# SPDX-License-Identifier: Apache-2.0
"""What an operator reads before and after a benchmark. All functions are pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any


def before(planned: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    """What is going to happen, and how long it takes.

    Args:
        planned: `runs`, `restarts`, `seconds`, `start_bound`, `unknown_start`.
        told: `node`, `settings` and `points` (mappings as in the document), `repeats`, `minutes`
            (the bound), `start_seconds`, `consent` (to restarts), `others` (settings left out for
            want of it), `folder`.

    Returns:
        A few lines.
    """
    settings = ", ".join(one["id"] for one in told["settings"])
    points = ", ".join(one["id"] for one in told["points"])
    expected, most = planned["seconds"] / 60, float(told["minutes"])
    lines = [
        (
            f"{told['node']}: {planned['runs']} runs: {settings}; {points}; "
            f"each {told['repeats']} time(s)"
        ),
        _restarts(planned, told),
        f"about {max(1, round(expected))} min, never more than {most:.0f} min",
    ]
    if expected > most:
        lines.append(
            "that does not all fit: the last repeats are skipped (benchmark_max_minutes, or fewer "
            "loads, repeats or settings)"
        )
    if told["others"] and not told["consent"]:
        lines.append(
            f"{told['others']} other setting(s) need restarts, and are not measured: "
            "-e '{\"benchmark_allow_restart\": true}' allows them"
        )
    return [*lines, f"results and raw output: {told['folder']}"]


def _restarts(planned: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    many = planned["restarts"]
    if not many:
        return "the engine goes on without a restart"
    each = (
        f"at most {planned['start_bound']:.0f} s each, since no start was measured yet"
        if planned["unknown_start"]
        else f"about {told['start_seconds']:.0f} s each, the last start took as long"
    )
    return (
        f"the engine RESTARTS {many} times, {each}; what serves now serves again at the end. "
        "If this run is killed, the node goes back by itself when its current step is over"
    )


def after(document: Mapping[str, Any], folder: str) -> list[str]:
    """What was measured, one line a setting and point.

    Args:
        document: The stored document.
        folder: Where it is on the controller.
    """
    lines = []
    if not document["meaning"]["figures"]:
        lines.append(f"THE FIGURES MEAN NOTHING: {document['meaning']['reason']}")
    for point in document["points"]:
        for setting in document["settings"]:
            chosen = [
                run
                for run in document["runs"]
                if (run["setting"], run["point"]) == (setting["id"], point["id"])
            ]
            lines.append(f"{point['id']} {setting['id']}: {_cell(chosen)}")
    return [*lines, f"kept: {folder}"]


def _cell(runs: Iterable[Mapping[str, Any]]) -> str:
    listed = list(runs)
    done = [run for run in listed if run["state"] == "ok"]
    words = []
    if done:
        speeds = [run["output_tok_s"] for run in done]
        middle = statistics.median(speeds)
        words.append(
            f"{middle:.1f} tok/s (median of {len(done)}, {min(speeds):.1f} to {max(speeds):.1f})"
        )
        lengths = [run["accept"]["length"] for run in done if run["accept"]]
        if lengths:
            words.append(f"accept length {statistics.median(lengths):.2f}")
    for state in ("failed", "skipped"):
        these = [run for run in listed if run["state"] == state]
        if these:
            words.append(f"{len(these)} {state}: {these[0]['reason']}")
    return "; ".join(words) or "not planned"


def checks(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Preflight's verdicts as the document has them."""
    return [
        {"check": one["id"], "verdict": one["verdict"], "text": str(one["read"])}
        for one in verdicts
    ]
