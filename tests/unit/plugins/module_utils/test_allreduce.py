# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._allreduce import (
    CHOICES,
    PCIE_IPC,
    SWITCHES,
    SYMM_MEM,
    Decision,
    Node,
    Wanted,
    decide,
    node_of,
)
from ansible_collections.sm120.sglang.plugins.module_utils._launch import LaunchError
from hypothesis import given
from hypothesis import strategies as st

PCIE = Node(sm120=True, multicast=False, nvlink=False, peer=True)
SIZES = ("sm120_allreduce_sizes",)


def wanted(release: str = "0.5.23", **changes: Any) -> Wanted:
    return Wanted(**{"release": release, "cuda": True, "tp_size": 8, "patches": SIZES, **changes})


@pytest.mark.parametrize("node", [PCIE, Node(True, True, True, True)])
def test_between_nodes_there_is_nccl_alone(node: Node) -> None:
    found = decide(wanted(nodes=2, tp_size=8), node)
    assert (found.mode, found.arguments, found.environment) == ("nccl", {}, {})
    assert "spans 2 nodes" in found.reason
    assert decide(wanted(nodes=2, allreduce="nccl"), node).mode == "nccl"


@pytest.mark.parametrize(
    "change",
    [
        {"allreduce": "symm_mem"},
        {"allreduce": "pcie_ipc"},
        {"symm_mem": "on"},
        {"arguments": {SYMM_MEM: True}},
        {"environment": {PCIE_IPC: "1"}},
    ],
)
def test_what_works_inside_one_node_is_refused_between_nodes(change: dict[str, Any]) -> None:
    with pytest.raises(LaunchError, match="works inside one node, and this engine spans 2"):
        decide(wanted(nodes=2, **change), PCIE)


@pytest.mark.parametrize(
    ("want", "node", "mode", "why"),
    [
        (wanted("0.5.22"), PCIE, "pcie_ipc", "8 GPUs of capability 12 over PCIe"),
        (wanted("0.5.21"), PCIE, "nccl", "SGLang 0.5.21 has no usable kernels for it; 0.5.22 has"),
        (wanted("0.5.12.post1"), PCIE, "nccl", "do not support multicast"),
        (wanted(tp_size=6), PCIE, "nccl", "engine_tp_size is 6"),
        (
            wanted(arguments={"enable-deterministic-inference": True}),
            PCIE, "nccl", "deterministic inference",
        ),
        (wanted(), Node(True, False, True, True), "nccl", "NVLink joins the GPUs"),
        (wanted(), Node(True, False, None, True), "nccl", "not known what joins the GPUs"),
        (wanted(), Node(True, False, False, False), "nccl", "cannot reach each other's memory"),
        (wanted(), Node(True, False, False, None), "nccl", "not known to reach"),
        (wanted(), Node(None, None, False, True, "no libcuda.so.1"), "nccl", "(no libcuda.so.1)"),
        (wanted(), Node(False, True, True, True), "symm_mem", "support multicast"),
        (wanted(), Node(True, True, True, True), "symm_mem", "support multicast"),
        (wanted(patches=()), Node(True, True, True, True), "nccl", "without the patch"),
        (wanted(patches=()), Node(False, True, True, True), "symm_mem", "support multicast"),
        (wanted(symm_mem="off"), Node(True, True, False, True), "pcie_ipc", "it is switched off"),
        (wanted(arguments={SYMM_MEM: False}), Node(False, True), "nccl", "it is switched off"),
        (wanted(environment={PCIE_IPC: "0"}), PCIE, "nccl", "engine_environment"),
        (wanted(environment={PCIE_IPC: "1"}), PCIE, "pcie_ipc", "engine_environment"),
        (wanted(arguments={SYMM_MEM: True}), PCIE, "symm_mem", "engine_arguments"),
        (wanted(allreduce="nccl"), PCIE, "nccl", "asks for it"),
        (wanted(allreduce="pcie_ipc"), PCIE, "pcie_ipc", "asks for it"),
        (wanted(allreduce="symm_mem"), PCIE, "symm_mem", "it will do nothing"),
        (wanted(symm_mem="on"), PCIE, "symm_mem", "it will do nothing"),
        (wanted("0.5.9", symm_mem=True), Node(True, True), "symm_mem", "and the GPUs support"),
        (wanted(cuda=False), Node(), "none", "the CPU"),
        (wanted(tp_size=1), PCIE, "none", "one GPU"),
    ],
)  # fmt: skip
def test_the_choice_and_its_reason(want: Wanted, node: Node, mode: str, why: str) -> None:
    decision = decide(want, node)
    assert decision.mode == mode
    assert why in decision.reason


@pytest.mark.parametrize(
    ("want", "cause"),
    [
        (wanted("0.5.13.post1", symm_mem="on", patches=()), "KeyError 12 at start"),
        (wanted("0.5.9", allreduce="symm_mem", patches=()), "source_patches_ids"),
        (wanted("0.5.21", allreduce="pcie_ipc"), "no usable kernels"),
        (wanted(allreduce="pcie_ipc", tp_size=3), "2, 4 or 8"),
        (wanted(allreduce="nccl", symm_mem="on"), "set one of the two to auto"),
        (wanted(allreduce="symm_mem", symm_mem="off"), "set one of the two to auto"),
        (wanted(allreduce="fast"), "none of auto, nccl"),
        (wanted(symm_mem="maybe"), "none of auto, on, off"),
    ],
)
def test_what_contradicts_or_cannot_work_is_refused(want: Wanted, cause: str) -> None:
    with pytest.raises(LaunchError, match=cause):
        decide(want, PCIE)


def test_yaml_words_for_the_switch_are_understood() -> None:
    assert decide(wanted(symm_mem=True), PCIE).mode == "symm_mem"
    assert "switched off" in decide(wanted(symm_mem=False), PCIE).reason


def test_what_each_choice_needs_is_given_along() -> None:
    assert decide(wanted(), PCIE).environment == {PCIE_IPC: "1"}
    assert decide(wanted(), Node(False, True)).arguments == {SYMM_MEM: True}
    by_hand = decide(wanted(environment={PCIE_IPC: True}), PCIE)
    assert (by_hand.mode, by_hand.arguments, by_hand.environment) == ("pcie_ipc", {}, {})


MAYBE = st.sampled_from([True, False, None])


@given(
    node=st.builds(Node, MAYBE, MAYBE, MAYBE, MAYBE),
    want=st.builds(
        Wanted,
        release=st.sampled_from(["0.5.9", "0.5.13.post1", "0.5.14", "0.5.21", "0.5.22", "0.5.23"]),
        cuda=st.booleans(),
        tp_size=st.integers(1, 9),
        allreduce=st.sampled_from(CHOICES),
        symm_mem=st.sampled_from(SWITCHES),
        patches=st.sampled_from([(), SIZES]),
    ),
)
def test_no_choice_ends_the_start_and_auto_takes_only_what_is_known(
    node: Node, want: Wanted
) -> None:
    try:
        decision = decide(want, node)
    except LaunchError:
        assert (want.allreduce, want.symm_mem) != ("auto", "auto")
        return
    assert decision.reason
    fatal = want.release in ("0.5.9", "0.5.13.post1") and node.sm120 is not False
    if decision.mode == "symm_mem":
        assert want.patches == SIZES or not fatal
        assert node.multicast is True or "symm_mem" in want.allreduce or want.symm_mem == "on"
    if decision.mode == "pcie_ipc":
        assert want.release in ("0.5.22", "0.5.23")
        assert want.tp_size in (2, 4, 8)


def test_the_node_is_read_from_its_facts() -> None:
    host = {
        "smi": {
            "gpus": [{"capability": "12.0"}, {"capability": "12.0"}],
            "topology": {"state": "ok", "cells": {"0-1": "SYS", "1-0": "SYS"}},
            "p2p": {"r": {"cells": {"0-1": "OK"}}, "w": {"cells": {"0-1": "CNS"}}},
        },
        "multicast": {"state": "no libcuda.so.1", "devices": []},
    }
    assert node_of(host) == Node(True, None, False, False, "no libcuda.so.1")
    assert node_of({}) == Node(why="the node's GPUs were not read")
    half = {"smi": {"gpus": [{"capability": "12.0"}, {"capability": ""}]}}
    assert node_of(half).sm120 is None
    assert isinstance(decide(wanted(), node_of({})), Decision)
