# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from ansible_collections.sm120.sglang.plugins.plugin_utils._filters import distribution

DEFAULTS = {
    "distribution_address": "",
    "distribution_port": 22730,
    "distribution_network": "nodes",
}
FILE = {"name": "a", "sha256": "0" * 64, "size": 1}


def model(on: str = "controller") -> dict[str, Any]:
    source = {"on": on, "path": "/srv/m"}
    return {"path": "/m/1", "record": "/m/.1.json", "files": [FILE], "source": source}


def host(*, differs: bool, on: str = "controller", **more: Any) -> dict[str, Any]:
    plan = {"model_store": [{"item": "model"}] if differs else []}
    return {"_preflight_plan": plan, "_preflight_models": [model(on)], **more}


def test_a_complete_node_gives_and_one_that_differs_takes() -> None:
    found = distribution.model_folders({"a": host(differs=True), "b": host(differs=False)}, "ab")
    assert [folder["takes"] for name in "ab" for folder in found[name]] == [True, False]
    assert found["a"][0]["src"] == "/srv/m"


def test_what_lies_on_a_node_is_given_when_it_is_complete_and_never_brought() -> None:
    hostvars = {"a": host(differs=True, on="node"), "b": host(differs=False, on="node")}
    found = distribution.model_folders(hostvars, "ab")
    assert "a" not in found
    assert found["b"][0]["src"] == ""


def test_a_node_that_was_not_read_gives_nothing() -> None:
    assert distribution.model_folders({"a": {}}, "a") == {}


def test_wheels_are_wanted_by_those_that_build_and_given_by_all() -> None:
    house = {"path": "/w", "wheels": [{**FILE, "package": "a"}]}
    hostvars = {
        "a": {"__engine_release_wheelhouse": house},
        "b": {"engine_release_root": "/data"},
        "c": {"__engine_release_wheelhouse": {"skipped": True}},
    }
    found = distribution.wheel_folders(hostvars, "abc", "/opt/sglang")
    assert found["a"] == [
        {"dest": "/opt/sglang/wheels", "record": "", "src": "/w", "files": [FILE], "takes": True}
    ]
    assert [(f["dest"], f["takes"]) for f in found["b"]] == [("/data/wheels", False)]
    assert not found["c"][0]["takes"]
    assert distribution.wheel_folders({"b": {}}, "b", "/opt/sglang") == {}


def test_who_takes_part_with_what_the_inventory_says() -> None:
    hostvars = {
        "a": host(differs=True, distribution_address="10.0.0.1", distribution_port=9),
        "b": host(differs=False, distribution_address="10.0.0.2"),
        "c": host(differs=False),
        "d": host(differs=False, distribution_address="10.0.0.4", distribution_network="far"),
        "e": host(differs=True),
    }
    folders = distribution.model_folders(hostvars, "abcde")
    found = distribution.nodes(hostvars, "abcde", folders, DEFAULTS)
    # c has no address and d is far from everybody who takes something.
    assert [(node["name"], node["port"], node["takes"]) for node in found] == [
        ("a", 9, True),
        ("b", 22730, False),
        ("e", 22730, True),
    ]


def test_nothing_lacking_is_nobody() -> None:
    hostvars = {name: host(differs=False, distribution_address="10.0.0.1") for name in "ab"}
    folders = distribution.model_folders(hostvars, "ab")
    assert distribution.nodes(hostvars, "ab", folders, DEFAULTS) == []
