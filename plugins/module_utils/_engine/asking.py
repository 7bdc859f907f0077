# SPDX-License-Identifier: Apache-2.0
"""One question to an engine from the node that it runs on."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from threading import Thread
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._engine.gate import (
    OK,
    WARN,
    KnownAnswer,
    completion_text,
    judge_completion,
    known_answer,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.readiness import Answer

QUESTION = ({"role": "user", "content": "Reply with one word: what is the capital of France?"},)
"""What is asked where no answer is known."""
SHORT = 8
"""Tokens that its answer may have."""
BEGINNING = 4
"""Tokens that are asked of an answer which was given whole before: a prefill and a verify step."""


def request(wanted: KnownAnswer | None, model: str) -> tuple[str, dict[str, Any]]:
    """Path and JSON body of the question.

    Args:
        wanted: The question whose answer is known, if there is one.
        model: The served model's name.

    Returns:
        A chat completion, or a native generation for a plain prompt.
    """
    if wanted is not None and wanted.prompt:
        sampling = {
            "temperature": 0,
            "max_new_tokens": wanted.max_tokens,
            "ignore_eos": False,
        }
        return "/generate", {"text": wanted.prompt, "sampling_params": sampling}
    return "/v1/chat/completions", {
        "model": model,
        "messages": list(wanted.messages if wanted else QUESTION),
        "max_tokens": wanted.max_tokens if wanted else SHORT,
        "temperature": 0,
    }


class Question:
    """A question that is asked beside other work.

    Nothing is asked again, and no error is raised: what is not a right answer is a failed check,
    and whoever wants a verdict on the engine asks the gate.
    """

    def __init__(self, engine: Mapping[str, Any], before: str = "") -> None:
        """Ask.

        Args:
            engine: `host`, `port`, `api_key`, `model`, `known_answer` and `timeout` (seconds for
                each read).
            before: What this launch answered when it passed its gate. Then its first tokens are
                enough: temperature 0 gives them again.

        Raises:
            ValueError: The known answer is not one (`gate.known_answer`).
        """
        self._engine = engine
        wanted = known_answer(engine["known_answer"])
        # Another question may be known now.
        self._before = before if wanted is not None and wanted.holds(before) else ""
        if wanted is not None and self._before:
            wanted = replace(wanted, max_tokens=min(BEGINNING, wanted.max_tokens))
        self._wanted = wanted
        self._found: dict[str, Any] = {}
        self._thread = Thread(target=self._ask, daemon=True)
        self._thread.start()

    def result(self) -> dict[str, Any]:
        """Wait for the answer.

        Returns:
            The check as `gate.Check.as_dict` has it, and `seconds`, the time to the answer.
        """
        self._thread.join()
        return self._found

    def _ask(self) -> None:
        begun = time.monotonic()
        answer = self._send()
        seconds = time.monotonic() - begun
        check = judge_completion(answer, seconds, None if self._before else self._wanted)
        if self._before and check.verdict == OK:
            began = self._before.startswith(completion_text(answer) or "\0")
            check = replace(check, id="known_answer", verdict=OK if began else WARN)
        self._found = {**check.as_dict(), "seconds": round(seconds, 3)}

    def _send(self) -> Answer:
        engine = self._engine
        path, body = request(self._wanted, engine["model"])
        headers = {"Content-Type": "application/json"}
        if engine["api_key"]:
            headers["Authorization"] = f"Bearer {engine['api_key']}"
        host = str(engine["host"]).strip("[]")
        connection = http.client.HTTPConnection(host, engine["port"], timeout=engine["timeout"])
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        except TimeoutError:
            return Answer(error=f"no answer within {engine['timeout']:g} s")
        except (OSError, http.client.HTTPException) as error:
            return Answer(error=f"{type(error).__name__}: {error}")
        finally:
            connection.close()
        try:
            return Answer(status=response.status, body=json.loads(content))
        except ValueError:
            return Answer(status=response.status, body=content.decode(errors="replace"))
