# SPDX-License-Identifier: Apache-2.0
"""Further checks of the gate: what a green health and one short answer do not show.

Each judge takes what was answered and gives one verdict. A check that does not apply is `skipped`
and says why; none passes silently.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    FAIL,
    OK,
    SKIPPED,
    WARN,
    Check,
    KnownAnswer,
    completion_text,
    completion_tokens,
    explain,
    finish_reason,
    judge_completion,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer

_HTTP_OK = 200
_CHARACTERS_A_TOKEN = 4.0
_FILLER = "The following sentence is padding and carries no meaning for the question below. "
_THINKING_MARKS = ("<think>", "</think>", "◁think▷", "◁/think▷")
_TOOL_MARKS = ("<|tool_call", "<|tool_calls_section", "<tool_call>")

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
"""A tool that a model with tool calling uses for `TOOL_QUESTION`."""
TOOL_QUESTION = "What is the weather in Paris right now? Use the tool."


def skipped(check: str, why: str) -> Check:
    """A check that does not apply."""
    return Check(check, SKIPPED, evidence=why)


def judge_server_info(answer: Answer) -> Check:
    """`/server_info` says what the engine runs with: what else is checked depends on it."""
    if answer.status == _HTTP_OK and isinstance(answer.body, dict) and answer.body:
        version = answer.body.get("version")
        return Check("server_info", OK, evidence=f"version {version}" if version else "")
    return _refused(
        "server_info",
        answer,
        "the scheduler does not say what it runs with, so nothing that depends on it can be "
        "checked: read the engine's journal",
    )


def _refused(name: str, answer: Answer, remedy: str) -> Check:
    """The failure of a check whose request was not answered as it has to be."""
    return Check(name, FAIL, answer.status or None, _HTTP_OK, explain(answer), remedy)


def judge_kv_tokens(info: Mapping[str, Any], floor: int) -> Check:
    """The engine has room for enough tokens.

    Args:
        info: `/server_info` (`max_total_num_tokens`: 0.5.9 and later).
        floor: Tokens below which it fails; 0 for no floor.
    """
    tokens = info.get("max_total_num_tokens")
    if not isinstance(tokens, int):
        why = "/server_info does not name max_total_num_tokens"
        if not floor:
            return skipped("kv_tokens", why)
        remedy = "without a floor (health_gate_kv_tokens: 0) the size is not checked"
        return Check("kv_tokens", FAIL, "absent", floor, why, remedy)
    if not floor:
        return Check("kv_tokens", OK, tokens, evidence="no floor is set (health_gate_kv_tokens)")
    if tokens < floor:
        return Check(
            "kv_tokens",
            FAIL,
            tokens,
            floor,
            "the KV cache is smaller than wanted",
            "raise mem-fraction-static (the default leaves little beside large weights), use a "
            "smaller context, or look for other processes on the GPUs",
        )
    return Check("kv_tokens", OK, tokens, floor)


def filler(tokens: int, per_token: float) -> str:
    """A text of about `tokens` tokens.

    Args:
        tokens: Length wanted.
        per_token: Characters a token, as measured on an earlier answer; 0 when unknown.
    """
    wanted = int(tokens * (per_token or _CHARACTERS_A_TOKEN))
    return (_FILLER * (wanted // len(_FILLER) + 1))[:wanted] + "\n\n"


def padded(question: KnownAnswer, padding: str) -> KnownAnswer:
    """The same question behind a text: in the first message of a user, or else the first one."""
    messages = [dict(message) for message in question.messages]
    asked = [message for message in messages if message.get("role") == "user"] or messages
    for message in asked[:1]:
        content = message.get("content")
        if isinstance(content, list):
            message["content"] = [{"type": "text", "text": padding}, *content]
        else:
            message["content"] = f"{padding}{content}"
    return replace(
        question,
        prompt=padding + question.prompt if question.prompt else "",
        messages=tuple(messages),
    )


def characters_a_token(prompt: str, answer: Answer) -> float:
    """How many characters of this prompt made a token, 0.0 when the answer does not say."""
    tokens = prompt_tokens(answer)
    return len(prompt) / tokens if tokens else 0.0


def prompt_tokens(answer: Answer) -> int:
    """How many tokens the engine says the prompt had."""
    return _counted(answer, "prompt_tokens")


def cached_tokens(answer: Answer) -> int | None:
    """How many of them came from the prefix cache, None where the engine does not say.

    `/generate` says so always; the chat API with `--enable-cache-report` alone.
    """
    body = answer.body if isinstance(answer.body, dict) else {}
    meta, usage = body.get("meta_info"), body.get("usage")
    if isinstance(meta, dict):
        found = meta.get("cached_tokens")
    else:
        details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
        found = details.get("cached_tokens") if isinstance(details, dict) else None
    return found if isinstance(found, int) else None


def _counted(answer: Answer, name: str) -> int:
    body = answer.body if isinstance(answer.body, dict) else {}
    figures = body.get("usage") or body.get("meta_info") or {}
    found = figures.get(name) if isinstance(figures, dict) else None
    return found if isinstance(found, int) else 0


def judge_long_prompt(
    answer: Answer, seconds: float, question: KnownAnswer, name: str = "long_prompt"
) -> Check:
    """A long prompt is answered like the short one.

    Kernels for long prompts are others than for short ones: a server that was healthy until its
    first real prompt is sglang#17908; a repeated long prompt under speculation sglang#22682.
    """
    found = judge_completion(answer, seconds, question)
    evidence = f"{prompt_tokens(answer)} prompt tokens, {found.evidence}"
    if found.verdict != OK:
        remedy = found.remedy if answer.status == _HTTP_OK else _LONG_REMEDY
        return Check(name, found.verdict, found.value, found.limit, evidence, remedy)
    return Check(name, OK, found.value, evidence=evidence)


def judge_repeated_prompt(
    answer: Answer, seconds: float, question: KnownAnswer, counted: Answer
) -> Check:
    """The same long prompt is answered like the first time, now from the prefix cache.

    Args:
        answer: The answer.
        seconds: How long it took.
        question: What was asked.
        counted: An answer to a prompt that had been sent before, which says what of it was cached.
    """
    name = "repeated_prompt"
    found = judge_long_prompt(answer, seconds, question, name)
    if found.verdict != OK:
        return found
    cached, sent = cached_tokens(counted), prompt_tokens(counted)
    if cached is None:
        why = explain(counted) if counted.status != _HTTP_OK else "cached_tokens is absent"
        return Check(
            name,
            FAIL,
            "absent",
            evidence=f"a prompt that was sent before does not say what was cached of it: {why}",
            remedy="read the engine's journal; health_gate_long_prompt_tokens: 0 leaves this out",
        )
    evidence = f"{found.evidence}; {cached} of {sent} prompt tokens from the prefix cache"
    # The first token of all prompts is the same, and only whole pages are kept.
    if cached * 2 < sent:
        return Check(
            name,
            WARN,
            f"{cached} cached tokens",
            evidence=evidence,
            remedy="the prefix cache does not hit: compare the release's notes on prefix reuse "
            "under speculation (sglang#32459)",
        )
    return Check(name, OK, found.value, evidence=evidence)


_LONG_REMEDY = (
    "short prompts work and a long one does not: choose another attention backend (a Triton kernel "
    "may want more shared memory than the card has), and read the engine's journal"
)


def judge_burst(answers: Sequence[Answer], seconds: float) -> Check:
    """Requests that come at once are all answered."""
    wrong = [answer for answer in answers if not _completed(answer)]
    evidence = f"{len(answers)} requests at once in {seconds:.1f} s"
    if wrong:
        return Check(
            "concurrency",
            FAIL,
            f"{len(answers) - len(wrong)} answered",
            len(answers),
            f"{evidence}; first failure: {explain(wrong[0])}",
            "one request works and several at once do not: read the engine's journal",
        )
    return Check("concurrency", OK, f"{len(answers)} answered", len(answers), evidence)


def _completed(answer: Answer) -> bool:
    return answer.status == _HTTP_OK and completion_tokens(answer) > 0


def judge_sampling(answer: Answer, seconds: float) -> Check:
    """Sampling with a temperature works; its kernels were compiled by this if not before.

    On a cold GPU node the first such request took 104 s, the next ones 0.2 s (0.5.12.post1).
    """
    evidence = f"{completion_tokens(answer)} tokens at temperature 0.8 in {seconds:.1f} s"
    if _completed(answer):
        return Check("sampling", OK, evidence=evidence)
    return Check(
        "sampling",
        FAIL,
        answer.status or None,
        _HTTP_OK,
        f"{evidence}: {explain(answer)}",
        "greedy decoding works and sampling does not: look for a compiler error (nvcc) in the "
        "engine's journal",
    )


def judge_reasoning(answer: Answer) -> Check:
    """The reasoning parser keeps the model's thinking out of the answer."""
    message = _message(answer)
    if answer.status != _HTTP_OK or message is None:
        return _refused("reasoning", answer, "chat requests fail: read the engine's journal")
    content, thought = message.get("content") or "", message.get("reasoning_content") or ""
    marks = [mark for mark in _THINKING_MARKS if mark in content]
    if marks:
        return Check(
            "reasoning",
            FAIL,
            marks[0],
            "no mark of thinking in the answer",
            repr(shorten(content)),
            "the reasoning parser does not fit the model: correct reasoning-parser",
        )
    if not thought:
        return Check("reasoning", OK, evidence="this answer has no thinking in it")
    return Check("reasoning", OK, evidence=f"{len(thought)} characters of thinking kept apart")


def judge_tool_call(answer: Answer) -> Check:
    """A question that wants a tool comes back as a parsed call with valid arguments."""
    message = _message(answer)
    if answer.status != _HTTP_OK or message is None:
        return _refused("tool_call", answer, "requests with tools fail: read the engine's journal")
    calls = message.get("tool_calls") or []
    content = message.get("content") or ""
    remedy = "the tool-call parser does not fit the model or its chat template: correct it"
    if not calls:
        if any(mark in content for mark in _TOOL_MARKS):
            return Check("tool_call", FAIL, "unparsed", "a call", repr(shorten(content)), remedy)
        what = f"no call, finish reason {finish_reason(answer) or 'absent'}"
        said = repr(shorten(completion_text(answer) or ""))
        return Check("tool_call", WARN, what, "a call", said, remedy)
    try:
        function = calls[0]["function"]
        arguments = json.loads(function["arguments"])
        right = function["name"] == TOOL["function"]["name"] and "city" in arguments
    except (KeyError, TypeError, ValueError):
        right = False
    if not right:
        return Check("tool_call", FAIL, "malformed", "a call", shorten(str(calls[0])), remedy)
    return Check("tool_call", OK, evidence=shorten(str(function["arguments"])))


def _message(answer: Answer) -> dict[str, Any] | None:
    body = answer.body if isinstance(answer.body, dict) else {}
    try:
        message = body["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return None
    return message if isinstance(message, dict) else None


def judge_image(answer: Answer, seconds: float) -> Check:
    """A picture in a prompt is taken in."""
    text = completion_text(answer)
    if _completed(answer) and text is not None:
        return Check("image", OK, repr(shorten(text, 40)), evidence=f"answered in {seconds:.1f} s")
    return Check(
        "image",
        FAIL,
        answer.status or None,
        _HTTP_OK,
        explain(answer),
        "text works and a picture does not: set mm-attention-backend, and look for the model's "
        "processor files; health_gate_image: false serves text alone",
    )


def picture(size: int = 56, colour: tuple[int, int, int] = (200, 30, 30)) -> str:
    """A square of one colour as a PNG in a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = (b"\0" + bytes(colour) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
