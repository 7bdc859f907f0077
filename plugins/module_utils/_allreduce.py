# SPDX-License-Identifier: Apache-2.0
"""Which all-reduce a launch uses, for a release and a node, and why.

Tensor parallelism adds up partial results of all GPUs twice a layer. NCCL always can. Two others
may be faster, each under conditions of its own; everything here is pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.releases import release_key
from ansible_collections.sm120.sglang.plugins.module_utils._host.fabric import (
    has_multicast,
    has_nvlink,
)
from ansible_collections.sm120.sglang.plugins.module_utils._launch import LaunchError

CHOICES = ("auto", "nccl", "symm_mem", "pcie_ipc")
SWITCHES = ("auto", "on", "off")
SYMM_MEM = "enable-torch-symm-mem"
PCIE_IPC = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"
SIZES_PATCH = "sm120_allreduce_sizes"
# The first release whose FlashInfer has the kernels (0.5.21 reads the variable, and pins a
# FlashInfer without them), and the world sizes that they are for
# (0.5.23 srt/distributed/device_communicators/pcie_ipc_ar.py:76).
_PCIE_IPC_SINCE = "0.5.22"
_PCIE_IPC_SIZES = (2, 4, 8)
# From here on a capability that the size table lacks is no longer a KeyError.
_COPES_SINCE = "0.5.14"
_TRUE = ("1", "true", "yes", "y", "on")


@dataclass(frozen=True)
class Node:
    """What matters of a node.

    Attributes:
        sm120: All GPUs have compute capability 12; None where that is not known.
        multicast: All GPUs support multicast; None where that is not known.
        nvlink: NVLink joins GPUs; None where that is not known.
        peer: Every GPU reads and writes every other's memory; None where that is not known.
        why: Why multicast is not known.
    """

    sm120: bool | None = None
    multicast: bool | None = None
    nvlink: bool | None = None
    peer: bool | None = None
    why: str = ""


@dataclass(frozen=True)
class Wanted:
    """What the inventory says.

    Attributes:
        release: SGLang's version.
        cuda: Whether the stack runs on GPUs.
        tp_size: GPUs that one engine spans.
        nodes: Nodes that they are in.
        allreduce: One of `CHOICES`.
        symm_mem: One of `SWITCHES`.
        patches: Ids of the source patches that the release gets.
        arguments: The operator's own server arguments.
        environment: The operator's own variables.
    """

    release: str
    cuda: bool
    tp_size: int
    nodes: int = 1
    allreduce: str = "auto"
    symm_mem: str = "auto"
    patches: Collection[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The all-reduce that is used.

    Attributes:
        mode: `nccl`, `symm_mem`, `pcie_ipc`, or `none` where there is nothing to add up.
        reason: Why, in a sentence.
        arguments: Server arguments that it takes.
        environment: Variables that it takes.
    """

    mode: str
    reason: str
    arguments: Mapping[str, bool] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def node_of(host: Mapping[str, Any]) -> Node:
    """What matters, from the reading of `node_facts` (`host`); all unknown where it is empty."""
    smi = host.get("smi", {})
    multicast = host.get("multicast", {})
    devices = multicast.get("devices") or smi.get("gpus", [])
    known = {str(device.get("capability") or "") for device in devices}
    sm120 = None if not known or "" in known else all(c.startswith("12.") for c in known)
    return Node(
        sm120=sm120,
        multicast=has_multicast(multicast),
        nvlink=has_nvlink(smi.get("topology", {})),
        peer=_peer(smi.get("p2p", {})),
        why=str(multicast.get("state", "the node's GPUs were not read")),
    )


def _peer(matrices: Mapping[str, Any]) -> bool | None:
    cells = [cell for one in matrices.values() for cell in one.get("cells", {}).values()]
    return all(cell == "OK" for cell in cells) if cells else None


def decide(wanted: Wanted, node: Node) -> Decision:
    """Choose the all-reduce.

    Args:
        wanted: What the inventory says.
        node: What the node reports.

    Returns:
        The decision. `auto` takes PCIe-IPC or symmetric memory only where the release and what
        the node reports allow it; what is not known counts as not there.

    Raises:
        LaunchError: Two settings contradict each other, or the one that is asked for ends the
            start of this release or cannot work in it.
    """
    switch = _switch(wanted.symm_mem)
    if wanted.allreduce not in CHOICES:
        raise LaunchError(f"engine_allreduce: '{wanted.allreduce}' is none of {', '.join(CHOICES)}")
    if switch == "on" and wanted.allreduce in ("nccl", "pcie_ipc"):
        raise LaunchError(
            f"engine_torch_symm_mem is on and engine_allreduce is {wanted.allreduce}; set one of "
            "the two to auto"
        )
    if switch == "off" and wanted.allreduce == "symm_mem":
        raise LaunchError(
            "engine_torch_symm_mem is off and engine_allreduce is symm_mem; set one of the two to "
            "auto"
        )
    if not wanted.cuda:
        return Decision(
            "none", "the stack runs on the CPU, where none of NCCL's rivals plays a part"
        )
    if wanted.tp_size < 2:
        return Decision("none", "one GPU has nothing to add up")
    mode = "symm_mem" if switch == "on" else wanted.allreduce
    if wanted.nodes > 1:
        return _across_nodes(wanted, mode)
    return _inside_a_node(wanted, node, mode, switch)


def _inside_a_node(wanted: Wanted, node: Node, mode: str, switch: str) -> Decision:
    if mode == "symm_mem":
        return _symm_mem_by_wish(wanted, node)
    if mode == "pcie_ipc":
        return _pcie_ipc_by_wish(wanted)
    if mode == "nccl":
        return Decision("nccl", "engine_allreduce asks for it")
    by_hand = _by_hand(wanted)
    return by_hand or _automatic(wanted, node, switch)


def _across_nodes(wanted: Wanted, mode: str) -> Decision:
    """Leave it to NCCL: its rivals map other GPUs' memory, which ends at the node.

    SGLang asks for symmetric memory without a look at the nodes (0.5.9
    srt/distributed/device_communicators/torch_symm_mem.py:101).
    """
    by_hand = _by_hand(wanted)
    rival = by_hand.mode if by_hand is not None else mode
    if rival in ("symm_mem", "pcie_ipc"):
        raise LaunchError(
            f"{rival} is asked for and works inside one node, and this engine spans "
            f"{wanted.nodes}; set engine_allreduce to auto or nccl, and take it out of "
            "engine_torch_symm_mem, engine_arguments and engine_environment"
        )
    return Decision("nccl", f"the engine spans {wanted.nodes} nodes")


def _switch(value: object) -> str:
    # YAML reads on and off without quotes as true and false.
    word = {True: "on", False: "off", "True": "on", "False": "off"}.get(value, value)
    if word not in SWITCHES:
        raise LaunchError(f"engine_torch_symm_mem: '{value}' is none of {', '.join(SWITCHES)}")
    return str(word)


def _by_hand(wanted: Wanted) -> Decision | None:
    """What the operator's own arguments decide already."""
    if wanted.arguments.get(SYMM_MEM) is True:
        return Decision("symm_mem", f"engine_arguments.{SYMM_MEM} asks for it")
    if str(wanted.environment.get(PCIE_IPC, "")).lower() in _TRUE:
        return Decision("pcie_ipc", f"engine_environment.{PCIE_IPC} asks for it")
    return None


def _symm_mem_hurdle(wanted: Wanted, node: Node) -> tuple[str, bool]:
    """Why symmetric memory would not work here, and whether trying ends the start."""
    if node.sm120 is not False and SIZES_PATCH not in wanted.patches:
        fatal = _before(wanted.release, _COPES_SINCE)
        ends = "ends with KeyError 12 at start" if fatal else "switches it off"
        return (
            f"without the patch {SIZES_PATCH} SGLang {wanted.release} {ends} on capability 12",
            fatal,
        )
    if node.multicast is None:
        return f"it is not known whether the GPUs support multicast ({node.why})", False
    if not node.multicast:
        return "the GPUs do not support multicast, without which the release switches it off", False
    return "", False


def _symm_mem_by_wish(wanted: Wanted, node: Node) -> Decision:
    hurdle, fatal = _symm_mem_hurdle(wanted, node)
    if fatal:
        raise LaunchError(
            f"torch's symmetric memory is asked for, and {hurdle}; add the patch to "
            "source_patches_ids, or set engine_torch_symm_mem to auto"
        )
    reason = "the inventory asks for it"
    reason += f"; it will do nothing: {hurdle}" if hurdle else ", and the GPUs support multicast"
    return Decision("symm_mem", reason, {SYMM_MEM: True})


def _pcie_ipc_hurdle(wanted: Wanted) -> str:
    if _before(wanted.release, _PCIE_IPC_SINCE):
        return f"SGLang {wanted.release} has no usable kernels for it; {_PCIE_IPC_SINCE} has"
    if wanted.tp_size not in _PCIE_IPC_SIZES:
        return f"it works between 2, 4 or 8 GPUs, and engine_tp_size is {wanted.tp_size}"
    if wanted.arguments.get("enable-deterministic-inference") is True:
        return "deterministic inference switches it off"
    return ""


def _pcie_ipc_by_wish(wanted: Wanted) -> Decision:
    hurdle = _pcie_ipc_hurdle(wanted)
    if hurdle:
        raise LaunchError(
            f"engine_allreduce asks for pcie_ipc, and {hurdle}; set it to auto, or change that"
        )
    return Decision("pcie_ipc", "engine_allreduce asks for it", environment={PCIE_IPC: "1"})


def _automatic(wanted: Wanted, node: Node, switch: str) -> Decision:
    refused = switch == "off" or wanted.arguments.get(SYMM_MEM) is False
    hurdle = "it is switched off" if refused else _symm_mem_hurdle(wanted, node)[0]
    if not hurdle:
        return Decision("symm_mem", "the GPUs support multicast", {SYMM_MEM: True})
    other = _pcie_ipc_hurdle(wanted)
    if PCIE_IPC in wanted.environment:
        other = f"engine_environment.{PCIE_IPC} switches it off"
    elif node.sm120 is not True:
        other = "the GPUs are not known to have capability 12"
    elif node.nvlink is not False:
        other = "NVLink joins the GPUs" if node.nvlink else "it is not known what joins the GPUs"
    elif node.peer is not True:
        can = "cannot" if node.peer is False else "are not known to"
        other = f"the GPUs {can} reach each other's memory"
    if not other:
        return Decision(
            "pcie_ipc",
            f"{wanted.tp_size} GPUs of capability 12 over PCIe, and SGLang {wanted.release} has "
            f"FlashInfer's kernels for that (symmetric memory: {hurdle})",
            environment={PCIE_IPC: "1"},
        )
    return Decision("nccl", f"symmetric memory: {hurdle}; FlashInfer's PCIe-IPC: {other}")


def _before(release: str, other: str) -> bool:
    return release_key(release) < release_key(other)
