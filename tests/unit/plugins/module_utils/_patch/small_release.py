# SPDX-License-Identifier: Apache-2.0
"""A small release of the same shape as the real ones, and the runs that patch it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._patch.run import Request, Result, run

CATALOGUE = yaml.safe_load(
    (Path(__file__).parents[5] / "roles/source_patches/files/catalogue.yml").read_text("utf-8")
)
KIMI, SIZES, WORLD = (entry["id"] for entry in CATALOGUE)
KIMI_FILE, SIZES_FILE, WORLD_FILE = (entry["file"] for entry in CATALOGUE)

MODEL = """\
class DeepseekV3ForCausalLM:
    def set_eagle3_layers_to_capture(self, ids=None): return ids
    def get_embed_and_head(self): return 1, 2
    def set_embed_and_head(self, embed, head): return None


class KimiK25ForConditionalGeneration:
    def __init__(self):
        self.language_model = DeepseekV3ForCausalLM()
"""
TABLES = (
    "MiB = 1024 * 1024\n\nTORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES = {\n    10: {8: 128 * MiB},\n}\n"
)
COMMUNICATOR = """\
import logging

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as torch_symm_mem
from sglang.srt.distributed.device_communicators.all_reduce_utils import (
    TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES,
)


class TorchSymmMemCommunicator:
    _WORLD_SIZES_MULTIMEM = {
        10: [6, 8],
    }

    def __init__(self, group, device):
        self.disabled = True
        self.device = torch.device(device)
        self.capability = torch.cuda.get_device_capability(device)[0]
        self.world_size = dist.get_world_size(group)
        size = TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES[self.capability][self.world_size]
        self.buffer = torch_symm_mem.empty(size // 2, device=self.device, dtype=torch.bfloat16)
        if torch_symm_mem.rendezvous(self.buffer, group.group_name).multicast_ptr == 0:
            logging.warning("multicast is not supported")
            return
        self.disabled = False

    def all_reduce(self, tensor):
        if self.world_size in self._WORLD_SIZES_MULTIMEM[self.capability]:
            torch.ops.symm_mem.multimem_all_reduce_(tensor)
        else:
            torch.ops.symm_mem.two_shot_all_reduce_(tensor)
"""
FILES = {KIMI_FILE: MODEL, SIZES_FILE: TABLES, WORLD_FILE: COMMUNICATOR}


def make_release(folder: Path, version: str = "0.5.9", **files: str) -> Path:
    package = folder / "sglang"
    contents = {**FILES, "_version.py": f"__version__ = '{version}'\n", **files}
    for name, text in contents.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def go(package: Path, **changes: Any) -> Result:
    return run(Request(root=str(package), shipped_catalog=CATALOGUE, **changes))


def states(result: Result) -> dict[str, str]:
    return {outcome.id: outcome.state for outcome in result.outcomes}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
