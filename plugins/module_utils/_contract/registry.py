# SPDX-License-Identifier: Apache-2.0
"""The model classes that a release registers, and which of them wrap a language model."""

from __future__ import annotations

import ast
import re

from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    ContractError,
    Program,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.classes import Member
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import SourceError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import flat

MODELS = "srt/models/"
_LIST = "multimodal_model_archs"
_LIST_HOME = "srt/configs/model_config.py"
_ENTRY = b"EntryClass"
# Heads of a draft model share files and methods with their targets.
_DRAFT = re.compile(r"NextN|MTP(?![a-z])|Eagle|DFlash|DSpark|DraftModel")
# Every wrapper replaces its image tokens by this method (0.5.9 models/kimi_k25.py:718).
_MARK = "pad_input_ids"


class Registry:
    """Looks for registered classes; only top-level modules count (0.5.9 models/registry.py:77)."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def _paths(self) -> list[str]:
        names = self.program.reads.names(MODELS)
        return [n for n in names if n.endswith(".py") and "/" not in n.removeprefix(MODELS)]

    def find(self, architecture: str) -> ClassRef:
        """The class behind an architecture's name.

        Raises:
            ContractError: the release registers none, or its file cannot be read.
        """
        name = architecture.encode()
        for path in sorted(self._paths(), key=lambda path: not _named_alike(path, architecture)):
            data = self.program.modules.data(path) or b""
            if _ENTRY in data and name in data:
                found = self._in_file(path).get(architecture)
                if found is not None:
                    return found
        raise ContractError(
            f"this release registers no model class {architecture} in srt/models",
            "check the architecture in the model's config.json, or take a release that has it",
        )

    def _in_file(self, path: str) -> dict[str, ClassRef]:
        """The registered classes of a file; one class or a list of them.

        A file that is not Python here registers nothing, as in the engine itself, which logs the
        import error and goes on.
        """
        try:
            source = self.program.modules.source(path)
        except SourceError:
            return {}
        found: dict[str, ClassRef] = {}
        module = self.program.modules.name_of(path)
        for statement, _ in flat(source.tree.body if source else ()):
            value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            if value is None or not any(getattr(t, "id", "") == "EntryClass" for t in targets):
                continue
            for item in value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]:
                meaning = self.program.modules.resolve(module, item)
                if isinstance(meaning, ClassRef):
                    found[meaning.node.name] = meaning
        return found

    def wrappers(self) -> tuple[dict[str, ClassRef], list[str]]:
        """The multimodal wrappers of a release.

        Returns:
            The classes by architecture, and the architectures that the release lists as multimodal
            without registering a class for them.
        """
        listed = self.listed()
        found: dict[str, ClassRef] = {}
        for path in self._paths():
            if _ENTRY not in (self.program.modules.data(path) or b""):
                continue
            for name, ref in self._in_file(path).items():
                if _DRAFT.search(name):
                    continue
                if name in listed or self._marked(ref):
                    found[name] = ref
        return dict(sorted(found.items())), sorted(listed - set(found))

    def _marked(self, ref: ClassRef) -> bool:
        return isinstance(self.program.classes.find(ref, _MARK), Member)

    def listed(self) -> set[str]:
        """The release's own list of multimodal architectures, imported constants unpacked."""
        try:
            source = self.program.modules.source(_LIST_HOME)
        except SourceError:
            return set()
        if source is None:
            return set()
        module = self.program.modules.name_of(_LIST_HOME)
        return set(self._texts(module, ast.Name(_LIST, ast.Load()), 0))

    def _texts(self, module: str, node: ast.AST, hops: int) -> list[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        if isinstance(node, ast.Starred):
            return self._texts(module, node.value, hops)
        if isinstance(node, ast.Call) and node.args:
            return self._texts(module, node.args[0], hops)
        if isinstance(node, ast.Name) and hops < 5:
            found = self.program.global_value(module, node.id)
            return self._texts(*found, hops + 1) if isinstance(found, tuple) else []
        items = getattr(node, "elts", [])
        return [text for item in items for text in self._texts(module, item, hops)]


def _named_alike(path: str, architecture: str) -> bool:
    """Where to look first: ``kimi_k25.py`` for ``KimiK25ForConditionalGeneration``."""
    stem = path.rsplit("/", 1)[-1].removesuffix(".py").replace("_", "")
    return architecture.lower().startswith(stem)
