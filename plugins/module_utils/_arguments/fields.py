# SPDX-License-Identifier: Apache-2.0
"""Arguments that a release derives from annotated fields: `tp_size: A[int, Arg(...)] = 1`.

SGLang does so from 0.5.14 on (`srt/arg_groups/arg_utils.py`); from 0.5.20 on the fields stand in
classes below `srt/arg_groups/fields`, which `server_args.py` collects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ansible_collections.sm120.sglang.plugins.module_utils._arguments.declare import declare
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import Argument
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.scope import (
    Scope,
    Unresolved,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.values import Values
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import (
    ClassRef,
    External,
    Modules,
)

METADATA = "sglang.srt.arg_groups.arg_utils"
# Keys of `Arg` that this reader understands (0.5.14 arg_utils.py:53-68, 0.5.23 :59-79). A release
# with a further one may mean something by it that is not read here.
KNOWN_KEYS = frozenset(
    {
        "help", "choices", "aliases", "cli_name", "type_parser", "nargs", "required", "action",
        "action_kwargs", "const", "no_cli", "resolvable", "fallback",
    }
)  # fmt: skip
_ANNOTATED = ("typing.Annotated", "typing_extensions.Annotated")
_MAX_HOPS = 20
_SCALARS = ("str", "int", "float")


class FieldReader:
    """Reads annotated fields.

    Args:
        values: Values of the release.
        gaps: Where to write what cannot be read.
    """

    def __init__(self, values: Values, gaps: list[str]) -> None:
        self.values = values
        self.modules: Modules = values.modules
        self.gaps = gaps

    def arguments(self, owner: ClassRef) -> Iterator[Argument]:
        """The arguments of a class and its bases.

        Args:
            owner: The class.

        Yields:
            One argument a field that has one.
        """
        yield from self._by_name(owner).values()

    def _by_name(self, owner: ClassRef, hops: int = 0) -> dict[str, Argument]:
        """Field to argument; as in a dataclass, a later declaration of a field replaces it."""
        found: dict[str, Argument] = {}
        for base in owner.node.bases:
            meaning = self.modules.resolve(owner.module, base)
            if isinstance(meaning, ClassRef) and hops < _MAX_HOPS:
                found |= self._by_name(meaning, hops + 1)
        scope = Scope(owner.module, owner.source)
        for statement in owner.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                argument = self._field_or_gap(scope, statement, name)
                if argument is not None:
                    found[name] = argument
                else:
                    found.pop(name, None)
        return found

    def _field_or_gap(self, scope: Scope, statement: ast.AnnAssign, name: str) -> Argument | None:
        try:
            return self._field(scope, statement, name)
        except Unresolved as unresolved:
            self.gaps.append(f"{scope.at(statement)}: {name}: {unresolved}")
            return None

    def has_fields(self, owner: ClassRef) -> bool:
        """Whether a class has a field with an annotation of ours."""
        scope = Scope(owner.module, owner.source)
        return any(
            isinstance(statement, ast.AnnAssign) and self._parts(scope, statement.annotation)
            for statement in owner.node.body
        )

    def _parts(self, scope: Scope, annotation: ast.expr) -> list[ast.expr]:
        """What stands in `A[...]`; empty for any other annotation."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except (SyntaxError, ValueError):
                return []
        if not isinstance(annotation, ast.Subscript):
            return []
        meaning = self.modules.resolve(scope.module, annotation.value)
        if not isinstance(meaning, External) or meaning.name not in _ANNOTATED:
            return []
        inner = annotation.slice
        return list(inner.elts) if isinstance(inner, ast.Tuple) else []

    def _field(self, scope: Scope, statement: ast.AnnAssign, name: str) -> Argument | None:
        parts = self._parts(scope, statement.annotation)
        keys = self._metadata(scope, parts[1:]) if parts else None
        if keys is None or self._is_true(keys.get("no_cli")):
            return None
        flag = "--" + name.replace("_", "-")
        if "cli_name" in keys:
            flag = str(self.values.value(scope, keys["cli_name"]))
        aliases: list[str] = []
        if "aliases" in keys:
            found = self.values.value(scope, keys["aliases"])
            aliases = [str(item) for item in self.values.iterate(scope, found)] if found else []
        options = self._options(scope, parts[0], keys)
        if statement.value is None and "required" not in keys and "action" not in keys:
            options["required"] = ast.Constant(True)
        flags = (flag, *aliases)
        return declare(self.values, scope, flags, scope.at(statement), options)

    def _metadata(self, scope: Scope, parts: list[ast.expr]) -> dict[str, ast.expr] | None:
        """The keys of the first `Arg`, or a help alone; None for a field without argument."""
        for part in parts:
            if isinstance(part, ast.Call):
                meaning = self.modules.resolve(scope.module, part.func)
                if not isinstance(meaning, ClassRef) or meaning.node.name != "Arg":
                    continue
                keys = dict(zip(["help", "choices"], part.args, strict=False))
                keys |= {word.arg: word.value for word in part.keywords if word.arg}
                if len(part.args) > 2 or any(word.arg is None for word in part.keywords):
                    raise Unresolved("its metadata is computed")
                return keys
            if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp)):
                return {"help": part}
            if isinstance(part, ast.Name):
                raise Unresolved(f"its metadata is {part.id}, named elsewhere")
        return None

    def _options(
        self, scope: Scope, annotation: ast.expr, keys: dict[str, ast.expr]
    ) -> dict[str, ast.expr]:
        """The keywords that `add_cli_args_from_dataclass` gives to `add_argument`."""
        options: dict[str, ast.expr] = {
            key: keys[key]
            for key in ("help", "choices", "nargs", "required")
            if key in keys and not _is_none(keys[key])
        }
        if "action" in keys and not _is_none(keys["action"]):
            options = {key: keys[key] for key in ("help", "action") if key in keys}
            return {**options, **_pairs(keys.get("action_kwargs"))}
        inner = self._unwrapped(scope, annotation)
        name = ast.unparse(inner.value if isinstance(inner, ast.Subscript) else inner)
        parser = keys.get("type_parser")
        if isinstance(inner, ast.Subscript) and name.rpartition(".")[2] == "Literal":
            items = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
            options.setdefault("choices", ast.copy_location(ast.List(items, ast.Load()), inner))
            first = items[0]
            typed = type(first.value).__name__ if isinstance(first, ast.Constant) else "str"
            options["type"] = parser or ast.Name(typed if typed in _SCALARS else "str", ast.Load())
            options.pop("nargs", None)
        elif name.rpartition(".")[2] in ("list", "List") and parser is None:
            element = ast.unparse(inner.slice) if isinstance(inner, ast.Subscript) else "str"
            options["type"] = ast.Name(element if element in _SCALARS else "str", ast.Load())
            options.setdefault("nargs", ast.Constant("+"))
        elif name == "bool":
            options = {key: options[key] for key in ("help",) if key in options}
            options["action"] = ast.Constant("store_true")
        else:
            options["type"] = parser or ast.Name(name if name in _SCALARS else "str", ast.Load())
        return options

    def _unwrapped(self, scope: Scope, annotation: ast.expr, hops: int = 0) -> ast.expr:
        """The annotation without `Optional`, and behind a name of its module."""
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            parts = [part for part in _union(annotation) if not _is_none(part)]
            return self._unwrapped(scope, parts[0], hops) if len(parts) == 1 else annotation
        if isinstance(annotation, ast.Subscript):
            name = ast.unparse(annotation.value).rpartition(".")[2]
            if name == "Optional":
                return self._unwrapped(scope, annotation.slice, hops)
            if name == "Union" and isinstance(annotation.slice, ast.Tuple):
                parts = [part for part in annotation.slice.elts if not _is_none(part)]
                return self._unwrapped(scope, parts[0], hops) if len(parts) == 1 else annotation
        if isinstance(annotation, ast.Name) and hops < 5:
            for statement in scope.source.tree.body:
                if isinstance(statement, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == annotation.id for t in statement.targets
                ):
                    return self._unwrapped(scope, statement.value, hops + 1)
        return annotation

    def _is_true(self, node: ast.expr | None) -> bool:
        return isinstance(node, ast.Constant) and node.value is True

    def unknown_keys(self) -> list[str]:
        """Keys of this release's `Arg` that this reader does not know."""
        meaning = self.modules.lookup(METADATA, ("Arg",))
        if not isinstance(meaning, ClassRef):
            return [f"{METADATA} has no class Arg"]
        keys = {
            statement.target.id
            for statement in meaning.node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        return [f"{meaning.at}: Arg has a key '{key}'" for key in sorted(keys - KNOWN_KEYS)]


def _union(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_union(node.left), *_union(node.right)]
    return [node]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _pairs(node: ast.expr | None) -> dict[str, ast.expr]:
    """Keys and expressions of a dict that is written out."""
    if node is None or _is_none(node):
        return {}
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {
            str(key.value): value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and not node.args:
        return {word.arg: word.value for word in node.keywords if word.arg}
    raise Unresolved("the options of its action are computed")
