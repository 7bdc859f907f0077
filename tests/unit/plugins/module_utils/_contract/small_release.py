# SPDX-License-Identifier: Apache-2.0
"""A small release of the engine's shape: dispatch, workers, runner, wrappers."""

from __future__ import annotations

from textwrap import dedent, indent

from ansible_collections.sm120.sglang.plugins.module_utils._contract.dispatch import (
    Demands,
    find_demands,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import Program
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import CallSite

SPEC_INFO = """
from enum import Enum, auto

class SpeculativeAlgorithm(Enum):
    EAGLE = auto()
    EAGLE3 = auto()
    NGRAM = auto()
    NONE = auto()

    @classmethod
    def from_string(cls, name):
        return cls.NONE if name is None else cls[name.upper()]

    def is_none(self):
        return self == SpeculativeAlgorithm.NONE

    def is_eagle(self):
        return self in (SpeculativeAlgorithm.EAGLE, SpeculativeAlgorithm.EAGLE3)

    def is_eagle3(self):
        return self == SpeculativeAlgorithm.EAGLE3

    def is_ngram(self):
        return self == SpeculativeAlgorithm.NGRAM

    def create_worker(self, server_args):
        if self.is_eagle():
            from sglang.srt.speculative.worker import Worker

            return Worker
        elif self.is_ngram():
            from sglang.srt.speculative.ngram import NgramWorker

            return NgramWorker
        raise ValueError("unreachable")
"""

SCHEDULER = """
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

class Scheduler:
    def __init__(self, server_args):
        self.server_args = server_args
        self.spec_algorithm = SpeculativeAlgorithm.from_string(server_args.speculative_algorithm)
        self.init_workers()

    def init_workers(self):
        from sglang.srt.managers.tp_worker import TpModelWorker

        self.tp_worker = TpModelWorker(server_args=self.server_args)
        if self.spec_algorithm.is_none():
            self.draft_worker = None
            return
        kwargs = dict(server_args=self.server_args, target_worker=self.tp_worker)
        worker_class = self.spec_algorithm.create_worker(self.server_args)
        self.draft_worker = worker_class(**kwargs)
"""

TP_WORKER = """
from sglang.srt.model_executor.model_runner import ModelRunner

class TpModelWorker:
    def __init__(self, server_args, is_draft_worker=False):
        self.is_draft_worker = is_draft_worker
        self.server_args = server_args
        self._init_model_runner()

    def _init_model_runner(self):
        self._model_runner = ModelRunner(self.server_args, is_draft_worker=self.is_draft_worker)

    @property
    def model_runner(self):
        return self._model_runner
"""

RUNNER = """
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

class ModelRunner:
    def __init__(self, server_args, is_draft_worker=False):
        self.server_args = server_args
        self.is_draft_worker = is_draft_worker
        self.spec_algorithm = SpeculativeAlgorithm.from_string(server_args.speculative_algorithm)
        self.use_aux = False
        if self.spec_algorithm.is_eagle3() and not self.is_draft_worker:
            self.use_aux = server_args.draft_config.get("use_aux_hidden_state", True)
        self.load_model()
        self.initialize()

    def load_model(self):
        self.model = self.server_args.loader.load_model()

    def initialize(self):
        if self.use_aux:
            self.model.set_eagle3_layers_to_capture()
        if self.server_args.enable_eplb:
            self.model.weights_of_experts()
"""

WORKER = """
from sglang.srt.managers.tp_worker import TpModelWorker

class Worker:
    def __init__(self, server_args, target_worker):
        self.target_worker = target_worker
        self.draft_worker = TpModelWorker(server_args, is_draft_worker=True)
        embed, head = self.target_worker.model_runner.model.get_embed_and_head()
        self.draft_worker.model_runner.model.set_embed_and_head(embed, head)
"""

NGRAM = """
class NgramWorker:
    def __init__(self, server_args, target_worker):
        self.target_worker = target_worker
        self.model_runner = target_worker.model_runner

    def forward(self, batch):
        return self.target_worker.forward(batch)
"""

WRAPPER = """
from torch import nn
from sglang.srt.models.inner import InnerForCausalLM

class PlainForConditionalGeneration(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.vision_tower = nn.Linear(1, 1)
        self.language_model = InnerForCausalLM(config)

    def pad_input_ids(self, ids, inputs):
        return ids

EntryClass = [PlainForConditionalGeneration]
"""

INNER = """
from torch import nn

class InnerForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.lm_head = nn.Linear(1, 1)

    def get_embed_and_head(self):
        return self.model.embed, self.lm_head.weight

    def set_eagle3_layers_to_capture(self, layer_ids: "list[int] | None" = None):
        self.layers = layer_ids

EntryClass = InnerForCausalLM
"""

CONFIG = 'multimodal_model_archs = ["PlainForConditionalGeneration", "GoneForCausalLM"]\n'

FILES = {
    "srt/speculative/spec_info.py": SPEC_INFO,
    "srt/speculative/worker.py": WORKER,
    "srt/speculative/ngram.py": NGRAM,
    "srt/managers/scheduler.py": SCHEDULER,
    "srt/managers/tp_worker.py": TP_WORKER,
    "srt/model_executor/model_runner.py": RUNNER,
    "srt/models/plain.py": WRAPPER,
    "srt/models/inner.py": INNER,
    "srt/configs/model_config.py": CONFIG,
}


class Memory:
    """Files of a release in memory."""

    def __init__(self, **changes: str) -> None:
        self.files = {path: dedent(text).encode() for path, text in FILES.items()}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def names(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))


def release(files: dict[str, str | bytes | None] | None = None) -> Memory:
    """The small release, with files put in its place or, for None, taken away."""
    memory = Memory()
    for path, text in (files or {}).items():
        if text is None:
            memory.files.pop(path, None)
        else:
            memory.files[path] = text if isinstance(text, bytes) else dedent(text).encode()
    return memory


def worker(body: str, extra: str = "", methods: str = "") -> str:
    """A worker file.

    Args:
        body: what the constructor does behind the usual setup.
        extra: more of the module.
        methods: more methods of the worker.
    """
    head = dedent(WORKER).split("        embed, head", maxsplit=1)[0]
    inside = indent(dedent(body).strip(), " " * 8)
    more = indent(dedent(methods).strip(), " " * 4)
    return f"{head}{inside}\n\n{more}\n\n{dedent(extra)}"


def demands(files: dict[str, str | bytes | None], algorithm: str = "EAGLE3") -> Demands:
    """What the small release with other files asks."""
    return find_demands(Program(release(files)), algorithm)


def sites(
    files: dict[str, str | bytes | None], member: str, algorithm: str = "EAGLE3"
) -> list[CallSite]:
    """The places that ask for one member."""
    return [site for site in demands(files, algorithm).sites if site.member == member]


def site(body: str, extra: str = "", methods: str = "") -> CallSite:
    """The one place in a worker that asks for the invented member."""
    files: dict[str, str | bytes | None] = {
        "srt/speculative/worker.py": worker(body, extra, methods)
    }
    (found,) = sites(files, "invented")
    return found
