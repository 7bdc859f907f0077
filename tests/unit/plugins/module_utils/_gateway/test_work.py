# SPDX-License-Identifier: Apache-2.0
"""Nodes leave and join, and what the gateway remembers of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._gateway import config, router, work

from tests.unit.plugins.module_utils._gateway.router_server import ADMIN, Book, serving


@pytest.fixture
def book() -> Iterator[Book]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_POLL_SECONDS", "_IDLE_SECONDS"):
        monkeypatch.setattr(work, name, 0.01)
    monkeypatch.setattr(work, "_JOB_SECONDS", 0.2)


@pytest.fixture
def host(book: Book, tmp_path: Path) -> work.Host:
    known = config.Config(book.url, {"a": book.url, "b": "http://b:1"}, {"a": "k"}, ADMIN)
    return work.Host(known, tmp_path, router.Router(book.url, ADMIN))


def test_a_node_that_joins_is_registered_with_its_key_and_remembered(
    host: work.Host, book: Book
) -> None:
    assert work.join(host, "a", 5) is True
    assert book.workers == {book.url: {"url": book.url, "api_key": "k"}}
    assert config.read_members(host.state)["a"]["inside"] is True
    assert work.join(host, "a", 5) is False


def test_a_node_that_was_listed_but_forgotten_is_only_remembered(
    host: work.Host, book: Book
) -> None:
    book.workers[book.url] = {}
    assert work.join(host, "a", 5) is True
    assert not any(method == "POST" for method, _, _ in book.requests)


def test_a_node_leaves_and_the_reason_is_kept(host: work.Host, book: Book) -> None:
    work.join(host, "a", 5)
    left = work.leave(host, "a", "its engine is being switched", 5)
    assert left.changed
    assert left.running == 0
    assert book.workers == {}
    member = config.read_members(host.state)["a"]
    assert (member["inside"], member["reason"]) == (False, "its engine is being switched")
    assert work.leave(host, "a", "its engine is being switched", 5).changed is False


def test_memory_comes_before_the_router_when_a_node_leaves(host: work.Host, book: Book) -> None:
    """Killed between the two, a router that starts again must not add the node."""
    work.join(host, "a", 5)
    book.keeps = True
    with pytest.raises(router.GatewayError, match="still lists"):
        work.leave(host, "a", "switch", 5)
    assert config.read_members(host.state)["a"]["inside"] is False


def test_running_requests_are_waited_for_until_none_is_seen_several_times(
    host: work.Host, book: Book
) -> None:
    book.running[:] = [2, 1, 0, 1, 0]
    assert work.leave(host, "a", "switch", 5).running == 0
    looks = [path for _, path, _ in book.requests if path.startswith("/v1/loads")]
    assert len(looks) == 4 + 3


def test_the_wait_for_running_requests_ends(host: work.Host, book: Book) -> None:
    book.running[:] = [3]
    left = work.leave(host, "a", "switch", 0.1)
    assert left.running == 3
    assert left.seconds < 5


def test_without_a_wait_the_engine_is_not_asked(host: work.Host, book: Book) -> None:
    assert work.leave(host, "a", "switch", 0).running is None
    assert not any(path.startswith("/v1/loads") for _, path, _ in book.requests)


def test_a_router_that_does_not_run_sends_nothing(tmp_path: Path, book: Book) -> None:
    known = config.Config("http://127.0.0.1:9", {"a": "http://127.0.0.1:9"}, {}, ADMIN)
    host = work.Host(known, tmp_path, router.Router(known.url, ADMIN))
    assert work.leave(host, "a", "switch", 1).running == 0
    assert config.read_members(tmp_path)["a"]["inside"] is False


def test_why_a_router_does_not_take_a_node_is_told(host: work.Host, book: Book) -> None:
    book.refuses[book.url] = "Both HTTP and gRPC health checks failed"
    with pytest.raises(router.GatewayError, match=r"checks failed.*Requests go to the other"):
        work.join(host, "a", 1)
    assert config.read_members(host.state) == {}
    del book.refuses[book.url]
    book.unhealthy.add(book.url)
    with pytest.raises(router.GatewayError, match="its health check fails"):
        work.join(host, "a", 0.1)


def test_an_engine_with_another_key_is_not_added(host: work.Host, book: Book) -> None:
    """Its health check would pass, and every request would be refused."""
    book.engine_key = "new"
    with pytest.raises(router.GatewayError, match=r"refuses the key .* for a: .* engine_api_key"):
        work.join(host, "a", 1)
    assert book.workers == {}
    book.engine_key = "k"
    assert work.join(host, "a", 5) is True


def test_a_node_that_the_gateway_does_not_know_is_named_with_the_remedy(host: work.Host) -> None:
    with pytest.raises(router.GatewayError, match=r"no worker c \(it has: a, b\).*--limit"):
        work.join(host, "c", 1)


def test_a_stranger_is_dropped_and_a_removed_node_forgotten(host: work.Host, book: Book) -> None:
    book.workers["http://old:1"] = {}
    assert work.drop(host.router, "http://old:1") is True
    assert work.drop(host.router, "http://old:1") is False
    work.remember(host, "gone", False, "")
    assert work.forget(host, "gone") is True
    assert work.forget(host, "gone") is False


def test_nodes_of_one_batch_do_not_lose_each_other(host: work.Host) -> None:
    names = [f"n{number}" for number in range(20)]
    threads = [
        threading.Thread(target=work.remember, args=(host, name, True, "")) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(config.read_members(host.state)) == set(names)


def test_a_damaged_memory_is_nobody_inside(host: work.Host) -> None:
    (host.state / config.MEMBERS).write_text('{"a": 1, "b": {"inside": "yes"}}')
    assert config.read_members(host.state) == {"b": {"inside": False, "reason": "", "since": 0.0}}
    (host.state / config.MEMBERS).write_text("{")
    assert config.read_members(host.state) == {}


def write_config(folder: Path) -> None:
    (folder / config.CONFIG).write_text(json.dumps({"url": "http://x:1", "workers": {"a": "u"}}))
    (folder / config.KEYS).write_text(json.dumps({"a": "k"}))
    (folder / config.ADMIN).write_text("b" * 48 + "\n")


def test_the_configuration_is_whole_or_refused(tmp_path: Path) -> None:
    write_config(tmp_path)
    assert config.load(tmp_path) == config.Config("http://x:1", {"a": "u"}, {"a": "k"}, "b" * 48)
    for name in (config.CONFIG, config.KEYS, config.ADMIN):
        kept = (tmp_path / name).read_text()
        (tmp_path / name).unlink()
        with pytest.raises(router.GatewayError, match=r"no whole configuration.*--limit"):
            config.load(tmp_path)
        (tmp_path / name).write_text(kept)


@pytest.mark.parametrize(
    ("content", "mode", "fits"),
    [
        ("b" * 48, 0o600, True),
        ("b" * 48, 0o644, False),
        ("short", 0o600, False),
        ("", 0o600, False),
    ],
)
def test_a_key_of_the_control_plane_is_whole_and_its_owners_alone(
    tmp_path: Path, content: str, mode: int, fits: bool
) -> None:
    (tmp_path / config.ADMIN).write_text(content)
    (tmp_path / config.ADMIN).chmod(mode)
    assert config.admin_key_fits(tmp_path) is fits
