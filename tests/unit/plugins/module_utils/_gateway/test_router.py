# SPDX-License-Identifier: Apache-2.0
"""The router's API as it was recorded."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import router

from tests.unit.plugins.module_utils._gateway.router_server import ADMIN, recorded, serving


def test_workers_are_read_from_what_a_router_answered() -> None:
    [worker] = router.parse_workers(recorded("workers.json"))
    assert (worker.url, worker.healthy, worker.load) == ("http://127.120.62.2:30000", True, 0)
    assert worker.id == "7bf4c593-f962-41e8-9334-bcfd74061ee4"


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"workers": None}, {"workers": [{"url": "x"}]}, {"workers": ["x"]}, "x"],
)
def test_what_is_no_list_of_workers_is_refused_and_not_taken_for_an_empty_one(answer: Any) -> None:
    with pytest.raises(router.GatewayError, match="gateway_port"):
        router.parse_workers(answer)


def test_running_requests_are_read_from_what_an_engine_answered() -> None:
    answer = recorded("loads-0.5.9.json")
    assert router.parse_running(answer) == 0
    answer["loads"].append({"num_running_reqs": 3, "num_waiting_reqs": 2})
    assert router.parse_running(answer) == 5


@pytest.mark.parametrize(
    "answer", [None, {}, {"loads": {}}, {"loads": [{}]}, {"loads": [{"num_running_reqs": 1}]}]
)
def test_an_engine_that_does_not_say_is_not_taken_for_an_idle_one(answer: Any) -> None:
    assert router.parse_running(answer) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a:1", "http://a:1/", True),
        ("http://a:1", "http://a:1", True),
        ("http://a:1", "http://a:10", False),
    ],
)
def test_a_trailing_slash_is_no_other_worker(one: str, other: str, same: bool) -> None:
    assert router.same_url(one, other) is same


def test_a_wrong_key_is_told_with_its_status() -> None:
    with serving() as book, pytest.raises(router.GatewayError, match="401 Invalid authentication"):
        router.Router(book.url, "wrong").workers()


def test_a_worker_is_added_found_and_removed() -> None:
    with serving() as book:
        own = router.Router(book.url + "/", ADMIN)
        assert own.find("http://a:1") is None
        assert own.add("http://a:1", "k")
        found = own.find("http://a:1/")
        assert found is not None
        own.remove(found)
        assert own.workers() == []
    assert ("POST", "/workers", {"url": "http://a:1", "api_key": "k"}) in book.requests


def test_without_a_key_none_is_sent() -> None:
    with serving() as book:
        router.Router(book.url, ADMIN).add("http://a:1", "")
    assert book.requests == [("POST", "/workers", {"url": "http://a:1"})]


def test_nobody_at_the_address_is_another_failure_than_no_answer() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(router.RefusedError):
        router.Router(f"http://127.0.0.1:{port}", ADMIN).workers()
    assert router.running(f"http://127.0.0.1:{port}", "") == 0
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert router.running(url, "", seconds=0.2) is None


def test_only_a_failed_job_complains() -> None:
    with serving() as book:
        own = router.Router(book.url, ADMIN)
        name = own.add("http://a:1", "")
        assert own.complaint(name) == ""
        book.jobs[name] = "Worker http://a:1 already exists"
        assert own.complaint(name) == "Worker http://a:1 already exists"
