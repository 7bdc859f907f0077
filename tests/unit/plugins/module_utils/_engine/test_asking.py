# SPDX-License-Identifier: Apache-2.0
"""The question that is asked while a node is read, answered by a real HTTP server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.asking import (
    BEGINNING,
    Question,
)

TEXT = "one two three four five six"
KNOWN = {"messages": [{"role": "user", "content": "count"}], "max_tokens": 16, "expect": TEXT}


class Engine:
    """Answers as an engine does: `max_tokens` words of its text."""

    def __init__(self) -> None:
        self.text, self.status, self.pause, self.raw = TEXT, 200, 0.0, ""
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                engine.asked.append((self.path, body, self.headers.get("Authorization")))
                time.sleep(engine.pause)
                content = (engine.raw or json.dumps(engine.answer(self.path, body))).encode()
                self.send_response(engine.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        native = path == "/generate"
        length = body["sampling_params"]["max_new_tokens"] if native else body["max_tokens"]
        words = self.text.split()[:length]
        text = " ".join(words)
        if native:
            meta = {"completion_tokens": len(words), "finish_reason": {"type": "length"}}
            return {"text": text, "meta_info": meta}
        choice = {"message": {"content": text}, "finish_reason": "length"}
        return {"choices": [choice], "usage": {"completion_tokens": len(words)}}

    def ask(self, before: str = "", **other: Any) -> dict[str, Any]:
        port = self.server.server_address[1]
        asked = {"host": "127.0.0.1", "port": port, "api_key": "", "model": "m", "timeout": 5.0}
        return Question({**asked, "known_answer": KNOWN, **other}, before).result()


@pytest.fixture
def engine() -> Iterator[Engine]:
    one = Engine()
    yield one
    one.server.shutdown()
    one.server.server_close()


def test_a_launch_without_a_known_answer_of_its_own_is_asked_for_all_of_it(engine: Engine) -> None:
    found = engine.ask()
    assert (found["verdict"], found["id"]) == ("ok", "known_answer")
    path, body, key = engine.asked[0]
    assert (path, body["max_tokens"], body["model"], key) == ("/v1/chat/completions", 16, "m", None)


def test_one_that_answered_before_is_asked_for_its_first_tokens(engine: Engine) -> None:
    found = engine.ask(before=TEXT)
    assert (found["verdict"], found["id"]) == ("ok", "known_answer")
    assert engine.asked[0][1]["max_tokens"] == BEGINNING


def test_other_first_tokens_are_no_proof(engine: Engine) -> None:
    engine.text = "two one three four"
    assert engine.ask(before=TEXT)["verdict"] == "warn"


def test_another_question_than_the_one_that_was_answered_is_asked_whole(engine: Engine) -> None:
    known = {**KNOWN, "expect": "seven"}
    assert engine.ask(before=TEXT, known_answer=known)["verdict"] == "fail"
    assert engine.asked[0][1]["max_tokens"] == 16


def test_a_plain_prompt_goes_to_the_native_interface(engine: Engine) -> None:
    known = {"prompt": "count", "max_tokens": 6, "matches": "three.*six"}
    assert engine.ask(known_answer=known)["verdict"] == "ok"
    assert engine.asked[0][0] == "/generate"


def test_without_a_known_answer_any_text_will_do(engine: Engine) -> None:
    found = engine.ask(known_answer={})
    assert (found["verdict"], found["id"]) == ("ok", "completion")


def test_the_key_is_sent_and_shown_nowhere(engine: Engine) -> None:
    found = engine.ask(api_key="s3cret")
    assert engine.asked[0][2] == "Bearer s3cret"
    assert "s3cret" not in json.dumps(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": "nonsense all the way"}, "finish reason"),
        ({"text": ""}, "0 tokens"),
        ({"status": 503}, "HTTP 503"),
        ({"raw": "Internal Server Error", "status": 500}, "Internal Server Error"),
        ({"raw": "[1, 2]"}, "HTTP 200"),
        ({"pause": 1.5}, "no answer within 0.5 s"),
    ],
)
def test_what_is_no_right_answer_is_a_failed_check(
    engine: Engine, change: dict[str, Any], said: str
) -> None:
    for name, value in change.items():
        setattr(engine, name, value)
    found = engine.ask(timeout=0.5)
    assert found["verdict"] == "fail"
    assert said in found["evidence"]


def test_nobody_there_is_one_too(engine: Engine) -> None:
    engine.server.shutdown()
    engine.server.server_close()
    assert "refused" in engine.ask()["evidence"].lower()


def test_a_known_answer_that_is_none_is_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="either `prompt` or `messages`"):
        engine.ask(known_answer={"expect": "x"})
