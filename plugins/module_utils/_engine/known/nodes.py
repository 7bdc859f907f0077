# SPDX-License-Identifier: Apache-2.0
"""Faults between the nodes of one engine, as each of them tells them."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import Signature

SIGNATURES = (
    Signature(
        "another-node-died",
        r"Connection closed by peer",
        "look at the engine's other nodes and ranks (playbooks/status.yml; `journalctl -u sglang` "
        "there): this one ended because another did. systemd starts all of them again",
        cause="another rank of this engine, here or on another node, ended first",
        source="SGLang 0.5.9 over two nodes, one of them killed; gloo transport/tcp/pair.cc:553",
    ),
    Signature(
        "rendezvous-timeout",
        r"Timed out after \d+ seconds waiting for clients"
        r"|The client socket has (?:timed out after|failed to connect to)",
        "see that the engine runs on all nodes of engine_group, and that they reach "
        "engine_group_port of the first one (scripts/preflight.py looks)",
        cause="the engine's nodes did not find each other: one is missing, or a firewall is there",
        source="torch 2.13 torch/csrc/distributed/c10d (TCPStore, socket)",
    ),
    Signature(
        "gloo-interface",
        r"Unable to find address for|Gloo connectFullMesh failed",
        "set engine_group_address to an address of the network between the nodes: gloo is bound to "
        "the interface that has it",
        cause="gloo has no usable address on the interface that it was given, or is refused there",
        source="torch 2.13 third_party/gloo",
    ),
)
