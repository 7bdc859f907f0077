# SPDX-License-Identifier: Apache-2.0
"""The contract audit on the real wheels: call sites, verdicts, counts, and the mended class."""

from __future__ import annotations

import ast
import dataclasses
import functools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._contract import (
    ALL,
    Audit,
    ContractError,
    audit,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import Modules
from ansible_collections.sm120.sglang.plugins.module_utils._patch.run import Request, run
from ansible_collections.sm120.sglang.plugins.module_utils._tree import Tree, open_tree
from packaging.version import Version

from tests.releases import wheels
from tests.releases.test_patches import release_parameters

KIMI = "KimiK25ForConditionalGeneration"
KIMI_VL = "KimiVLForConditionalGeneration"
LAYERS, EMBED = "set_eagle3_layers_to_capture", "get_embed_and_head"
SOURCES = re.compile(r"sglang/.*\.py\Z")


@functools.cache
def opened(version: str) -> Tree:
    return open_tree(str(wheels.wheel(version)))


@functools.cache
def parsed(version: str) -> Modules:
    return Modules(opened(version).read)


@functools.cache
def audited(version: str, algorithm: str, architecture: str = ALL) -> Audit:
    return audit(opened(version), algorithm, architecture, modules=parsed(version))


@pytest.fixture(scope="module", params=release_parameters(wheels.FEW_AUDITED))
def release(request: pytest.FixtureRequest) -> Iterator[str]:
    yield str(request.param)
    if request.param not in wheels.FEW_AUDITED:  # a syntax tree is large
        for cache in (opened, parsed, audited):
            cache.cache_clear()


def sites(found: Audit, member: str, how: str | None = None) -> set[str]:
    return {
        site.at.removeprefix("srt/")
        for site in found.demands.sites
        if site.member == member and site.scope == "speculation" and how in {None, site.how}
    }


def needed(release: str, algorithm: str) -> set[str]:
    """What an algorithm needs of a model that has no way of its own round it."""
    return set(audited(release, algorithm, "LlamaForCausalLM").verdicts[0].required)


def test_kimi_k25_lacks_the_contract_in_0_5_9_alone(release: str) -> None:
    version = Version(release)
    if version < Version("0.5.9"):
        with pytest.raises(ContractError, match="registers no model class"):
            audited(release, "EAGLE3", KIMI)
        return
    found = audited(release, "EAGLE3", KIMI)
    verdict = found.one(KIMI)
    assert set(verdict.required) == {LAYERS, EMBED}
    assert verdict.verdict == ("missing" if version == Version("0.5.9") else "ok")
    assert found.demands.workers


def test_what_each_algorithm_needs(release: str) -> None:
    """Facts C2: EAGLE3 both, EAGLE and its alias one, NGRAM and STANDALONE nothing."""
    assert needed(release, "EAGLE3") == {LAYERS, EMBED}
    assert needed(release, "NEXTN") == {EMBED}
    assert needed(release, "NGRAM") == set()
    assert needed(release, "STANDALONE") == set()


def test_dflash_and_frozen_kv_mtp(release: str) -> None:
    if Version(release) < Version("0.5.12"):
        pytest.skip("older than both")
    layers = "set_dflash_layers_to_capture"
    dflash = needed(release, "DFLASH")
    assert {layers, "get_input_embeddings", "lm_head"} <= dflash
    assert dflash <= {layers, "get_input_embeddings", "lm_head", "modules"}
    assert needed(release, "FROZEN_KV_MTP") == {EMBED}


@pytest.mark.releases
def test_every_call_site_of_0_5_9() -> None:
    """Facts C1 and C2, found without a list of names."""
    found = audited("0.5.9", "EAGLE3", KIMI)
    assert sites(found, EMBED) == {
        "speculative/eagle_worker.py:157",
        "speculative/eagle_worker_v2.py:194",
        "speculative/multi_layer_eagle_worker.py:149",
        "speculative/multi_layer_eagle_worker_v2.py:169",
    }
    assert sites(found, LAYERS) == {
        "model_executor/model_runner.py:622",
        "model_executor/model_runner.py:1906",
        "model_executor/cuda_graph_runner.py:365",
    }
    experts = [s for s in found.demands.sites if s.member == "routed_experts_weights_of_layer"]
    assert experts
    assert {site.scope for site in experts} == {"engine"}


@pytest.mark.releases
def test_call_sites_of_0_5_23_in_files_of_their_own() -> None:
    """Facts C1, C2 and C4.9, C4.10: through keyword arguments, a handler, and hasattr."""
    found = audited("0.5.23", "EAGLE3", KIMI)
    setup = "model_executor/model_runner_components/attention_backend_setup.py"
    assert sites(found, LAYERS) == {f"{setup}:{line}" for line in (55, 56, 61)}
    assert sites(found, EMBED) == {"speculative/pp_draft_embedding.py:95"}
    assert sites(found, "lm_head", "getattr_default") == {"speculative/eagle_worker_v2.py:341"}
    assert "lm_head" in found.one(KIMI).optional


@pytest.mark.releases
@pytest.mark.parametrize(
    ("version", "counts", "mended"),
    [
        ("0.5.9", {"classes": 51, "ok": 2, "missing": 47, "unknown": 2}, 22),
        ("0.5.23", {"classes": 92, "ok": 17, "missing": 74, "unknown": 1}, 26),
    ],
)
def test_every_wrapper(version: str, counts: dict[str, int], mended: int) -> None:
    """Facts C3 say 51/2/49 and 94/17/77; each difference is explained in docs/contract.md."""
    found = audited(version, "EAGLE3")
    assert found.counts == counts
    unclear = {v.architecture for v in found.verdicts if v.verdict == "unknown"}
    old = {"MiniCPMV", "Mistral3ForConditionalGeneration"}
    assert unclear == (old if version == "0.5.9" else {"MiniCPMV"})
    assert found.without_class == ("Grok1AForCausalLM", "Grok1VForCausalLM")
    assert sum(v.delegation_fixes is True for v in found.verdicts) == mended
    if version == "0.5.9":
        ok = {v.architecture for v in found.verdicts if v.verdict == "ok"}
        assert ok == {"Llama4ForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"}


@pytest.mark.releases
def test_shapes_that_mislead_are_met_in_the_real_sources() -> None:
    """Facts C4: 2 to 8, each on the class that brought it up."""
    found = audited("0.5.9", "EAGLE3")

    def delegation(name: str) -> set[str]:
        return {gap.remedy.delegation for gap in found.one(name).missing if gap.remedy}

    assert "__getattr__" in found.one("Mistral3ForConditionalGeneration").unknown[0].why
    for chosen in ("InternVLChatModel", "DeepseekVL2ForCausalLM", "LlavaForConditionalGeneration"):
        assert delegation(chosen) == {"unknown"}, chosen
    for name, holder in {
        KIMI_VL: "language_model", "MiniCPMO": "llm", "DotsOCRForCausalLM": "model",
    }.items():  # fmt: skip
        entry = found.one(name).entry
        assert entry is not None
        assert entry["rule"]["target"] == holder
    assert delegation("Qwen2VLForConditionalGeneration") == {"no"}  # a headless backbone
    halves = found.one("NemotronH_Nano_VL_V2")
    assert {gap.member: gap.remedy.delegation for gap in halves.missing if gap.remedy} == {
        EMBED: "yes",
        LAYERS: "no",
    }
    inherited = found.one("Qwen3_5MoeForConditionalGeneration")
    assert [gap.member for gap in inherited.missing] == [LAYERS]


class Changed:
    """A release with some files changed in memory."""

    def __init__(self, tree: Tree, changes: Mapping[str, bytes]) -> None:
        self.tree, self.changes = tree, changes

    def read(self, path: str) -> bytes | None:
        return self.changes.get(path) or self.tree.read(path)

    def names(self, prefix: str = "") -> list[str]:
        mine = {path for path in self.changes if path.startswith(prefix)}
        return sorted({*self.tree.names(prefix), *mine})


@pytest.mark.releases
def test_a_method_invented_in_a_renamed_worker_of_a_real_release() -> None:
    tree = opened("0.5.9")
    spec = tree.read("srt/speculative/spec_info.py")
    worker = tree.read("srt/speculative/eagle_worker.py")
    assert spec is not None
    assert worker is not None
    call = b"self.target_worker.model_runner.model.get_embed_and_head()"
    assert call in worker
    forms = b"""share(target_model=self.target_worker.model_runner.model)
        m = self.target_worker.model_runner.model
        getattr(m, "invented_by_getattr")()
        if not hasattr(m, "invented_by_hasattr"):
            raise RuntimeError("no")
        embed, head = m.invented_directly()"""
    renamed = worker.replace(b"embed, head = " + call, forms)
    renamed += b"\n\ndef share(*, target_model):\n    target_model.invented_by_keyword()\n"
    changes = {
        "srt/speculative/spec_info.py": spec.replace(b"eagle_worker import", b"fresh import"),
        "srt/speculative/fresh.py": renamed,
    }
    found = audit(Changed(tree, changes), "EAGLE3", KIMI)
    invented = {
        f"invented_{form}" for form in ("by_getattr", "by_hasattr", "directly", "by_keyword")
    }
    assert {gap.member for gap in found.one(KIMI).missing} == {LAYERS, EMBED} | invented
    assert sites(found, "invented_directly")
    assert all(at.startswith("speculative/fresh.py") for at in sites(found, "invented_directly"))


@pytest.mark.releases
def test_kimi_vl_of_the_newest_release_gains_the_methods(tmp_path: Path) -> None:
    version = wheels.ALL[-1]
    package = wheels.unpack(version, tmp_path, SOURCES)
    tree = open_tree(str(package))
    before = audit(tree, "EAGLE3", KIMI_VL).one(KIMI_VL)
    assert {gap.member for gap in before.missing} == {LAYERS, EMBED}
    assert before.delegation_fixes is True
    assert before.entry is not None
    request = Request(root=str(package), catalog=[before.entry], patches=[before.entry["id"]])
    (outcome,) = run(request).outcomes
    assert (outcome.state, outcome.changed) == ("needed", True)
    assert outcome.proof is not None
    assert outcome.proof["ok"], outcome.proof
    assert audit(tree, "EAGLE3", KIMI_VL).one(KIMI_VL).verdict == "ok"
    source = ast.parse((package / before.entry["file"]).read_bytes())
    (node,) = [n for n in source.body if isinstance(n, ast.ClassDef) and n.name == KIMI_VL]
    assert {LAYERS, EMBED} <= {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    assert run(dataclasses.replace(request, state="absent")).changed


@pytest.mark.releases
def test_the_real_class_gains_them_on_the_engine_s_own_python() -> None:
    """Needs an environment that can import the engine, named by ``SGLANG_ENGINE_PYTHON``."""
    python = os.environ.get("SGLANG_ENGINE_PYTHON", "")
    if not python:
        pytest.skip("SGLANG_ENGINE_PYTHON is not set")
    venv = Path(python).parents[1]
    verdict = audit(open_tree(str(venv)), "EAGLE3", KIMI_VL).one(KIMI_VL)
    assert verdict.entry is not None
    request = Request(
        root=str(venv),
        catalog=[verdict.entry],
        patches=[verdict.entry["id"]],
        python=python,
        check_mode=True,
    )
    (outcome,) = run(request).outcomes
    assert outcome.proof is not None
    assert outcome.proof["real_class"]["ran"], outcome.proof
    assert not outcome.proof["real_class"]["why"]
