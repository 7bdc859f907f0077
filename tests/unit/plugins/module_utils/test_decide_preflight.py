# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _decide
from ansible_collections.sm120.sglang.plugins.module_utils._decide import GIB

SYSTEM = {
    "os": {"id": "debian", "version": "12", "codename": "bookworm"},
    "machine": "x86_64",
    "glibc": "2.36",
    "memory": {"total": 64 * GIB, "available": 1},
    "disks": {
        "/opt": {"path": "/opt", "free": 50 * GIB, "total": 99 * GIB, "device": 1},
        "/var": {"path": "/var", "free": 50 * GIB, "total": 99 * GIB, "device": 1},
        "/srv": {"path": "/srv", "free": 5 * GIB, "total": 99 * GIB, "device": 2},
    },
    "packages": {},
}
OURS = {"address": "127.0.0.1", "port": 30000, "pid": 7, "command": "python", "unit": "e.service"}
WANTED = {
    "systems": {"debian": ["12", "13"], "ubuntu": ["24.04"]},
    "stack": {"name": "s", "glibc": "2.34"},
    "python": {"version": "3.11", "path": "/usr/bin/python3.11", "error": ""},
    "memory": 64 * GIB,
    "disks": {"/opt": 40 * GIB, "/var": 10 * GIB},
    "address": "127.0.0.1",
    "port": 30000,
    "unit": "e.service",
}


def judge(
    system: dict[str, Any] | None = None,
    ports: list[dict[str, Any]] | None = None,
    unit: dict[str, Any] | None = None,
    wanted: dict[str, Any] | None = None,
) -> list[_decide.Verdict]:
    node = {
        "system": {**SYSTEM, **(system or {})},
        "ports": ports or [],
        "unit": {"load_state": "loaded", **(unit or {})},
    }
    return _decide.preflight(node, {**WANTED, **(wanted or {})})


def test_a_fitting_node_passes_every_check() -> None:
    verdicts = judge()
    assert [v["id"] for v in verdicts] == [
        "system",
        "python",
        "glibc",
        "memory",
        "disk",
        "port",
        "unit_masked",
    ]
    assert all(v["verdict"] == "ok" and v["remedy"] == "" for v in verdicts)


@pytest.mark.parametrize(
    ("case", "check", "read", "remedy"),
    [
        (
            {"system": {"os": {"id": "debian", "version": "11"}}},
            "system",
            "debian 11 on x86_64",
            "supported: debian 12, 13; ubuntu 24.04, on x86_64",
        ),
        ({"system": {"os": {"id": "fedora", "version": "12"}}}, "system", "fedora 12", "supported"),
        ({"system": {"machine": "aarch64"}}, "system", "debian 12 on aarch64", "on x86_64"),
        (
            {"wanted": {"python": {"version": "", "path": "", "error": "needs 3.12"}}},
            "python",
            "needs 3.12",
            "see the message",
        ),
        ({"system": {"glibc": "2.31"}}, "glibc", "C library 2.31, stack s needs 2.34", "stack"),
        ({"system": {"glibc": "2.4"}}, "glibc", "C library 2.4,", "stack"),
        ({"system": {"glibc": ""}}, "glibc", "C library unknown", "stack"),
        (
            {"system": {"memory": {"total": 64 * GIB - 1, "available": 0}}},
            "memory",
            "64.0 GiB of memory, 64.0 GiB wanted",
            "preflight_memory_gib",
        ),
        # Two folders on one file system need the sum.
        (
            {"wanted": {"disks": {"/var": 11 * GIB, "/opt": 40 * GIB}}},
            "disk",
            "/opt and /var: 50.0 GiB free, 51.0 GiB to come",
            "free space there",
        ),
        (
            {"wanted": {"disks": {"/opt": GIB, "/srv": 6 * GIB}}},
            "disk",
            "/srv: 5.0 GiB free, 6.0 GiB to come",
            "free space there",
        ),
        (
            {"ports": [{**OURS, "unit": "nginx.service", "command": "nginx"}]},
            "port",
            "127.0.0.1:30000 is taken by pid 7 (nginx, nginx.service)",
            "choose another engine_port",
        ),
        (
            {"ports": [OURS, {**OURS, "address": "0.0.0.0", "unit": "", "command": "nc"}]},
            "port",
            "0.0.0.0:30000 is taken by pid 7 (nc, no unit)",
            "stop it",
        ),
        (
            {"ports": [{**OURS, "pid": None, "unit": "", "command": ""}]},
            "port",
            "taken by a process outside this system's view",
            "stop it",
        ),
        (
            {"unit": {"load_state": "masked"}},
            "unit_masked",
            "unit e.service is masked",
            "systemctl unmask e.service",
        ),
    ],
)
def test_one_thing_wrong_fails_one_check(
    case: dict[str, Any], check: str, read: str, remedy: str
) -> None:
    failed = [v for v in judge(**case) if v["verdict"] != "ok"]
    assert [v["id"] for v in failed] == [check]
    assert read in failed[0]["read"]
    assert remedy in failed[0]["remedy"]


@pytest.mark.parametrize(
    "ports",
    [
        [],
        [OURS],
        [{**OURS, "unit": "x.service", "port": 30001}],
        [{**OURS, "unit": "x.service", "address": "127.0.0.2"}],
    ],
)
def test_the_port_is_free_or_our_own(ports: list[dict[str, Any]]) -> None:
    assert all(v["verdict"] == "ok" for v in judge(ports=ports))
