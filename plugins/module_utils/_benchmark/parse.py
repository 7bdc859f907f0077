# SPDX-License-Identifier: Apache-2.0
"""Read one run of SGLang's load generator: its JSON line with details, to figures. Pure.

The line holds `duration`, and for each request `output_lens`, `ttfts`, `itls` and `errors`, under
the same names from 0.5.9 (bench_serving.py:2681-2760) to 0.5.23 (benchmark/serving.py:1862-1968).
Percentiles are made from these and not taken over: the releases report different ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import Latency


class ParseError(ValueError):
    """This is no output of the load generator with details."""


@dataclass(frozen=True)
class Figures:
    """What one run measured; the fields are those of `schema.Run`.

    Attributes:
        error: The last line of the first failed request's error, empty without one.
    """

    duration_s: float
    completed: int
    failed: int
    output_tok_s: float | None
    request_tok_s: float | None
    ttft_ms: Latency | None
    itl_ms: Latency | None
    error: str = ""


@dataclass(frozen=True)
class _Request:
    """One request: tokens made, seconds to the first, and between each two after it."""

    tokens: int
    ttft: float
    gaps: Sequence[float]
    error: str

    @property
    def complete(self) -> bool:
        """Whether it was answered.

        The load generator counts a stream that held an error and not one token as a success with
        all its tokens (0.5.9 bench_serving.py:644-680): only the time to the first one tells.
        """
        return not self.error and self.tokens > 0 and self.ttft > 0

    @property
    def rate(self) -> float | None:
        """Tokens a second after the first answer, which the time to the first token judges."""
        total = sum(self.gaps)
        return len(self.gaps) / total if total > 0 else None


def figures(raw: Mapping[str, Any]) -> Figures:
    """The figures of one run.

    Args:
        raw: The parsed line of `--output-file` with `--output-details`.

    Returns:
        Figures over the completed requests; None where no request gives them.

    Raises:
        ParseError: a field is missing or of another kind.
    """
    try:
        duration = float(raw["duration"])
        columns = [raw["output_lens"], raw["ttfts"], raw["itls"], raw["errors"]]
        requests = [
            _Request(int(tokens), float(ttft), [float(gap) for gap in gaps], str(error or ""))
            for tokens, ttft, gaps, error in zip(*columns, strict=True)
        ]
    except KeyError as error:
        raise ParseError(f"the load generator's output has no {error.args[0]!r}") from error
    except (TypeError, ValueError) as error:
        raise ParseError(f"the load generator's output cannot be read: {error}") from error
    if duration <= 0:
        raise ParseError(f"the load generator says that its run took {duration} s")
    done = [request for request in requests if request.complete]
    failed = [request for request in requests if not request.complete]
    rates = [request.rate for request in done if request.rate is not None]
    # With answers of one token there is nothing after the first; then the whole time counts.
    rates = rates or [request.tokens / request.ttft for request in done]
    return Figures(
        duration_s=round(duration, 3),
        completed=len(done),
        failed=len(failed),
        output_tok_s=_rounded(sum(request.tokens for request in done) / duration),
        request_tok_s=_rounded(statistics.median(rates)) if rates else None,
        ttft_ms=latency([request.ttft * 1000 for request in done]),
        itl_ms=latency([gap * 1000 for request in done for gap in request.gaps]),
        error=_why(failed),
    )


def latency(values: Sequence[float]) -> Latency | None:
    """Mean and percentiles (linear between ranks, as numpy's default), None without a value."""
    if not values:
        return None
    ranked = sorted(values)
    return Latency(
        round(statistics.fmean(ranked), 3),
        *(round(_at(ranked, share), 3) for share in (50, 95, 99)),
    )


def _at(ranked: Sequence[float], percent: int) -> float:
    place = (len(ranked) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def _rounded(value: float) -> float | None:
    return round(value, 4) if value > 0 else None


def _why(failed: Sequence[_Request]) -> str:
    for request in failed:
        lines = request.error.strip().splitlines()
        if lines:
            return lines[-1][:300]
    return "the answer held not one token" if failed else ""
