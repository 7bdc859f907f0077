# SPDX-License-Identifier: Apache-2.0
"""What classes have, lack, and would gain: the shapes of wrappers that releases really have."""

from __future__ import annotations

import gc
import weakref
from textwrap import dedent

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._contract import (
    ContractError,
    Verdict,
    audit,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import parse_entry
from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.edits import apply_edits
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import Modules

from tests.unit.plugins.module_utils._contract.small_release import (
    INNER,
    WRAPPER,
    release,
)

Files = dict[str, str | bytes | None]
BOTH = ["get_embed_and_head", "set_eagle3_layers_to_capture"]
PLAIN = "PlainForConditionalGeneration"
PATH = "srt/models/plain.py"
HEAD = "from torch import nn\nfrom sglang.srt.models.inner import InnerForCausalLM\n"


def verdict(text: str | bytes, files: Files | None = None, name: str = PLAIN) -> Verdict:
    return audit(release({PATH: text, **(files or {})}), "EAGLE3", name).one(name)


def wrapper(body: str, head: str = "", bases: str = "nn.Module") -> str:
    """A wrapper class with this body."""
    inside = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return f"{HEAD}{dedent(head)}\n\nclass {PLAIN}({bases}):\n{inside}\n\nEntryClass = {PLAIN}\n"


def missing(found: Verdict) -> list[str]:
    return [gap.member for gap in found.missing]


def unknown(found: Verdict) -> list[str]:
    return [gap.member for gap in found.unknown]


SETUP = "def __init__(self, config):\n    super().__init__()\n"


def test_a_plain_wrapper_and_the_entry_that_mends_it() -> None:
    found = verdict(WRAPPER)
    assert found.verdict == "missing"
    assert missing(found) == list(found.required) == BOTH
    assert found.missing[0].sites[0].at == "srt/speculative/worker.py:8"
    assert found.delegation_fixes is True
    assert found.entry == {
        "id": "plain_eagle3_delegation",
        "title": f"{PLAIN} answers the EAGLE3 calls for its self.language_model",
        "file": PATH,
        "rule": {
            "kind": "ensure_delegating_methods",
            "class": PLAIN,
            "target": "language_model",
            "methods": ["get_embed_and_head()", "set_eagle3_layers_to_capture(layer_ids=None)"],
        },
    }


def test_the_entry_applied_leaves_nothing_missing() -> None:
    files = release()
    entry = audit(files, "EAGLE3", PLAIN).one(PLAIN).entry
    decision = decide(parse_entry(entry, ()), files.read)
    assert decision.state == "needed"
    files.files[PATH] = apply_edits(files.files[PATH], decision.edits)
    assert audit(files, "EAGLE3", PLAIN).one(PLAIN).verdict == "ok"


def test_the_entry_in_yaml_is_the_entry() -> None:
    import yaml

    found = verdict(WRAPPER).as_dict()
    assert yaml.safe_load(found["catalogue_entry_yaml"]) == [found["catalogue_entry"]]


def test_the_short_form_of_reports() -> None:
    assert verdict(WRAPPER).summary() == {
        "algorithm": "EAGLE3",
        "missing": BOTH,
        "required": BOTH,
        "delegation_fixes": True,
        "unknown": [],
    }


def test_all_counts_wrappers_and_leaves_out_drafts_and_text_models() -> None:
    """Traps 11 and 12: a list or one class, names without a class, heads of a draft beside them."""
    files: Files = {
        "srt/models/more.py": """
        from torch import nn
        class WithMark(nn.Module):
            def pad_input_ids(self, ids, inputs): ...
            def get_embed_and_head(self): return self.x, self.y
            def set_eagle3_layers_to_capture(self, layer_ids): self.z = 1
        class PlainNextN(WithMark): pass
        class PlainMTP(WithMark): pass
        EntryClass = [WithMark, PlainNextN, PlainMTP]
        """,
        "srt/models/broken.py": "EntryClass = [\n",
        "srt/models/folder/deep.py": "class Deep:\n    pass\n\nEntryClass = Deep\n",
        "srt/configs/model_config.py": """
        OTHERS = ("GoneForCausalLM",)
        multimodal_model_archs = ["PlainForConditionalGeneration", *OTHERS]
        """,
    }
    found = audit(release(files), "EAGLE3")
    assert {v.architecture: v.verdict for v in found.verdicts} == {
        PLAIN: "missing",
        "WithMark": "ok",
    }
    assert found.counts == {"classes": 2, "ok": 1, "missing": 1, "unknown": 0}
    assert found.without_class == ("GoneForCausalLM",)


def test_a_class_that_the_release_does_not_register() -> None:
    with pytest.raises(ContractError, match="registers no model class Gone"):
        audit(release(), "EAGLE3", "Gone")


def test_a_byte_order_mark() -> None:
    """Trap 1."""
    assert missing(verdict(b"\xef\xbb\xbf" + dedent(WRAPPER).encode())) == BOTH


def test_getattr_that_forwards_counts_as_far_as_the_inner_class_does() -> None:
    """Trap 2: a wrapper that is no torch module and imports its inner class inside __init__."""
    forwarding = """
    def __init__(self, config):
        from sglang.srt.models.inner import InnerForCausalLM as Late
        self.inner = Late(config)
    def __getattr__(self, name):
        return getattr(self.inner, name)
    """
    assert verdict(wrapper(forwarding, bases="")).verdict == "ok"
    unclear = forwarding.replace("Late(config)", "CLASSES.get(config.version)(config)")
    assert unknown(verdict(wrapper(unclear, bases=""))) == BOTH
    picky = forwarding.replace(
        "return getattr", "if name in self.known:\n            return getattr"
    )
    assert unknown(verdict(wrapper(picky, bases=""))) == BOTH


def test_setattr_that_drops_what_is_set() -> None:
    """Trap 3."""
    dropped = SETUP + (
        "    self.get_embed_and_head = make()\n"
        "def __setattr__(self, name, value):\n"
        "    if name == 'get_embed_and_head':\n        return\n"
        "    super().__setattr__(name, value)\n"
        "def set_eagle3_layers_to_capture(self, ids):\n    self.x = ids\n"
    )
    assert unknown(verdict(wrapper(dropped))) == ["get_embed_and_head"]
    prop = dropped + "@property\ndef get_embed_and_head(self):\n    return self.language_model.y\n"
    assert verdict(wrapper(prop)).verdict == "ok"


OTHER = """
from torch import nn
class OtherForCausalLM(nn.Module):
    def get_embed_and_head(self): return self.x, self.y
"""


@pytest.mark.parametrize(
    ("body", "fixes", "said"),
    [
        (
            SETUP + "    if config.x:\n        self.language_model = InnerForCausalLM(config)\n"
            "    else:\n        self.language_model = OtherForCausalLM(config)\n",
            None,
            "may be of several classes",
        ),
        (
            SETUP + "    self.language_model = config.pick()(config)\n",
            None,
            "chosen by config.pick()",
        ),
        (
            SETUP.replace("config", "config, language_model_cls=OtherForCausalLM")
            + "    self.model = language_model_cls(config)\n",
            None,
            "given by whoever makes the object",
        ),
        (
            SETUP + "    self.llm = self.init_llm(config)\n"
            "def init_llm(self, config):\n    return InnerForCausalLM(config)\n",
            True,
            "is a InnerForCausalLM",
        ),
        (SETUP + "    self.thinker = InnerForCausalLM(config)\n", True, "self.thinker"),
        (SETUP + "    self.model = OtherForCausalLM(config)\n", False, "lacks it too"),
        (SETUP + "    self.layers = [1, 2]\n", False, "holds no object"),
    ],
    ids=["chain", "computed", "default", "method", "name", "headless", "none"],
)
def test_inner_models(body: str, fixes: bool | None, said: str) -> None:
    """Traps 4, 6, 7 and 8: which class the inner object is of, and whether it helps."""
    head = "from sglang.srt.models.other import OtherForCausalLM\n"
    found = verdict(wrapper(body, head), {"srt/models/other.py": OTHER})
    assert missing(found) == BOTH
    assert found.delegation_fixes is fixes
    assert any(gap.remedy and said in gap.remedy.reason for gap in found.missing), found.missing
    assert (found.entry is not None and "set_eagle3_layers_to_capture(layer_ids=None)"
            in found.entry["rule"]["methods"]) is (fixes is True)  # fmt: skip


def test_bases_in_other_files_and_constructors_that_are_skipped() -> None:
    """Trap 5."""
    parents = """
    from torch import nn
    class Grand(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.get_embed_and_head = config.x
        def set_eagle3_layers_to_capture(self, ids): self.ids = ids
    class Parent(Grand):
        def __init__(self, config):
            super().__init__(config)
    """
    head = "from sglang.srt.models.parents import Parent\n"
    through = wrapper("def __init__(self, c):\n    super().__init__(c)\n", head, "Parent")
    assert verdict(through, {"srt/models/parents.py": parents}).verdict == "ok"
    skipped = wrapper("def __init__(self, c):\n    nn.Module.__init__(self)\n", head, "Parent")
    found = verdict(skipped, {"srt/models/parents.py": parents})
    assert missing(found) == ["get_embed_and_head"]


def test_an_inner_model_that_lacks_one_of_them_is_no_remedy() -> None:
    """Trap 8: forwarding would pass hasattr and fail inside."""
    half = INNER.replace("set_eagle3_layers_to_capture", "something_else")
    found = verdict(WRAPPER, {"srt/models/inner.py": half})
    assert found.delegation_fixes is False
    answers = {gap.member: gap.remedy.delegation for gap in found.missing if gap.remedy}
    assert answers == {"get_embed_and_head": "yes", "set_eagle3_layers_to_capture": "no"}
    assert found.entry is not None
    assert found.entry["rule"]["methods"] == ["get_embed_and_head()"]


def test_an_inner_attribute_is_not_supplied_by_a_method() -> None:
    attribute = INNER.replace(
        "    def get_embed_and_head(self):\n        return self.model.embed, self.lm_head.weight\n",
        "    @property\n    def get_embed_and_head(self):\n        return 1\n",
    )
    found = verdict(WRAPPER, {"srt/models/inner.py": attribute})
    reasons = [gap.remedy.reason for gap in found.missing if gap.remedy]
    assert "as an attribute" in reasons[0]


def test_a_signature_that_a_catalogue_cannot_hold_forwards_everything() -> None:
    fancy = INNER.replace(
        'layer_ids: "list[int] | None" = None', "layer_ids=DEFAULT_LAYERS, *, x: int = 3"
    )
    entry = verdict(WRAPPER, {"srt/models/inner.py": fancy}).entry
    assert entry is not None
    assert "set_eagle3_layers_to_capture(*args, **kwargs)" in entry["rule"]["methods"]


def test_defaults_guards_and_another_way_round_a_member() -> None:
    """Trap 9: getattr with a default asks nothing; a handler may need something else."""
    worker = """
    class Worker:
        def __init__(self, server_args, target_worker):
            target_model = target_worker.model_runner.model
            self.head = getattr(target_model, "lm_head", None)
            self.share(target_model)

        def share(self, target_model):
            try:
                if hasattr(target_model, "get_embed_and_head_for_draft"):
                    return target_model.get_embed_and_head_for_draft()
                return target_model.get_embed_and_head()
            except AttributeError:
                if not self.is_missing(target_model):
                    raise
                return None, target_model.lm_head

        def is_missing(self, target_model):
            return any(target_model.named_modules())
    """
    files: Files = {"srt/speculative/worker.py": worker}
    found = verdict(WRAPPER, files)
    assert missing(found) == BOTH
    assert {"lm_head", "get_embed_and_head_for_draft"} <= set(found.optional)
    spared = wrapper(
        "def get_embed_and_head_for_draft(self): return self.a\n"
        "def set_eagle3_layers_to_capture(self, ids): self.b = ids\n"
    )
    assert verdict(spared, files).verdict == "ok"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("@property\ndef asked(self):\n    return self.x", "ok"),
        (SETUP + "    self.asked = nn.Linear(1, 1)", "ok"),
        (SETUP + "    if x:\n        self.asked = 1\n    else:\n        self.asked = 2", "ok"),
        (SETUP + "    if config.x:\n        self.asked = 1", "unknown"),
        ("def later(self):\n    self.asked = 1", "unknown"),
        ("if FLAG:\n    def asked(self): return self.x", "unknown"),
        ("try:\n    asked = A\nexcept ValueError:\n    asked = B", "ok"),
        ("def asked(self):\n    raise NotImplementedError", "missing"),
        ("# def asked(self): ...\nx = 'asked'", "missing"),
    ],
)  # fmt: skip
def test_properties_attributes_and_conditional_definitions(body: str, expected: str) -> None:
    """Trap 13."""
    worker = """
    class Worker:
        def __init__(self, server_args, target_worker):
            x = target_worker.model_runner.model.asked
    """
    both = (
        "\ndef get_embed_and_head(self): return self.x\n"
        "def set_eagle3_layers_to_capture(self, ids): self.b = ids\n"
    )
    found = verdict(wrapper(body + both), {"srt/speculative/worker.py": worker})
    assert found.verdict == expected


def test_names_of_torch_modules_and_of_known_bases_elsewhere() -> None:
    worker = """
    class Worker:
        def __init__(self, server_args, target_worker):
            m = target_worker.model_runner.model
            m.named_modules(), m.get_input_embeddings(), m.invented(), m.__class__
    """
    files: Files = {"srt/speculative/worker.py": worker}
    both = "def set_eagle3_layers_to_capture(self, ids): self.b = ids\n"
    assert missing(verdict(wrapper(both), files)) == ["get_input_embeddings", "invented"]
    known = "from transformers import PreTrainedModel\n"
    found = verdict(wrapper(both, known, "PreTrainedModel"), files)
    assert missing(found) == ["invented"]
    other = "from elsewhere import Base\n"
    found = verdict(wrapper(both, other, "Base"), files)
    assert not missing(found)
    assert unknown(found) == ["get_input_embeddings", "invented", "named_modules"]


def test_a_constant_cannot_be_called() -> None:
    found = verdict(
        wrapper("get_embed_and_head = None\ndef set_eagle3_layers_to_capture(self): return self.x")
    )
    assert missing(found) == ["get_embed_and_head"]
    assert "cannot be called" in found.missing[0].why


def test_a_wrapper_whose_entry_the_patch_engine_refuses_says_so() -> None:
    text = dedent(WRAPPER).replace(
        "    def pad_input_ids(self, ids, inputs):\n        return ids\n",
        "    def __setattr__(self, name, value):\n        if name != 'language_model':\n"
        "            super().__setattr__(name, value)\n",
    )
    found = verdict(text)
    assert found.entry is None
    assert "the patch engine refuses it" in found.note
    assert found.delegation_fixes is False


@pytest.mark.parametrize("collecting", [True, False])
def test_an_audit_leaves_the_collector_as_it_was_and_nothing_for_it(collecting: bool) -> None:
    """The trees of a release take hundreds of MB; several releases are audited in one process."""
    reads = release({PATH: WRAPPER})
    modules = Modules(reads.read)
    gone = weakref.ref(modules)
    was = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        found = audit(reads, "EAGLE3", PLAIN, modules=modules)
        assert gc.isenabled() is collecting
        assert gc.get_freeze_count() == 0
        gc.disable()
        del modules
        assert found.one(PLAIN).verdict == "missing"
        assert gone() is None
    finally:
        (gc.enable if was else gc.disable)()
