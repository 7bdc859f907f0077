# SPDX-License-Identifier: Apache-2.0
"""When what is asked: against a simulated engine whose every request is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import (
    HEALTH_TIMEOUT,
    READINESS_INTERVAL,
    Answer,
    Ask,
    Readiness,
    describe_engine,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.recordings import answer

REFUSED = Answer(error="connection refused", refused=True)


@dataclass
class Engine:
    """An engine that opens its port at `opens` and ends its warm-up at `warm` (seconds)."""

    opens: float
    warm: float
    has_ready: bool
    health_takes: float = 1.0
    asked: list[tuple[float, Ask]] = field(default_factory=list)

    def reply(self, now: float, ask: Ask) -> tuple[Answer, float]:
        """The answer, and when it comes."""
        self.asked.append((now, ask))
        if now < self.opens:
            return REFUSED, now
        if ask is Ask.MODEL_INFO:
            return Answer(200, {"model_path": "/m"}), now
        if ask is Ask.READY and not self.has_ready:
            return Answer(404, {"detail": "Not Found"}), now
        if now < self.warm:
            return Answer(503, ""), now
        return Answer(200, ""), now + (self.health_takes if ask is Ask.HEALTH else 0)


def watch(engine: Engine, limit: float = 10_000) -> tuple[Readiness, float]:
    """Ask as the plugin does; returns the readiness and the time at the end."""
    readiness, now = Readiness(), 0.0
    while not readiness.ready and now < limit:
        ask, when = readiness.next(now)
        assert when >= now
        readiness.sent(ask, when)
        reply, now = engine.reply(when, ask)
        readiness.answered(ask, reply)
    return readiness, now


@given(
    opens=st.floats(0, 300),
    warmup=st.floats(0, 120),
    has_ready=st.booleans(),
    takes=st.floats(0, 20),
)
def test_no_endpoint_is_asked_too_often(
    opens: float, warmup: float, has_ready: bool, takes: float
) -> None:
    engine = Engine(opens, opens + warmup, has_ready, takes)
    readiness, end = watch(engine)
    assert readiness.ready
    health = [when for when, ask in engine.asked if ask is Ask.HEALTH]
    others = [when for when, ask in engine.asked if ask is not Ask.HEALTH]
    assert all(b - a >= READINESS_INTERVAL - 1e-6 for a, b in pairwise(health))
    # Answers that let the next question follow at once come twice at most: open, and no /ready.
    close = [b - a for a, b in pairwise(others) if b - a < 1 - 1e-6]
    assert len(close) <= 1
    assert not (has_ready and health)
    assert end <= opens + warmup + takes + READINESS_INTERVAL + 1


def test_health_is_not_asked_before_the_port_is_open() -> None:
    engine = Engine(30, 40, has_ready=False)
    watch(engine)
    assert all(ask is Ask.MODEL_INFO for when, ask in engine.asked if when < 30)


def test_a_serving_engine_costs_one_question_of_each_kind() -> None:
    old, new = Engine(0, 0, has_ready=False), Engine(0, 0, has_ready=True)
    watch(old)
    watch(new)
    assert [ask for _when, ask in old.asked] == [Ask.MODEL_INFO, Ask.READY, Ask.HEALTH]
    assert [ask for _when, ask in new.asked] == [Ask.MODEL_INFO, Ask.READY]


def test_health_gets_longer_than_the_engine_gives_itself() -> None:
    assert Ask.HEALTH.timeout == HEALTH_TIMEOUT > 25
    assert Ask.READY.timeout <= 5


def test_the_journals_word_brings_the_next_question_forward() -> None:
    readiness = Readiness(model_info={"x": 1}, has_ready=False)
    readiness.sent(Ask.HEALTH, 100.0)
    readiness.answered(Ask.HEALTH, Answer(503))
    assert readiness.next(100.5) == (Ask.HEALTH, 105.0)
    readiness.hurry()
    assert readiness.next(100.5) == (Ask.HEALTH, 101.0)
    readiness.sent(Ask.HEALTH, 101.0)
    assert readiness.next(101.0) == (Ask.HEALTH, 106.0), "and only that one"


def test_a_port_that_closes_again_starts_over() -> None:
    readiness = Readiness(model_info={"x": 1})
    readiness.answered(Ask.READY, REFUSED)
    assert readiness.next(0)[0] is Ask.MODEL_INFO
    assert not readiness.ready


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_is_told_apart(status: int) -> None:
    readiness = Readiness()
    readiness.answered(Ask.MODEL_INFO, Answer(status, {"error": "Unauthorized"}))
    assert readiness.unauthorized
    assert not readiness.up


def test_recorded_answers_of_0_5_9() -> None:
    readiness = Readiness()
    readiness.answered(Ask.MODEL_INFO, answer("http-hit", "model_info_401"))
    assert readiness.unauthorized
    readiness.answered(Ask.MODEL_INFO, answer("http-hit", "model_info"))
    assert readiness.up
    assert not readiness.unauthorized
    readiness.answered(Ask.READY, answer("http-hit", "ready_404"))
    assert readiness.next(0)[0] is Ask.HEALTH
    readiness.answered(Ask.HEALTH, answer("http-hit", "health"))
    assert readiness.ready


@pytest.mark.parametrize(
    ("ask", "reply", "words"),
    [
        (None, None, "nothing has been asked"),
        (Ask.MODEL_INFO, REFUSED, "port is still closed"),
        (Ask.MODEL_INFO, Answer(500, ""), "/model_info answers 500"),
        (Ask.MODEL_INFO, Answer(404, "somebody else"), "/model_info answers 404"),
        (Ask.MODEL_INFO, Answer(error="no answer within 5 s"), "no answer within 5 s"),
    ],
)
def test_what_it_waits_for(ask: Ask | None, reply: Answer | None, words: str) -> None:
    readiness = Readiness()
    if ask is not None and reply is not None:
        readiness.answered(ask, reply)
    assert words in readiness.waiting_for()


@pytest.mark.parametrize(("has_ready", "path"), [(True, "/ready"), (False, "/health")])
def test_what_it_waits_for_once_the_port_is_open(has_ready: bool, path: str) -> None:
    readiness = Readiness(model_info={"x": 1}, has_ready=has_ready)
    readiness.answered(Ask.READY if has_ready else Ask.HEALTH, Answer(503))
    assert f"{path} answers 503: still warming up, or hung" in readiness.waiting_for()


def test_only_the_identity_is_taken_from_model_info() -> None:
    info = {"model_path": "/m", "model_type": "kimi_k25", "api_key": "x", "preferred": {}}
    assert describe_engine(info) == {"model_path": "/m", "model_type": "kimi_k25"}


def test_a_node_that_is_not_the_first_of_its_engine_is_asked_health_alone() -> None:
    """Recorded of 0.5.9: 200 to /health once its schedulers have loaded, 404 to the rest."""
    readiness, asked = Readiness(rank=1), []
    for reply in (REFUSED, REFUSED, Answer(200, "")):
        assert not readiness.ready
        ask, when = readiness.next(0.0)
        asked.append((ask, round(when, 3)))
        readiness.sent(ask, when)
        readiness.answered(ask, reply)
        assert "closed" in readiness.waiting_for() or readiness.ready
    assert readiness.ready
    assert [ask for ask, _when in asked] == [Ask.HEALTH] * 3
    assert asked[2][1] < READINESS_INTERVAL, "it costs the engine nothing there"
    odd = Readiness(rank=1)
    odd.answered(Ask.HEALTH, Answer(500))
    assert not odd.ready
    assert odd.waiting_for() == "/health answers 500"
