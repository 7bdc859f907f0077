# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _decide_own
from ansible_collections.sm120.sglang.plugins.module_utils._node import running

FOLDER = {"path": "/f", "mode": "0755", "owner": "root", "group": "root", "optional": False}
SEEN = {"exists": True, "kind": "folder", "mode": "0755", "owner": "root", "group": "root"}
ACCOUNT = {"name": "sglang", "group": "sglang", "home": "/h", "shell": "/s"}
USER = {"exists": True, "group": "sglang", "home": "/h", "shell": "/s", "uid": 1, "gid": 1}


def lines(found: list[Any]) -> list[str]:
    """`!` marks what makes the engine restart."""
    return [f"{'!' if d['restart'] else ''}{d['item']}: {d['reason']}" for d in found]


@pytest.mark.parametrize(
    ("seen", "wanted", "expected"),
    [
        ({}, {}, []),
        ({"mode": "0777"}, {}, ["/f: mode is 0777, not 0755"]),
        ({"owner": "x", "group": "y"}, {}, ["/f: owner is x, not root, group is y, not root"]),
        ({"kind": "link", "mode": "0777"}, {}, ["/f: is a link, not a folder"]),
        ({"exists": False}, {}, ["/f: missing"]),
        ({"exists": False}, {"optional": True}, []),
    ],
)
def test_folders(seen: dict[str, Any], wanted: dict[str, Any], expected: list[str]) -> None:
    node = {"files": {"/f": {**SEEN, **seen}}}
    assert lines(_decide_own.folders(node, [{**FOLDER, **wanted}])) == expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, []),
        ({"exists": False}, ["user sglang: missing"]),
        ({"shell": "/bin/sh"}, ["user sglang: shell is /bin/sh, not /s"]),
        ({"home": "/x", "group": "g"}, ["user sglang: group is g, not sglang, home is /x, not /h"]),
    ],
)
def test_the_engines_user(seen: dict[str, Any], expected: list[str]) -> None:
    assert lines(_decide_own.account({"user": {**USER, **seen}}, ACCOUNT)) == expected


@pytest.mark.parametrize(
    ("entry", "unit", "kept", "restart"),
    [
        ({}, {}, [], "!"),
        ({"loaded": False}, {}, [], ""),
        ({"changed_at": 201.0}, {}, [], ""),
        ({}, {"active_state": "failed"}, [], ""),
        ({}, {}, ["x.conf"], None),
        ({}, {}, ["/etc/x.conf"], None),
        ({}, {}, ["/run/x.conf"], "!"),
    ],
)
def test_overrides(
    entry: dict[str, Any], unit: dict[str, Any], kept: list[str], restart: str | None
) -> None:
    override = {"path": "/etc/x.conf", "changed_at": 100.0, "loaded": True, **entry}
    node = {
        "unit": {"active_state": "active", "started_at": 200.0, "overrides": [override], **unit}
    }
    reason = "overrides the unit and is not in engine_drop_ins; it is set aside"
    expected = [] if restart is None else [f"{restart}/etc/x.conf: {reason}"]
    assert lines(_decide_own.overrides(node, kept)) == expected


def process(**change: Any) -> dict[str, Any]:
    seen = {
        "arguments": ["--a", "1", "--config", "/run/credentials/x"],
        "environment": {"A": running.digest("1"), "PATH": "x"},
        "release": "r1",
    }
    return {**seen, **change}


@pytest.mark.parametrize(
    ("seen", "unit", "expected"),
    [
        (process(), {}, []),
        (process(arguments=["--a", "1"]), {}, []),
        (process(arguments=None, release=""), {}, []),
        (
            process(arguments=["--a", "2"]),
            {},
            ["!engine: was started with other arguments than its unit has"],
        ),
        (
            process(environment={"A": running.digest("2")}),
            {},
            ["!engine: was started with another A"],
        ),
        (process(environment={"B": ""}), {}, ["!engine: was started with another A"]),
        (process(release="r0"), {}, ["!engine: runs from release r0"]),
        # It restarts anyway, and so it is not compared.
        (process(release="r0"), {"launch": "other"}, []),
        (process(release="r0"), {"active_state": "failed"}, []),
        (process(environment={}), {}, []),
    ],
)
def test_the_process(seen: dict[str, Any], unit: dict[str, Any], expected: list[str]) -> None:
    node = {"unit": {"active_state": "active", "launch": "L", "process": seen, **unit}}
    wanted = {"arguments": ["--a", "1"], "environment": {"A": "1"}, "release": "r1"}
    assert lines(_decide_own.process(node, "L", wanted)) == expected


RECORDS = {"L1": {"release": "r1"}, "L0": {"release": "r0"}, "LX": {"release": "gone"}}


@pytest.mark.parametrize(
    ("previous", "before", "current", "expected"),
    [
        ("r0", "L0", "r1", []),
        ("", "L0", "r1", ["previous release: is none, not r0"]),
        ("r1", "L0", "r1", ["previous release: is r1, not r0"]),
        ("", "", "r1", []),
        ("r0", "", "r1", []),
        ("r0", "LX", "r1", []),
        ("gone", "", "r1", ["previous release: is gone, which is not there"]),
        # The switch sets it.
        ("", "L0", "r0", []),
    ],
)
def test_the_release_before(previous: str, before: str, current: str, expected: list[str]) -> None:
    node = {
        "releases": {"current": current, "previous": previous, "complete": ["r0", "r1"]},
        "launches": {"records": RECORDS, "serving": "L1", "before": before},
    }
    assert lines(_decide_own.previous(node, "r1")) == expected
