# SPDX-License-Identifier: Apache-2.0
"""Does a model class have what the engine asks for: yes with its place, no, or not certain."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import Program
from ansible_collections.sm120.sglang.plugins.module_utils._patch.classes import (
    PLAIN_BASES,
    Member,
    Missing,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    External,
    Unknown,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.objects import (
    given_to_objects,
    settles,
)

# What every torch module has (torch.nn.Module, as documented for 2.9 to 2.14) of the names that
# engines ask models for.
_MODULE = "torch.nn.Module", "nn.Module", "torch.nn.modules.module.Module"
NN_MODULE = frozenset(
    {
        "add_module", "apply", "bfloat16", "buffers", "children", "cpu", "cuda", "double", "eval",
        "extra_repr", "float", "forward", "get_buffer", "get_parameter", "get_submodule", "half",
        "load_state_dict", "modules", "named_buffers", "named_children", "named_modules",
        "named_parameters", "parameters", "register_buffer", "register_forward_hook",
        "register_forward_pre_hook", "register_module", "register_parameter", "requires_grad_",
        "set_submodule", "state_dict", "to", "train", "training", "type", "zero_grad",
    }
)  # fmt: skip

# Bases from other packages whose names are known: transformers' model base, as read from
# transformers 4.57.6 and 5.12.1 (modeling_utils.py). Neither knows any call of the engine's own.
_OUTSIDE = {
    "transformers.PreTrainedModel": frozenset(
        {
            "base_model", "can_generate", "config_class", "device", "dtype", "dummy_inputs",
            "from_pretrained", "get_decoder", "get_input_embeddings", "get_output_embeddings",
            "init_weights", "loss_function", "main_input_name", "num_parameters", "post_init",
            "resize_token_embeddings", "save_pretrained", "set_decoder", "set_input_embeddings",
            "set_output_embeddings", "tie_weights",
        }
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Has:
    """An answer.

    Attributes:
        present: None where the sources do not tell.
        why: ``file:line`` and what stands there, or why it is not certain.
        callable: it may be called; an attribute of unknown kind may.
        node: its definition, None where there is none.
        forwarded: by ``__getattr__``, so the answer is that of an inner object.
    """

    present: bool | None
    why: str
    callable: bool = True
    node: ast.AST | None = None
    forwarded: bool = False


class Members:
    """Answers for the classes of one release, each question once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._answers: dict[tuple[ast.ClassDef, str], Has] = {}

    def has(self, ref: ClassRef, name: str) -> Has:
        """Whether objects of a class have something under a name."""
        key = (ref.node, name)
        if key not in self._answers:
            self._answers[key] = self._find(ref, name)
        return self._answers[key]

    def _find(self, ref: ClassRef, name: str) -> Has:
        if name.startswith("__") and hasattr(object, name):
            return Has(True, "every object has it")
        answer = self.program.classes.find(ref, name)
        if isinstance(answer, Missing):
            return self._set_somewhere(ref, name) or self._module(ref, name)
        return (
            self._present(ref, name, answer)
            if isinstance(answer, Member)
            else self._doubtful(ref, name, answer.reason)
        )

    def _present(self, ref: ClassRef, name: str, answer: Member) -> Has:
        where = f"{answer.at} {answer.owner}"
        if answer.kind == "getattr":
            return Has(None, f"{where}.__getattr__ hands it to an inner object", forwarded=True)
        if answer.kind == "stub":
            return Has(False, f"{where}.{name} has no body")
        if isinstance(answer.node, (ast.Assign, ast.AnnAssign)) and _on_self(answer.node):
            drops = settles(self.program.classes, ref, name)
            if drops:
                return Has(None, drops)
            return Has(True, f"{where}.__init__ sets {name}", answer.kind != "value")
        return Has(True, f"{where}.{name} ({answer.kind})", answer.kind != "value", answer.node)

    def _outside(self, ref: ClassRef) -> set[str]:
        """Bases that are not of the release, torch's module and the like aside."""
        found: set[str] = set()
        for item in self.program.line(ref):
            for base in item.node.bases:
                meaning = self.program.modules.resolve(item.module, base)
                if isinstance(meaning, Unknown):
                    found.add(f"?{meaning.reason}")
                elif isinstance(meaning, External) and meaning.name not in PLAIN_BASES:
                    found.add(meaning.name)
        return found

    def _beyond(self, ref: ClassRef, name: str, outside: set[str]) -> Has:
        """A name that no class of the release has, but a known base of another package may."""
        given = self._set_somewhere(ref, name)
        if given is not None:
            return given
        for base in sorted(outside):
            if name in _OUTSIDE[base] or name in NN_MODULE:
                return Has(True, f"{base} has it")
        return Has(False, f"neither in {self._shown(ref)} nor in {', '.join(sorted(outside))}")

    def _shown(self, ref: ClassRef) -> str:
        return ", ".join(f"{item.node.name} ({item.at})" for item in self.program.line(ref))

    def _doubtful(self, ref: ClassRef, name: str, reason: str) -> Has:
        outside = self._outside(ref)
        if reason == self.program.classes.line(ref)[1] and outside <= set(_OUTSIDE):
            return self._beyond(ref, name, outside)
        given = self._set_somewhere(ref, name)
        return given if given is not None and given.present else Has(None, reason)

    def _set_somewhere(self, ref: ClassRef, name: str) -> Has | None:
        """An attribute that is set under a condition, or outside ``__init__``."""
        for given in given_to_objects(self.program.classes, ref, name):
            return Has(None, f"{given.at} sets {name}, but not always")
        return None

    def _module(self, ref: ClassRef, name: str) -> Has:
        line = self.program.line(ref)
        if name in NN_MODULE:
            for item in line:
                for base in item.node.bases:
                    meaning = self.program.modules.resolve(item.module, base)
                    if isinstance(meaning, External) and meaning.name in _MODULE:
                        return Has(True, f"{item.at} {item.node.name} is a torch module")
        return Has(False, f"not in {self._shown(ref)}")


def _on_self(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(ast.unparse(target).startswith("self.") for target in targets)
