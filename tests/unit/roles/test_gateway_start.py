# SPDX-License-Identifier: Apache-2.0
"""What a gateway's unit runs: it is installed as it is, and imports nothing of the collection."""

from __future__ import annotations

import json
from pathlib import Path

from roles.gateway.files import start
from tests.unit.plugins.module_utils._gateway.router_server import ADMIN, serving


def test_a_router_that_starts_is_told_of_members_alone() -> None:
    config = {"workers": {"a": "http://a:1", "b": "http://b:1", "c": "http://c:1"}}
    members = {"a": {"inside": True}, "b": {"inside": False}, "gone": {"inside": True}}
    assert start.to_add(config, {"a": "k"}, members) == [{"url": "http://a:1", "api_key": "k"}]
    assert start.to_add(config, {}, members) == [{"url": "http://a:1"}]
    assert start.to_add(config, {}, ["damaged"]) == []


def test_keys_reach_the_router_inside_its_process_alone() -> None:
    assert start.with_keys(["--port", "1"], "", "admin") == [
        "--port",
        "1",
        "--control-plane-api-keys",
        "deployment:deployment:admin:admin",
    ]
    assert start.with_keys([], "client", "admin")[-2:] == ["--api-key", "client"]


def test_members_are_named_to_a_router_that_starts(tmp_path: Path) -> None:
    with serving() as book:
        config = {"url": book.url, "workers": {"a": "http://a:1", "b": "http://b:1"}}
        (tmp_path / "gateway.json").write_text(json.dumps(config))
        (tmp_path / "worker-keys.json").write_text(json.dumps({"a": "k", "b": ""}))
        (tmp_path / "admin.key").write_text(ADMIN + "\n")
        members = tmp_path / "members.json"
        start.register(tmp_path, members)
        assert book.workers == {}
        members.write_text(json.dumps({"b": {"inside": True}}))
        start.register(tmp_path, members)
        assert book.workers == {"http://b:1": {"url": "http://b:1"}}
