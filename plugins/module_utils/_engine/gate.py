# SPDX-License-Identifier: Apache-2.0
"""Whether a started engine may stay: each check's verdict from what the engine answered."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer
    from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState

SKIPPED, OK, WARN, FAIL = "skipped", "ok", "warn", "fail"
_ORDER = (SKIPPED, OK, WARN, FAIL)
_HTTP_OK = 200
_MAX_SHOWN = 120
_MAX_LIMIT = 48  # an expected answer may be long
ANSWER_KEYS = ("prompt", "messages", "max_tokens", "expect", "matches")
"""What a known answer may consist of."""
_FINISHED = ("stop", "length", "tool_calls")


@dataclass(frozen=True)
class Check:
    """One check's verdict (`skipped`, `ok`, `warn`, `fail`): what was measured, and the limit."""

    id: str
    verdict: str
    value: Any = None
    limit: Any = None
    evidence: str = ""
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The check as a task result carries it."""
        return asdict(self)

    def __str__(self) -> str:
        """The check in one line."""
        limit = "" if self.limit is None else f" (limit {shorten(str(self.limit), _MAX_LIMIT)})"
        value = "" if self.value is None else f" {self.value}{limit}"
        evidence = f": {self.evidence}" if self.evidence else ""
        return f"{self.verdict.upper()} {self.id}{value}{evidence}"


@dataclass(frozen=True)
class KnownAnswer:
    """A request whose answer is known: `expect` is a part of the text, `matches` a pattern."""

    prompt: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    max_tokens: int = 16
    expect: str = ""
    matches: str = ""

    @property
    def wanted(self) -> str:
        """What is expected, in words."""
        return f"/{self.matches}/" if self.matches else repr(self.expect)

    def holds(self, text: str) -> bool:
        """Whether a text is the known answer."""
        return re.search(self.matches, text) is not None if self.matches else self.expect in text


def known_answer(value: Mapping[str, Any] | None) -> KnownAnswer | None:
    """Read a task's `known_answer`; None when there is none.

    Raises:
        ValueError: not exactly one of prompt and messages, not exactly one of expect and matches,
            or a pattern that does not compile.
    """
    if not value:
        return None
    if bool(value.get("prompt")) == bool(value.get("messages")):
        raise ValueError("known_answer needs either `prompt` or `messages`")
    if bool(value.get("expect")) == bool(value.get("matches")):
        raise ValueError("known_answer needs either `expect` (a text) or `matches` (a pattern)")
    pattern = value.get("matches") or ""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"known_answer.matches {pattern!r}: {error}") from None
    return KnownAnswer(
        prompt=value.get("prompt") or "",
        messages=tuple(value.get("messages") or ()),
        max_tokens=int(value.get("max_tokens") or 16),
        expect=value.get("expect") or "",
        matches=pattern,
    )


def limits_problem(warn: float, fail: float, steps: int) -> str:
    """What is wrong with the limits of the accept length, empty where nothing is.

    Args:
        warn: Accept length under which the gate warns.
        fail: Accept length under which it fails.
        steps: Verify steps over which it is taken.
    """
    if not 1.0 <= fail <= warn:
        return (
            f"accept_length_fail ({fail}) must be at least 1.0, the length of a draft that never "
            f"hits, and not above accept_length_warn ({warn})"
        )
    return "" if steps >= 1 else f"the verify steps must be at least 1: {steps}"


def explain(answer: Answer) -> str:
    """An answer that is not what was hoped for, in a few words."""
    if answer.error:
        return answer.error
    body = answer.body
    if isinstance(body, dict):
        error = body.get("error", body.get("message", body.get("detail", "")))
        text = error.get("message", "") if isinstance(error, dict) else str(error)
    else:
        text = str(body or "")
    return f"HTTP {answer.status}{' ' + shorten(text) if text else ''}"


def shorten(text: str, limit: int = _MAX_SHOWN) -> str:
    """A text on one line and not longer than `limit`."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def judge_unit(state: UnitState, first: UnitState | None = None) -> Check:
    """The unit is active, and where `first` is given still the same start."""
    value = f"{state.active} ({state.sub})"
    if not state.running or state.active != "active":
        return Check("unit", FAIL, value, "active", f"{state.name}, result {state.result}")
    if first is not None and state.invocation_id != first.invocation_id:
        return Check(
            "unit",
            FAIL,
            "restarted",
            "the same start",
            f"main process {first.main_pid} before the checks, {state.main_pid} after",
            f"the engine died under the checks: `journalctl -u {state.name}` says why",
        )
    return Check("unit", OK, value, evidence=f"main process {state.main_pid}")


def judge_port(answer: Answer, where: str) -> Check | None:
    """Somebody listens on the engine's port; None when the answer does not tell.

    Args:
        answer: Of any request.
        where: Address and port.
    """
    if answer.status:
        return Check("port", OK, evidence=f"{where} answers")
    if not answer.refused:
        return None
    return Check(
        "port",
        FAIL,
        "closed",
        "open",
        f"{where}: {explain(answer)}",
        "compare host and port with the engine's arguments",
    )


def judge_model_info(answer: Answer) -> Check:
    """`/model_info` answers and the engine generates text."""
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.unauthorized:
        return Check(
            "model_info",
            FAIL,
            answer.status,
            _HTTP_OK,
            explain(answer),
            "the API key given here is not the one the engine was started with",
        )
    if answer.status != _HTTP_OK or not body:
        return Check(
            "model_info",
            FAIL,
            answer.status or None,
            _HTTP_OK,
            explain(answer),
            "the engine's HTTP server is not in order: read its journal",
        )
    if body.get("is_generation") is False:
        return Check(
            "model_info",
            FAIL,
            "embedding model",
            "generation model",
            f"model_path {body.get('model_path')}",
            "the wrong model is being served: correct the engine's model path",
        )
    architectures = ", ".join(body.get("architectures") or ["?"])
    return Check("model_info", OK, evidence=f"{architectures} from {body.get('model_path')}")


def judge_readiness(path: str, answer: Answer, seconds: float) -> Check:
    """`/ready` or `/health` answers 200."""
    took = f"{path} after {seconds:.1f} s"
    if answer.status == _HTTP_OK:
        return Check("readiness", OK, evidence=took)
    return Check(
        "readiness",
        FAIL,
        answer.status or None,
        _HTTP_OK,
        f"{took}: {explain(answer)}",
        "nothing came out of the engine for 20 s: it hangs, or a very long prompt keeps it busy; "
        "look at its journal and at the running requests",
    )


def completion_text(answer: Answer) -> str | None:
    """The text of a `/generate` or chat answer, or None when it is neither."""
    body = answer.body
    if not isinstance(body, dict):
        return None
    if isinstance(body.get("text"), str):
        return str(body["text"])
    try:
        message = body["choices"][0]["message"]
        # With a reasoning parser a short answer may never leave the reasoning. Apart, so that the
        # last word of one and the first of the other stay words.
        parts = (message.get("reasoning_content") or "", message.get("content") or "")
        return "\n".join(part for part in parts if part)
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


def completion_tokens(answer: Answer) -> int:
    """How many tokens the engine says it made."""
    body = answer.body if isinstance(answer.body, dict) else {}
    usage = body.get("usage") or body.get("meta_info") or {}
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) else 0


def finish_reason(answer: Answer) -> str:
    """Why the generation ended ("stop", "length", ...), or an empty string."""
    body = answer.body if isinstance(answer.body, dict) else {}
    try:
        reason = body["choices"][0]["finish_reason"]
    except (KeyError, IndexError, TypeError):
        meta = body.get("meta_info")
        reason = meta.get("finish_reason") if isinstance(meta, dict) else None
    if isinstance(reason, dict):
        reason = reason.get("type")
    return reason if isinstance(reason, str) else ""


_BROKEN = (
    "generation is broken though the engine is healthy: a wrong or damaged model, or kernels that "
    "compute wrong results on this card"
)
_CUT = (
    "; or, where the text makes sense, the answer was cut before it came: give "
    "health_gate_known_answer more max_tokens"
)


def judge_completion(answer: Answer, seconds: float, wanted: KnownAnswer | None = None) -> Check:
    """A real completion came back, and is the known answer where there is one."""
    name = "known_answer" if wanted else "completion"
    text = completion_text(answer)
    if answer.status != _HTTP_OK or text is None:
        return Check(
            name,
            FAIL,
            answer.status or None,
            _HTTP_OK,
            explain(answer),
            "the engine is up but does not generate: its journal has the reason",
        )
    tokens, reason = completion_tokens(answer), finish_reason(answer)
    what = f"{tokens} tokens in {seconds:.1f} s, finish reason {reason or 'absent'}"
    if tokens < 1 or reason not in _FINISHED:
        return Check(
            name,
            FAIL,
            f"{tokens} tokens",
            "at least 1",
            what,
            "the engine ends requests without generating: read its journal",
        )
    if wanted is not None and not wanted.holds(text):
        cut = "" if reason != "length" else _CUT
        return Check(name, FAIL, repr(shorten(text)), wanted.wanted, what, _BROKEN + cut)
    return Check(name, OK, repr(shorten(text, 40)), wanted.wanted if wanted else None, what)


def no_time(name: str, limit: float) -> Check:
    """A check that is wanted and was not begun: all others took the gate's time.

    Args:
        name: The check.
        limit: Seconds that the gate has.
    """
    return Check(name, FAIL, "not made", None, time_is_over(limit), MORE_TIME)


def time_is_over(limit: float) -> str:
    """That the gate's seconds are over, in words."""
    return f"the gate's {limit:g} s are over"


MORE_TIME = (
    "the engine answers too slowly for all checks: look at what keeps it busy. On a slow node "
    "health_gate_checks_timeout gives them more seconds"
)


def perhaps_slow(check: Check, limit: float) -> Check:
    """A failed check one of whose requests was given up, with what that may also mean.

    Args:
        check: The check.
        limit: Seconds that a request has.
    """
    more = f"an engine that is only slow needs more than {limit:g} s: health_gate_request_timeout"
    return replace(check, remedy=f"{check.remedy}; {more}" if check.remedy else more)


def overall(checks: Sequence[Check]) -> str:
    """The worst verdict; no check at all is a failure."""
    return max((check.verdict for check in checks), key=_ORDER.index, default=FAIL)


def gate_message(host: str, checks: Sequence[Check]) -> str:
    """What failed, the evidence and the remedy; a line or two for each check that is not ok."""
    bad = [check for check in checks if check.verdict in (WARN, FAIL)]
    made = sum(check.verdict != SKIPPED for check in checks)
    if not bad:
        return f"{host}: all {made} checks passed"
    lines = [f"{host}: the gate's verdict is {overall(checks)}; {made} checks made."]
    for check in bad:
        lines.append(str(check))
        if check.remedy:
            lines.append(f"Remedy: {check.remedy}")
    return "\n".join(lines)
