# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._group import launch
from ansible_collections.sm120.sglang.plugins.module_utils._group.membership import Group

A = Group("a", ("a1", "a2"), 1)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.1", "192.0.2.1:20000"),
        ("2001:db8::1", "[2001:db8::1]:20000"),
        ("gpu1.example.org", "gpu1.example.org:20000"),
    ],
)
def test_the_head_is_named_as_the_engine_reads_it(address: str, expected: str) -> None:
    assert launch.arguments(A, address, 20000) == {
        "nnodes": 2,
        "node-rank": 1,
        "dist-init-addr": expected,
    }


def test_an_engine_on_one_node_is_launched_as_before() -> None:
    assert launch.arguments(Group("", ("c",)), "192.0.2.1", 20000) == {}
    assert launch.environment({}) == {}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (
            {"interface": "eth1", "addresses": ["192.0.2.1", "2001:db8::1"], "problem": ""},
            {
                "GLOO_SOCKET_IFNAME": "eth1",
                "NCCL_SOCKET_IFNAME": "=eth1",
                "SGLANG_HOST_IP": "192.0.2.1",
            },
        ),
        ({"interface": "", "addresses": ["192.0.2.1"], "problem": ""}, {}),
        ({"interface": "", "addresses": [], "problem": "unknown"}, {}),
    ],
)
def test_traffic_is_bound_to_the_interface_of_the_nodes_address(
    own: dict[str, Any], expected: dict[str, str]
) -> None:
    assert launch.environment({"own": own, "others": {}}) == expected


def test_what_has_to_differ_is_left_out() -> None:
    words = [
        "--host",
        "192.0.2.1",
        "--node-rank",
        "1",
        "--nnodes",
        "2",
        "--port=3",
        "--x",
        "a",
        "b",
    ]
    assert launch.common_words(words) == ["--nnodes", "2", "--x", "a", "b"]


def test_a_change_on_any_node_is_another_launch_and_so_is_their_order() -> None:
    names = [launch.digest(one) for one in (["x", "y"], ["x", "z"], ["y", "x"], ["x", "y", "z"])]
    assert len(set(names)) == 4
    assert all(len(name) == 16 for name in names)
