# SPDX-License-Identifier: Apache-2.0
"""Which GPUs have room for a proof beside what runs on them: an engine that serves fills its cards.

The proof's own process held 750 MiB of one H200 (PyTorch for CUDA 13.0), which an engine may ask
for at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.sm120.sglang.plugins.module_utils._node import processes

LEAST_MIB = 2048
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Room:
    """Where a proof may use a GPU.

    Attributes:
        environment: Variables that show the program those with room alone.
        left_out: One sentence for each that has none.
        none: Whether no GPU has room.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    none: bool = False


def choose(gpus: Iterable[processes.Gpu], visible: object = None) -> Room:
    """Choose the GPUs to prove a release on.

    Args:
        gpus: All of the node; none where nobody can say, and then nothing is left out.
        visible: The engine's own CUDA_VISIBLE_DEVICES, where it has one.
    """
    named = None if visible is None else [name.strip() for name in str(visible).split(",")]
    listed = [gpu for gpu in gpus if named is None or str(gpu.index) in named or gpu.uuid in named]
    full = [gpu for gpu in listed if gpu.free < LEAST_MIB]
    if not full:
        return Room()
    free = [gpu.uuid for gpu in listed if gpu.free >= LEAST_MIB]
    said = [
        f"GPU {gpu.index} is left out of the proof: {gpu.free} MiB of it are free, and beside what "
        f"runs there it takes {LEAST_MIB}"
        for gpu in full
    ]
    return Room({_VISIBLE: ",".join(free)}, said, none=not free)


def read(environment: Mapping[str, object]) -> Room:
    """The same for this node and the engine's variables."""
    return choose(processes.read_gpus()[0], environment.get(_VISIBLE))
