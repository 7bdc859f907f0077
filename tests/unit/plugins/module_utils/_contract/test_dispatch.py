# SPDX-License-Identifier: Apache-2.0
"""Which worker an algorithm has, and what only that algorithm asks, from the release's own code."""

from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._contract.algorithm import (
    find_algorithms,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    ContractError,
    Program,
)

from tests.unit.plugins.module_utils._contract.small_release import (
    RUNNER,
    SCHEDULER,
    SPEC_INFO,
    WORKER,
    Memory,
    demands,
    release,
    sites,
    worker,
)

EAGLE3 = {"get_embed_and_head", "set_eagle3_layers_to_capture"}


def speculative(algorithm: str, files: dict[str, str | bytes | None] | None = None) -> set[str]:
    found = demands(files or {}, algorithm).sites
    return {s.member for s in found if s.scope == "speculation" and s.need == "required"}


@pytest.mark.parametrize(
    ("algorithm", "worker_class", "required"),
    [
        ("EAGLE3", "Worker", EAGLE3),
        ("eagle3", "Worker", EAGLE3),
        ("EAGLE", "Worker", {"get_embed_and_head"}),
        ("NGRAM", "NgramWorker", set()),
    ],
)
def test_each_algorithm_by_its_own_branch(
    algorithm: str, worker_class: str, required: set[str]
) -> None:
    found = demands({}, algorithm)
    assert [ref.node.name for ref in found.workers] == [worker_class]
    assert speculative(algorithm) == required


def test_what_every_launch_may_ask_is_not_asked_by_speculation() -> None:
    (found,) = sites({}, "weights_of_experts")
    assert (found.scope, found.need) == ("engine", "required")
    assert found.when == ("self.server_args.enable_eplb",)


def test_a_method_invented_in_a_renamed_worker_file_is_found() -> None:
    renamed = SPEC_INFO.replace("speculative.worker import", "speculative.brand_new import")
    files: dict[str, str | bytes | None] = {
        "srt/speculative/worker.py": None,
        "srt/speculative/brand_new.py": WORKER.replace("get_embed_and_head()", "invented_x()"),
        "srt/speculative/spec_info.py": renamed,
    }
    assert "invented_x" in speculative("EAGLE3", files)
    assert "get_embed_and_head" not in speculative("EAGLE3", files)


def test_a_worker_that_no_branch_makes_asks_nothing() -> None:
    files: dict[str, str | bytes | None] = {
        "srt/speculative/other.py": WORKER.replace("get_embed_and_head()", "invented_x()")
    }
    assert "invented_x" not in {s.member for s in demands(files).sites}


def test_a_flag_kept_in_an_object_of_its_own_decides() -> None:
    """As from 0.5.16 on: the runner's flags live in a struct that a function fills."""
    runner = RUNNER.replace(
        """        self.use_aux = False
        if self.spec_algorithm.is_eagle3() and not self.is_draft_worker:
            self.use_aux = server_args.draft_config.get("use_aux_hidden_state", True)
""",
        """        self.aux = resolve(server_args=server_args, algorithm=self.spec_algorithm)
""",
    ).replace("if self.use_aux:", "if self.aux.use_aux:")
    runner += """

class Aux(Struct):
    use_aux: bool = False


def resolve(*, server_args, algorithm):
    config = Aux()
    fill_for_no_algorithm(config, server_args, algorithm)
    fill(config, server_args, algorithm)
    return config


def fill_for_no_algorithm(config, server_args, algorithm):
    if server_args.method is None or not algorithm.is_none():
        return
    config.use_aux = True


def fill(config, server_args, algorithm):
    if not algorithm.is_eagle():
        return
    if algorithm.is_eagle3():
        config.use_aux = True
        config.use_aux = server_args.draft_config.get("use_aux", True)
"""
    files: dict[str, str | bytes | None] = {"srt/model_executor/model_runner.py": runner}
    assert speculative("EAGLE3", files) == EAGLE3
    assert speculative("EAGLE", files) == {"get_embed_and_head"}
    assert speculative("NGRAM", files) == set()


def test_algorithms_that_are_registered_by_a_call() -> None:
    """As up to 0.5.7: a registry with factories in place of an Enum."""
    registry = """
    class SpeculativeAlgorithm:
        @classmethod
        def from_string(cls, name):
            return cls._registry[name]

        def _has_flag(self, flag):
            return self.value in type(self)._flags[flag]

        def is_none(self):
            return self is SpeculativeAlgorithm.NONE

        def is_eagle(self):
            return self._has_flag("EAGLE")

        def is_eagle3(self):
            return self._has_flag("EAGLE3")

        def create_worker(self, server_args):
            return self.name

        def create_draft_worker(self, **kwargs):
            if self._draft_worker_factory is None:
                return None
            return self._draft_worker_factory(self, **kwargs)

    def _create_eagle(**kwargs):
        overlap = kwargs.pop("overlap", False)
        from sglang.srt.speculative.worker import Worker
        return Worker(**kwargs)

    SpeculativeAlgorithm.register("NONE")
    register("EAGLE", aliases=("NEXTN",), worker_cls=_create_eagle, flags=("EAGLE",))
    register("EAGLE3", worker_cls=_create_eagle, flags=("EAGLE", "EAGLE3"))
    """
    scheduler = SCHEDULER.replace(
        """        worker_class = self.spec_algorithm.create_worker(self.server_args)
        self.draft_worker = worker_class(**kwargs)
""",
        "        self.draft_worker = self.spec_algorithm.create_draft_worker(**kwargs)\n",
    )
    files: dict[str, str | bytes | None] = {
        "srt/speculative/spec_info.py": registry,
        "srt/managers/scheduler.py": scheduler,
    }
    assert demands(files, "NEXTN").algorithm == "EAGLE"
    assert [ref.node.name for ref in demands(files).workers] == ["Worker"]
    assert speculative("EAGLE3", files) == EAGLE3
    assert speculative("EAGLE", files) == {"get_embed_and_head"}


def test_aliases_that_the_arguments_turn_into_an_algorithm() -> None:
    arguments = """
    def check(self):
        if self.speculative_algorithm == "NEXTN":
            self.speculative_algorithm = "EAGLE"
    """
    table = find_algorithms(Program(release({"srt/server_args.py": arguments})))
    assert table.resolve("nextn") == "EAGLE"


def test_an_algorithm_that_the_release_does_not_have() -> None:
    with pytest.raises(ContractError, match="no speculative algorithm DFLASH") as caught:
        demands({}, "DFLASH")
    assert "EAGLE, EAGLE3, NGRAM" in caught.value.remedy


def test_a_dispatch_that_cannot_be_read_is_said_and_not_guessed() -> None:
    hidden = SPEC_INFO.replace("return Worker\n", "return load_plugin(server_args)\n")
    found = demands({"srt/speculative/spec_info.py": hidden})
    assert found.workers == ()
    assert "the worker that EAGLE3 uses could not be told" in found.doubts[0]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"srt/speculative/spec_info.py": None}, "no table of speculative algorithms"),
        ({"srt/managers/scheduler.py": None}, "makes its speculative worker is not found"),
        ({"srt/managers/scheduler.py": "class Scheduler:\n    pass\n"}, "is not found"),
    ],
)
def test_a_release_of_another_shape_is_refused(
    files: dict[str, str | bytes | None], message: str
) -> None:
    with pytest.raises(ContractError, match=message):
        demands(files)


def test_a_release_of_nothing() -> None:
    empty = Memory()
    empty.files.clear()
    with pytest.raises(ContractError, match="no table of speculative algorithms"):
        find_algorithms(Program(empty))


def test_recursion_and_loops_come_to_an_end() -> None:
    body = "self.chain = []\nself.step(self.target_worker, 0)"
    methods = """
    def step(self, target, depth):
        self.chain = [self.chain, (self.chain, target)]
        while depth < 10:
            target = target or self.chain[0]
            self.step(target, depth + 1)
        self.step(self.chain, depth)
        target.model_runner.model.invented()
    """
    files: dict[str, str | bytes | None] = {
        "srt/speculative/worker.py": worker(body, methods=methods)
    }
    assert "invented" in speculative("EAGLE3", files)
