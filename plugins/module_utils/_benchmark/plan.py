# SPDX-License-Identifier: Apache-2.0
"""What a benchmark measures, in which order, and how long that takes. All functions are pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils import _launch
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    OFF,
    Draft,
    Point,
    Setting,
)

RANDOM_IDS = "random-ids"
WARM_UP = 0
"""The repeat whose figures are thrown away."""
_OVERHEAD = 20.0  # the load generator's own start: 8 to 15 s on the lab's two busy cores
_SHAPED = (RANDOM_IDS, "random")  # data sets whose lengths are asked for
_FACTOR = 3.0  # how much longer than expected a run or a start may take
_LEAST = 120.0


class PlanError(ValueError):
    """This benchmark cannot be made; the message names the variable."""


@dataclass(frozen=True)
class Step:
    """One run of the load generator; `repeat` is `WARM_UP` for one that is thrown away."""

    order: int
    setting: str
    point: str
    repeat: int


@dataclass(frozen=True)
class Block:
    """Steps under one setting; before the first one the engine serves it."""

    setting: str
    steps: tuple[Step, ...]


def settings(
    configured: Mapping[str, Any] | None, drafts: Iterable[Mapping[str, Any]] = ()
) -> list[Setting]:
    """The settings to compare.

    Args:
        configured: `algorithm`, `num_steps`, `eagle_topk`, `num_draft_tokens` as the inventory has
            them; None where there is no draft model, and so nothing to compare.
        drafts: Further ones; what one leaves out is as configured.

    Returns:
        `off`, then speculation as configured, then the further ones, each once.

    Raises:
        PlanError: A further one has an unknown key or a number below 1.
    """
    found = [Setting(OFF, "without speculation", False)]
    for entry in [{}, *drafts] if configured is not None else []:
        wanted = {**(configured or {}), **entry}
        unknown = set(entry) - {"algorithm", "num_steps", "eagle_topk", "num_draft_tokens"}
        if unknown:
            raise PlanError(f"benchmark_drafts: unknown {', '.join(sorted(unknown))}")
        setting = draft_setting(wanted)
        if setting.id not in {one.id for one in found}:
            found.append(setting)
    return found


def draft_setting(wanted: Mapping[str, Any]) -> Setting:
    """The setting of one way to draft.

    Raises:
        PlanError: A number is below 1, or none.
    """
    try:
        draft = Draft(
            num_steps=int(wanted["num_steps"]),
            eagle_topk=int(wanted["eagle_topk"]),
            num_draft_tokens=int(wanted["num_draft_tokens"]),
            algorithm=str(wanted["algorithm"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(f"draft setting {dict(wanted)}: {error!r}") from error
    numbers = (draft.num_steps, draft.eagle_topk, draft.num_draft_tokens)
    if min(numbers) < 1:
        raise PlanError(f"draft setting {dict(wanted)}: a number is below 1")
    shape = [str(number) for number in numbers]
    return Setting(
        f"{draft.algorithm.lower()}-{'-'.join(shape)}",
        f"{draft.algorithm} {'/'.join(shape)}",
        True,
        draft,
    )


def points(
    concurrency: Sequence[int],
    lengths: Sequence[Mapping[str, int]],
    *,
    dataset: str = RANDOM_IDS,
    rounds: int = 4,
) -> list[Point]:
    """The loads: every length at every concurrency.

    Args:
        concurrency: Requests at a time.
        lengths: `input` and `output` tokens of a request.
        dataset: The load generator's name of the data set.
        rounds: Requests a point, as a multiple of its concurrency.

    Raises:
        PlanError: Nothing to measure, or a number below 1.
    """
    found = []
    for shape in lengths:
        for many in sorted(set(concurrency)):
            asked, made = int(shape["input"]), int(shape["output"])
            if min(many, asked, made, rounds) < 1:
                raise PlanError("benchmark_concurrency, _lengths, _rounds: a number is below 1")
            name = f"c{many}-i{asked}-o{made}"
            found.append(Point(name, many, asked, made, dataset, many * rounds))
    if not found:
        raise PlanError("benchmark_concurrency or benchmark_lengths is empty: nothing to measure")
    return found


def blocks(names: Sequence[str], loads: Sequence[str], repeats: int) -> list[Block]:
    """The order of all runs.

    Every change of setting restarts the engine, and what drifts (temperature, clocks, other work)
    must not fall on one setting. So the settings go forth and back, A B, B A, A B, which
    needs one restart less a repeat than A B, A B and gives each setting the same mean place in time
    over an even number of repeats; the points go forth and back as well.

    Args:
        names: Settings, the serving one first.
        loads: Points.
        repeats: How often each point is measured under each setting.

    Returns:
        The blocks. Each begins with a run of every point that is thrown away: a restart forgets
        what the first requests of a shape compiled and captured.
    """
    found: list[Block] = []
    order = 0
    for repeat in range(1, repeats + 1):
        forth = repeat % 2 == 1
        for name in names if forth else list(reversed(names)):
            same = bool(found) and found[-1].setting == name
            steps = [Step(0, name, load, WARM_UP) for load in ([] if same else loads)]
            for load in loads if forth else list(reversed(loads)):
                order += 1
                steps.append(Step(order, name, load, repeat))
            if same:
                found[-1] = Block(name, (*found[-1].steps, *steps))
            else:
                found.append(Block(name, tuple(steps)))
    return found


def restarts(plan: Sequence[Block], serving: str) -> int:
    """How often the engine restarts, back to the setting that served before included."""
    names = [serving, *(block.setting for block in plan), serving]
    return sum(one != other for one, other in itertools.pairwise(names))


def requests(step: Step, point: Point) -> int:
    """How many requests a step makes; a warm-up needs each place of the batch filled once."""
    return point.concurrency if step.repeat == WARM_UP else point.requests


def expected(
    step: Step, point: Point, rate: float, seen: Mapping[str, float] | None = None
) -> float:
    """Seconds that a step is expected to take.

    Args:
        step: The step.
        point: Its load.
        rate: Tokens a second of one request, assumed while nothing was measured.
        seen: Point to seconds that its longest measured run took.
    """
    share = requests(step, point) / point.requests
    known = (seen or {}).get(point.id)
    if known is not None:
        return _OVERHEAD + max(0.0, known - _OVERHEAD) * share
    return _OVERHEAD + point.requests / point.concurrency * share * point.output_tokens / rate


def bound(seconds: float) -> float:
    """The time after which something that is expected to take `seconds` is given up."""
    return max(_LEAST, _FACTOR * seconds)


def total(plan: Sequence[Block], loads: Iterable[Point], rate: float, starts: float) -> float:
    """Seconds that a plan is expected to take; `starts` is the time of all its restarts."""
    by_id = {point.id: point for point in loads}
    return starts + sum(
        expected(step, by_id[step.point], rate) for block in plan for step in block.steps
    )


def arguments(
    step: Step, point: Point, *, url: str, model: str, name: str, dataset: Mapping[str, Any]
) -> list[str]:
    """The load generator's arguments for one step, the same for 0.5.9 to 0.5.23.

    Args:
        step: The step. Its repeat is the seed: settings are compared on the same prompts, and no
            repeat finds the prompts of another in the prefix cache, which is flushed besides.
        point: Its load.
        url: The engine's address on its node.
        model: Path of the target model, for its tokenizer.
        name: Its name in the API.
        dataset: `name`, `path`, and `arguments` (further ones, name without dashes to value).

    Returns:
        The argument list; the key is not in it (`OPENAI_API_KEY` in the environment).

    Raises:
        PlanError: A further argument is none.
    """
    shaped, ids = dataset["name"] in _SHAPED, dataset["name"] == RANDOM_IDS
    wanted: dict[str, _launch.Value] = {
        "backend": "sglang",
        "base-url": url,
        "model": model,
        "served-model-name": name,
        "dataset-name": dataset["name"],
        "dataset-path": dataset.get("path") or None,
        "num-prompts": requests(step, point),
        "max-concurrency": point.concurrency,
        "seed": 1 + step.repeat,
        "warmup-requests": 0,
        "flush-cache": True,
        "disable-tqdm": True,
        # As ids: decoded to text and encoded again the lengths would be others.
        "tokenize-prompt": ids,
        "random-input-len": point.input_tokens if shaped else None,
        "random-output-len": point.output_tokens if shaped else None,
        "random-range-ratio": 1.0 if shaped else None,
        "sharegpt-output-len": None if shaped else point.output_tokens,
    }
    try:
        further = _launch.dash_names(dataset.get("arguments") or {})
        return _launch.render_arguments({**wanted, **further})
    except _launch.LaunchError as error:
        raise PlanError(f"benchmark_dataset: {error}") from error
