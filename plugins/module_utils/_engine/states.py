# SPDX-License-Identifier: Apache-2.0
"""In which state an engine is, from its unit, its journal and a few requests to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.rules import options_of
from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import ASKED_FOR
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    OK,
    KnownAnswer,
    explain,
    judge_completion,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState
from ansible_collections.sm120.sglang.plugins.module_utils._node.parts import gone, rank_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line

NOT_DEPLOYED = "not deployed"
STOPPED = "stopped"
CRASHED = "crashed"
STARTING = "starting"
WARMING = "warming"
READY = "ready"
DRAINING = "draining"
OVERLOADED = "overloaded"
HUNG = "hung"
BROKEN = "generation broken"
STATES = (
    *(NOT_DEPLOYED, STOPPED, CRASHED, STARTING, WARMING, READY),
    *(DRAINING, OVERLOADED, HUNG, BROKEN),
)
"""Every state that `decide` returns."""

_HTTP_OK = 200
# A full queue, or a request that waited for longer than it may: 503 with green health (0.5.9
# managers/scheduler.py:1726-1793, tokenizer_manager.py:1167; 0.5.23 scheduler.py:3552-3617). 429 is
# what a proxy in between says.
_TURNED_AWAY = (429, 503)
# The warm-up decodes no 40 steps, and the health check is not green before its end. The "dummy" is
# that of the nodes of an engine that serve through its head (0.5.9 srt/utils/common.py:2705).
_SERVED = re.compile(
    r"The server is fired up and ready to roll|Decode batch|Dummy health check server started|"
    r'"GET /(?:health|ready)\S* HTTP/[\d.]+" 200'
)
# 0.5.9 managers/tokenizer_manager.py:2502, 0.5.23 :4068.
_TOLD_TO_END = "SIGTERM received."
_BATCH = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d+).*?token usage: (?P<usage>[\d.]+)"
    r"(?:.*?accept len: (?P<accept>[\d.]+))?.*?gen throughput \(token/s\): (?P<speed>[\d.]+)"
    r"(?:.*?#queue-req: (?P<queued>\d+))?"
)
_GAUGES = {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "queued",
    "sglang:token_usage": "kv_use",
    "sglang:gen_throughput": "throughput",
}


@dataclass(frozen=True)
class Asked:
    """What came of each request; None where it was not sent.

    `confirm` is `/ready` where the release has it (0.5.20), else `/health`. A request that was
    given up after the probe's own time has an `error` and no status.
    """

    model_info: Answer | None = None
    confirm: Answer | None = None
    server_info: Answer | None = None
    completion: Answer | None = None
    metrics: Answer | None = None


@dataclass(frozen=True)
class Load:
    """What the engine says of its work; None where it does not say.

    `kv_use` is the used share of the KV pool, `throughput` generated tokens a second, both over
    the engine's last log interval; `accept_length` is the mean since the start, bonus token
    included, and absent until the engine logged a decode step.
    """

    running: int | None = None
    queued: int | None = None
    kv_use: float | None = None
    throughput: float | None = None
    accept_length: float | None = None


@dataclass(frozen=True)
class Place:
    """Which of its engine's nodes a node is, by the arguments that it runs with.

    `head` is where the others find the first one, host and port; empty on an engine of one node.
    `ranks` is what `_node.parts.rank_count` gives.
    """

    rank: int = 0
    size: int = 1
    head: str = ""
    ranks: int = 0


ALONE = Place()


def place_of(words: Iterable[str]) -> Place:
    """Read the arguments of the engine's main process."""
    options = options_of(words)

    def value(name: str, default: str) -> str:
        return (options.get(name) or (default,))[0]

    rank, size = value("node-rank", "0"), value("nnodes", "1")
    if not (rank.isdigit() and size.isdigit()) or int(size) <= 1:
        return Place(ranks=rank_count(value("tp-size", "")))
    return Place(int(rank), int(size), value("dist-init-addr", ""))


@dataclass(frozen=True)
class State:
    """The state's name and why, in words."""

    name: str
    why: str


def decide(
    unit: UnitState | None,
    asked: Asked,
    load: Load,
    *,
    served: bool = False,
    ending: bool = False,
    progress: str = "",
    cause: str = "",
    wanted: KnownAnswer | None = None,
    titles: Iterable[str] = (),
    place: Place = ALONE,
) -> State:
    """Name the state.

    The port opens once all schedulers have loaded. `/health` of SGLang 0.5.9 to 0.5.19 generates a
    token and answers 503 while the warm-up runs, during a drain, and after 20 s without output;
    `/ready` (from 0.5.20) generates nothing (0.5.9 http_server.py:464-540, 0.5.23 :714).
    `/server_info` asks the scheduler, so it hangs with it, while `/model_info` does not.

    Args:
        unit: The unit, None where systemd knows none.
        asked: The answers.
        load: What the engine says of its work.
        served: Whether this start was ready before.
        ending: Whether it was told to end, and finishes what runs (`was_told_to_end`).
        progress: How far a start is, in words.
        cause: Why it died, where it did.
        wanted: The answer that the completion should have.
        titles: Titles of the engine's processes, see `_node.parts`.
        place: Which of its engine's nodes this is.
    """
    if unit is None or unit.load_state not in ("", "loaded", "masked"):
        return State(NOT_DEPLOYED, "systemd has no such unit on this node")
    if not unit.running:
        return _not_running(unit, cause)
    info = asked.model_info
    if info is None or info.refused:
        return _closed(progress, served=served)
    if place.rank:
        return _follower(place, titles)
    if info.status == 0:
        return State(HUNG, f"its port is open and /model_info does not answer: {info.error}")
    state = _answering(asked, load, served=served, wanted=wanted)
    if ending and state.name in (OVERLOADED, HUNG):
        state = State(
            DRAINING,
            f"it was told to end by SIGTERM, not by systemd, and finishes what runs "
            f"({load.running or 0} requests); systemd starts it again then",
        )
    return _unless_gone(state, titles, place)


def _closed(progress: str, *, served: bool) -> State:
    if served:
        return State(CRASHED, "its port closed after it was ready; its processes are ending")
    return State(STARTING, progress or "the port is still closed; nothing in the journal yet")


def _follower(place: Place, titles: Iterable[str]) -> State:
    """Its port says only that it was ready once; whether the engine serves, the head says."""
    if gone(titles, place.rank):
        return State(
            CRASHED, "its scheduler is gone: deploy again, which restarts the whole engine"
        )
    return State(
        READY,
        f"node {place.rank + 1} of {place.size} of an engine: its schedulers run, and the first "
        f"node, {place.head}, serves for it",
    )


def _unless_gone(state: State, titles: Iterable[str], place: Place) -> State:
    """Silence without scheduler or detokenizer is an unnoticed death (`_node.parts`)."""
    lost = gone(titles, ranks=place.ranks) if state.name in (DRAINING, HUNG, OVERLOADED) else []
    if not lost:
        return state
    return State(
        CRASHED,
        f"its {' and '.join(lost)} {'is' if len(lost) == 1 else 'are'} gone and the HTTP server "
        "still answers: deploy again, which restarts it; `journalctl -k` tells whether the kernel "
        "killed it",
    )


def _not_running(unit: UnitState, cause: str) -> State:
    if unit.load_state == "masked":
        return State(STOPPED, "the unit is masked")
    again = unit.sub.startswith("auto-restart")
    if cause.startswith(ASKED_FOR) and unit.active == "deactivating":
        return State(DRAINING, f"systemd stops it, and it finishes what runs ({unit.sub})")
    if cause.startswith(ASKED_FOR) and not again:
        # It ends itself by SIGKILL when it has drained: systemd calls that a failure.
        return State(STOPPED, f"the unit is {unit.active} ({unit.sub}): {cause}")
    if unit.active == "failed" or again or unit.result not in ("", "success"):
        text = cause or f"result {unit.result or 'unknown'}"
        restart = ", systemd starts it again" if again else ""
        return State(CRASHED, f"{text} (restarts: {unit.restarts}{restart})")
    if unit.never_started:
        return State(STOPPED, "not started since the node came up")
    return State(STOPPED, f"the unit is {unit.active} ({unit.sub})")


def _answering(asked: Asked, load: Load, *, served: bool, wanted: KnownAnswer | None) -> State:
    """The HTTP server answers: which of warming, ready, overloaded, hung, broken."""
    confirm = asked.confirm or Answer(error="not asked")
    if confirm.status == _HTTP_OK:
        return _healthy(asked, load, wanted)
    what = f"its health check: {confirm.error or confirm.status}"
    if not served and (confirm.status != 0 or asked.completion is None):
        return State(WARMING, f"the port is open; {what}")
    return _silent(asked, load, what)


def _healthy(asked: Asked, load: Load, wanted: KnownAnswer | None) -> State:
    """A green health check proves little: what came of a completion decides."""
    done = asked.completion
    if done is None:
        return State(READY, "its own health check says so; no completion was asked for")
    if done.unauthorized:
        return State(READY, "it is healthy; the API key given here is not the engine's")
    if done.status == 0:
        return _silent(asked, load, f"a short completion: {done.error}")
    if done.status in _TURNED_AWAY:
        return State(
            OVERLOADED,
            f"it turns requests away: {explain(done).rstrip('.')}; {load.running or 0} requests "
            f"run and {load.queued or 0} wait",
        )
    check = judge_completion(done, 0.0, wanted)
    if check.verdict == OK:
        return State(READY, f"it answered {check.value}")
    text = f"expected {check.limit}, got {check.value}" if wanted else check.evidence
    return State(BROKEN, f"it is healthy and generates wrongly: {text}")


def _silent(asked: Asked, load: Load, what: str) -> State:
    """It was ready and does not answer in time: too much work, or stuck."""
    answers = asked.server_info is not None and asked.server_info.status != 0
    busy = (load.running or 0) + (load.queued or 0)
    if answers and busy:
        return State(
            OVERLOADED,
            f"{what}; the scheduler answers, {load.running or 0} requests run and "
            f"{load.queued or 0} wait",
        )
    if answers:
        return State(OVERLOADED, f"{what}; the scheduler answers: a long prefill, or slow kernels")
    return State(HUNG, f"{what}; /model_info answers, the scheduler does not (/server_info hangs)")


def was_served(lines: Iterable[Line]) -> bool:
    """Whether a journal, or the end of a long one, says that this start became ready."""
    return any(not line.manager and _SERVED.search(line.text) for line in lines)


def was_told_to_end(lines: Iterable[Line]) -> bool:
    """Whether a journal says that SIGTERM came: the engine drains then, and its health is 503."""
    return any(not line.manager and _TOLD_TO_END in line.text for line in lines)


def decode_batches(messages: Iterable[str]) -> list[dict[str, float]]:
    """What the engine's decode log lines say, one each 40 steps.

    Args:
        messages: Log messages of any kind.

    Returns:
        For each decode line `running` and `queued` (requests), `kv_use` (0 to 1), `throughput`
        (tokens a second), and `accept` (tokens a verify step) with speculation.
    """
    found = []
    for message in messages:
        if batch := _BATCH.search(message):
            figures = {
                "running": float(batch["running"]),
                "queued": float(batch["queued"] or 0),
                "kv_use": float(batch["usage"]),
                "throughput": float(batch["speed"]),
            }
            if batch["accept"]:
                figures["accept"] = float(batch["accept"])
            found.append(figures)
    return found


def read_load(asked: Asked, lines: Iterable[Line] = ()) -> Load:
    """What the engine says of its work: `/metrics` where it is on, else its last decode log line.

    Only named figures are taken: `/server_info` returns API keys too (0.5.9 http_server.py:605).
    """
    batches = decode_batches(line.message for line in lines)
    found = dict(batches[-1]) if batches else {}
    found |= _gauges(asked.metrics)
    for name, value in _internal(asked.server_info).items():
        found.setdefault(name, value)
    accept = _internal(asked.server_info).get("accept", found.get("accept"))
    running, queued = found.get("running"), found.get("queued")
    return Load(
        running=None if running is None else int(running),
        queued=None if queued is None else int(queued),
        kv_use=found.get("kv_use"),
        throughput=found.get("throughput"),
        accept_length=accept,
    )


def _gauges(answer: Answer | None) -> dict[str, float]:
    """Sums over the ranks of data parallel engines; the KV use is the fullest one's."""
    if answer is None or answer.status != _HTTP_OK or not isinstance(answer.body, str):
        return {}
    found: dict[str, float] = {}
    for line in answer.body.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        key = _GAUGES.get(name)
        # Every tensor parallel rank may report the same figure.
        if key is None or ('tp_rank="' in line and 'tp_rank="0"' not in line):
            continue
        try:
            value = float(line.rsplit(" ", 1)[-1])
        except ValueError:
            continue
        found[key] = (
            max(found.get(key, 0.0), value) if key == "kv_use" else (found.get(key, 0.0) + value)
        )
    return found


def _internal(answer: Answer | None) -> dict[str, float]:
    body = answer.body if answer is not None else None
    states = body.get("internal_states") if isinstance(body, dict) else None
    first: Any = states[0] if isinstance(states, list) and states else {}
    if not isinstance(first, dict):
        return {}
    names = {"avg_spec_accept_length": "accept", "last_gen_throughput": "throughput"}
    return {
        key: float(first[name])
        for name, key in names.items()
        if isinstance(first.get(name), (int, float))
    }


def release_of(answer: Answer | None) -> str:
    """The engine's own version in `/server_info`, empty where it does not say."""
    body = answer.body if answer is not None else None
    version = body.get("version") if isinstance(body, dict) else None
    return version if isinstance(version, str) else ""
