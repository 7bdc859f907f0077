# SPDX-License-Identifier: Apache-2.0
"""The gate's verdicts, on what the real engine answered and on what it never should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    Check,
    KnownAnswer,
    Speculation,
    explain,
    gate_message,
    judge_accept_length,
    judge_completion,
    judge_model_info,
    judge_readiness,
    judge_unit,
    known_answer,
    next_length,
    overall,
    speculation,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.recordings import answer, exchanges

REPOSITORY = Path(__file__).parents[5]
UNIT = UnitState("e.service", "loaded", "active", "running", "success", 0, 5, "aa", 0, 1.0)
COUNTING = KnownAnswer(messages=({"role": "user", "content": "x"},), expect=" one two three")


def recorded(name: str) -> list[Answer]:
    return [answer(name, one) for one in exchanges(name) if one.startswith("generate")]


def generated(meta: dict[str, Any], tokens: int = 8) -> Answer:
    return Answer(200, {"text": "x", "meta_info": {"completion_tokens": tokens, **meta}})


class TestAcceptLength:
    def test_of_a_real_draft_that_hits(self) -> None:
        measured = speculation(recorded("http-hit"))
        assert measured.accept_length == pytest.approx(4.0, abs=0.35)
        assert measured.steps >= 20
        check = judge_accept_length(measured, min_steps=20, warn=2.0, fail=1.2)
        assert check.verdict == "ok"

    def test_of_a_real_draft_that_never_hits(self) -> None:
        measured = speculation(recorded("http-miss"))
        assert measured.accept_length == 1.0
        check = judge_accept_length(measured, min_steps=10, warn=2.0, fail=1.2)
        assert (check.verdict, check.value, check.limit) == ("fail", 1.0, 1.2)
        assert "pairing" in check.remedy

    def test_the_engines_own_figure_would_hide_it(self) -> None:
        """It counts the token of the prefill as an accepted one."""
        body = next(
            one.body
            for one in recorded("http-miss")
            if "spec_accept_length" in one.body["meta_info"]
        )
        assert body["meta_info"]["spec_accept_length"] > 1.0

    @pytest.mark.parametrize(
        ("meta", "length"),
        [
            # 0.5.9 and 0.5.10.post1
            ({"spec_accept_token_num": 0, "spec_verify_ct": 7, "spec_accept_length": 1.14}, 1.0),
            ({"spec_accept_token_num": 21, "spec_verify_ct": 7}, 4.0),
            # 0.5.11
            ({"spec_accepted_drafts": 7, "spec_verify_ct": 7}, 2.0),
            # 0.5.12 to 0.5.23; the first of them have 0.5.11's name as well
            ({"spec_num_correct_drafts": 14, "spec_accepted_drafts": 14, "spec_verify_ct": 7}, 3.0),
            ({"spec_num_correct_drafts": 14, "spec_verify_ct": 7}, 3.0),
            # a figure under another name is not one
            ({"spec_accept_length": 3.9, "spec_verify_ct": 7}, None),
            ({"spec_num_correct_drafts": 3, "spec_verify_ct": 0}, None),
            ({"spec_num_correct_drafts": 3}, None),
            ({}, None),
        ],
    )
    def test_of_each_release(self, meta: dict[str, Any], length: float | None) -> None:
        assert speculation([generated(meta)]).accept_length == length

    def test_requests_are_weighted_by_their_steps(self) -> None:
        few = generated({"spec_num_correct_drafts": 3, "spec_verify_ct": 1})
        many = generated({"spec_num_correct_drafts": 0, "spec_verify_ct": 9})
        assert speculation([few, many]).accept_length == pytest.approx(1.3)

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), min_size=1))
    def test_lies_between_one_and_the_drafts_depth(self, rows: list[tuple[int, int]]) -> None:
        measured = speculation(
            generated({"spec_accept_token_num": hits * steps, "spec_verify_ct": steps})
            for hits, steps in rows
        )
        assert measured.accept_length is not None
        assert 1.0 <= measured.accept_length <= 4.0

    @pytest.mark.parametrize(
        ("accepted", "steps", "verdict"),
        [
            (40, 40, "ok"),  # 2.0
            (39, 40, "warn"),  # 1.975
            (8, 40, "warn"),  # 1.2
            (7, 40, "fail"),  # 1.175
            (0, 40, "fail"),
            (0, 39, "warn"),  # too few steps to say
            (120, 39, "warn"),
        ],
    )
    def test_floors(self, accepted: int, steps: int, verdict: str) -> None:
        measured = Speculation(accepted, steps, 100, 2, 2)
        check = judge_accept_length(measured, min_steps=40, warn=2.0, fail=1.2)
        assert check.verdict == verdict
        assert str(steps) in check.evidence

    def test_absent_is_a_failure_and_not_a_value(self) -> None:
        check = judge_accept_length(
            Speculation(tokens=8, requests=1), min_steps=40, warn=2.0, fail=1.2
        )
        assert (check.verdict, check.value) == ("fail", "absent")
        assert "1 requests, 8 tokens" in check.evidence

    @given(st.integers(0, 200), st.integers(0, 50), st.integers(1, 64))
    def test_the_next_request_is_bounded(self, accepted: int, steps: int, wanted: int) -> None:
        assert 8 <= next_length(Speculation(accepted, steps), wanted) <= 128

    def test_the_next_request_reaches_the_steps_that_miss(self) -> None:
        assert next_length(Speculation(), 40) == 41
        assert next_length(Speculation(accepted=30, steps=10), 20) == 41


class TestCompletion:
    def test_the_known_answer_of_a_real_engine(self) -> None:
        check = judge_completion(answer("http-hit", "chat_counting"), 3.21, COUNTING)
        assert (check.id, check.verdict) == ("known_answer", "ok")
        assert "16 tokens in 3.2 s, finish reason length" in check.evidence

    def test_another_answer_is_a_failure_though_all_is_green(self) -> None:
        wanted = KnownAnswer(prompt="x", matches=r"\bParis\b")
        check = judge_completion(answer("http-hit", "chat_counting"), 1, wanted)
        assert (check.verdict, check.limit) == ("fail", r"/\bParis\b/")
        assert "one two" in check.value
        assert "generation is broken" in check.remedy

    def test_a_native_answer_counts_as_well(self) -> None:
        assert judge_completion(recorded("http-hit")[0], 1).verdict == "ok"

    def test_reasoning_counts_as_text(self) -> None:
        message = {"content": None, "reasoning_content": "hm, one two three"}
        body = {
            "choices": [{"message": message, "finish_reason": "length"}],
            "usage": {"completion_tokens": 4},
        }
        assert judge_completion(Answer(200, body), 1, COUNTING).verdict == "ok"
        message["reasoning_content"] = None
        assert judge_completion(Answer(200, body), 1, COUNTING).verdict == "fail"

    def test_an_answer_that_was_cut_says_so(self) -> None:
        wanted = KnownAnswer(prompt="x", expect="Paris")
        cut = judge_completion(answer("http-hit", "chat_counting"), 1, wanted)
        assert "finish reason length" in cut.evidence
        assert "more max_tokens" in cut.remedy
        whole = judge_completion(generated({"finish_reason": {"type": "stop"}}), 1, wanted)
        assert "max_tokens" not in whole.remedy

    @pytest.mark.parametrize(
        ("reply", "evidence"),
        [
            (Answer(error="no answer within 180 s"), "no answer within 180 s"),
            (Answer(error="connection refused", refused=True), "connection refused"),
            (Answer(500, "Internal Server Error"), "HTTP 500 Internal Server Error"),
            (Answer(200, "<html>"), "HTTP 200 <html>"),
            (Answer(200, {"choices": []}), "HTTP 200"),
            (generated({"finish_reason": {"type": "length"}}, tokens=0), "0 tokens"),
            (generated({"finish_reason": {"type": "abort"}}), "finish reason abort"),
            (generated({}), "finish reason absent"),
        ],
    )
    def test_what_is_no_completion(self, reply: Answer, evidence: str) -> None:
        check = judge_completion(reply, 1)
        assert check.verdict == "fail"
        assert evidence in check.evidence

    def test_a_refusal_is_explained_in_the_engines_words(self) -> None:
        text = explain(answer("http-hit", "too_long"))
        assert text.startswith("HTTP 400 Requested token count exceeds the model's maximum")
        assert len(text) < 140


DEFAULTS = yaml.safe_load((REPOSITORY / "roles/health_gate/defaults/main.yml").read_text())


def said(thought: str | None, text: str | None, reason: str = "stop") -> Answer:
    """A chat answer as the engine gives it behind a reasoning parser."""
    message = {"role": "assistant", "content": text, "reasoning_content": thought}
    choice = {"message": message, "finish_reason": reason}
    return Answer(200, {"choices": [choice], "usage": {"completion_tokens": 40}})


class TestTheQuestionThatIsAskedWhereNoneIsSet:
    """Each answer in a form that an engine with or without a reasoning parser gives it."""

    def check(self, reply: Answer) -> Check:
        wanted = known_answer(DEFAULTS["health_gate_known_answer"])
        assert wanted is not None
        return judge_completion(reply, 1, wanted)

    @pytest.mark.parametrize(
        "reply",
        [
            said(None, "Paris"),
            said("The user wants one word", "Paris"),
            said("They ask for one word. It is **PARIS**. I will", None, "length"),
            said(None, "They ask for one word: Paris.</think>Paris"),
        ],
        ids=["instant", "thought", "cut while it thinks", "no parser"],
    )
    def test_the_answer_of_a_model_that_works(self, reply: Answer) -> None:
        assert self.check(reply).verdict == "ok"

    @pytest.mark.parametrize(
        "reply",
        [
            said(None, "!!!!!!!!!!!!!!!!"),
            said("the the the the the", None, "length"),
            said(None, "Reply with one word: what is the capital of France?"),
            said("", ""),
            said(None, "comparison of parishes"),
        ],
        ids=["one token", "a loop", "the question", "nothing", "parts of words"],
    )
    def test_what_broken_kernels_say(self, reply: Answer) -> None:
        check = self.check(reply)
        assert (check.id, check.verdict) == ("known_answer", "fail")
        assert "generation is broken" in check.remedy

    def test_it_leaves_room_to_think(self) -> None:
        wanted = known_answer(DEFAULTS["health_gate_known_answer"])
        assert wanted is not None
        assert wanted.max_tokens >= 256
        # An engine that echoes is no engine that answers.
        assert not wanted.holds(str(wanted.messages))


class TestOtherChecks:
    def test_model_info(self) -> None:
        good = judge_model_info(answer("http-hit", "model_info"))
        assert (good.verdict, good.evidence) == (
            "ok",
            "KimiK25ForConditionalGeneration from /var/lib/sglang/models/target",
        )
        denied = judge_model_info(answer("http-hit", "model_info_401"))
        assert denied.verdict == "fail"
        assert "API key" in denied.remedy

    @pytest.mark.parametrize(
        ("reply", "remedy"),
        [
            (Answer(error="connection refused", refused=True), "host and port"),
            (Answer(404, "x"), "journal"),
            (Answer(200, "text"), "journal"),
            (Answer(200, {"is_generation": False, "model_path": "/e"}), "wrong model"),
        ],
    )
    def test_model_info_that_is_not_ours(self, reply: Answer, remedy: str) -> None:
        check = judge_model_info(reply)
        assert check.verdict == "fail"
        assert remedy in check.remedy

    def test_readiness(self) -> None:
        assert judge_readiness("/health", Answer(200), 1.04).evidence == "/health after 1.0 s"
        check = judge_readiness("/health", Answer(503, ""), 20.3)
        assert (check.verdict, check.evidence) == ("fail", "/health after 20.3 s: HTTP 503")

    @pytest.mark.parametrize(
        ("state", "verdict"),
        [
            (UNIT, "ok"),
            (UnitState("e", "loaded", "failed", "failed", "signal"), "fail"),
            (UnitState("e", "loaded", "activating", "start"), "fail"),
            (UnitState("e", "loaded", "active", "running", invocation_id="bb"), "fail"),
        ],
    )
    def test_unit(self, state: UnitState, verdict: str) -> None:
        assert judge_unit(state, UNIT).verdict == verdict


class TestKnownAnswerParameter:
    def test_complete(self) -> None:
        value = {"messages": [{"role": "user", "content": "x"}], "matches": "a.c", "max_tokens": 4}
        wanted = known_answer(value)
        assert wanted is not None
        assert (wanted.max_tokens, wanted.holds("xabcx"), wanted.holds("ab")) == (4, True, False)

    def test_an_expected_text_is_no_pattern(self) -> None:
        wanted = known_answer({"prompt": "x", "expect": "a.c"})
        assert wanted is not None
        assert not wanted.holds("abc")

    @pytest.mark.parametrize("value", [None, {}])
    def test_none(self, value: dict[str, Any] | None) -> None:
        assert known_answer(value) is None

    @pytest.mark.parametrize(
        ("value", "wanted"),
        [
            ({"expect": "x"}, "either `prompt` or `messages`"),
            ({"prompt": "x", "messages": [{}], "expect": "x"}, "either `prompt` or `messages`"),
            ({"prompt": "x"}, "either `expect`"),
            ({"prompt": "x", "expect": "a", "matches": "b"}, "either `expect`"),
            ({"prompt": "x", "matches": "("}, r"known_answer\.matches '\('"),
        ],
    )
    def test_bad(self, value: dict[str, Any], wanted: str) -> None:
        with pytest.raises(ValueError, match=wanted):
            known_answer(value)


class TestMessage:
    def test_the_worst_verdict_wins(self) -> None:
        ok, warn, fail = (Check(v, v) for v in ("ok", "warn", "fail"))
        assert overall([ok, ok]) == "ok"
        assert overall([ok, warn]) == "warn"
        assert overall([fail, warn, ok]) == "fail"
        assert overall([]) == "fail"

    def test_a_few_lines_with_evidence_and_remedy(self) -> None:
        checks = [
            Check("unit", "ok"),
            Check("accept_length", "fail", 1.0, 1.2, "0 of 40", "check the pairing"),
        ]
        assert gate_message("node-1", checks) == (
            "node-1: the gate's verdict is fail; 2 checks made.\n"
            "FAIL accept_length 1.0 (limit 1.2): 0 of 40\n"
            "Remedy: check the pairing"
        )
        assert gate_message("node-1", checks[:1]) == "node-1: all 1 checks passed"
