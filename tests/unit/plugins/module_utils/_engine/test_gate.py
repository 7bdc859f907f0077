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
    explain,
    gate_message,
    judge_completion,
    judge_model_info,
    judge_readiness,
    judge_unit,
    known_answer,
    overall,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

from tests.unit.plugins.module_utils._engine.recordings import (
    answer,
    generated,
    recorded,
)

REPOSITORY = Path(__file__).parents[5]
UNIT = UnitState("e.service", "loaded", "active", "running", "success", 0, 5, "aa", 0, 1.0)
COUNTING = KnownAnswer(messages=({"role": "user", "content": "x"},), expect=" one two three")


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
            (Answer(error="no answer within 5 s"), "journal"),
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
