# SPDX-License-Identifier: Apache-2.0
"""The release's own table of speculative algorithms: its names, aliases and registrations."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    ContractError,
    Program,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import flat

# Where it has been since 0.5.5.post3; elsewhere it is found by its members.
_HOME = "srt/speculative/spec_info.py"
OFF = "NONE"
_KNOWN = {OFF, "EAGLE", "EAGLE3"}
_ALIAS_HOMES = ("srt/server_args.py", "srt/arg_groups/speculative")
_COMPARED = re.compile(rb"""speculative_algorithm\s*==\s*["'](\w+)["']([\s\S]{0,200})""")
_TEXT = re.compile(rb"""["'](\w+)["']""")


@dataclass(frozen=True)
class Registration:
    """An algorithm that is registered by a call (0.5.7 and older).

    Attributes:
        flags: families that it counts itself to.
        aliases: other names of it.
        worker: the expression that makes its worker, None for none.
    """

    flags: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    worker: ast.expr | None = None


@dataclass(frozen=True)
class AlgorithmTable:
    """The algorithms of a release.

    Attributes:
        ref: the class whose members they are.
        names: their names, without the one for "off".
        registered: those that are registered by a call.
        aliases: other names, by the name they stand for.
    """

    ref: ClassRef
    names: tuple[str, ...]
    registered: dict[str, Registration] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """The algorithm behind a name or alias, upper or lower case.

        Raises:
            ContractError: the release has none of that name.
        """
        wanted = name.upper()
        wanted = self.aliases.get(wanted, wanted)
        if wanted in self.names:
            return wanted
        there = ", ".join(sorted({*self.names, *self.aliases}))
        raise ContractError(f"this release has no speculative algorithm {name}", f"it has: {there}")

    def flag(self, algorithm: str, flag: str) -> bool | None:
        """Whether a registered algorithm has a flag; None where no registration uses flags."""
        if not any(flag in entry.flags for entry in self.registered.values()):
            return None
        entry = self.registered.get(algorithm)
        return entry is not None and flag in entry.flags


def find_algorithms(program: Program) -> AlgorithmTable:
    """Find the table in the release's speculative code.

    Raises:
        ContractError: there is none.
    """
    paths = [path for path in program.reads.names("srt/speculative/") if path.endswith(".py")]
    paths.sort(key=lambda path: (path != _HOME, path))
    for path in paths:
        data = program.modules.data(path)
        if data is None or b"EAGLE3" not in data or b"class " not in data:
            continue
        found = _in_file(program, path)
        if found is not None:
            return found
    raise ContractError(
        "this release has no table of speculative algorithms (looked for EAGLE and EAGLE3 in "
        "srt/speculative)",
        "give the root of an SGLang release; releases before 0.5.5.post3 are not known",
    )


def _in_file(program: Program, path: str) -> AlgorithmTable | None:
    source = program.modules.source(path)
    if source is None:
        return None
    module = program.modules.name_of(path)
    registered = _registrations(source.tree)
    for statement in source.tree.body:
        if not isinstance(statement, ast.ClassDef):
            continue
        names = [
            target.id
            for item, _ in flat(statement.body)
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name) and target.id.isupper()
        ]
        if set(names) >= _KNOWN:
            ref = ClassRef(module, source, statement)
            kept = tuple(name for name in names if name != OFF)
            return AlgorithmTable(ref, kept, {}, _aliases(program, kept))
        if set(registered) >= _KNOWN - {OFF} and _defines(statement, "is_eagle3"):
            ref = ClassRef(module, source, statement)
            aliases = {other: name for name, r in registered.items() for other in r.aliases}
            kept = tuple(name for name in registered if name != OFF)
            return AlgorithmTable(ref, kept, registered, aliases)
    return None


def _defines(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(item, ast.FunctionDef) and item.name == name for item in node.body)


def _registrations(tree: ast.Module) -> dict[str, Registration]:
    found: dict[str, Registration] = {}
    for statement, _ in flat(tree.body):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = call.args[0]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            continue
        keywords = {item.arg: item.value for item in call.keywords}
        worker = keywords.get("worker_cls") or (call.args[1] if len(call.args) > 1 else None)
        found[name.value.upper()] = Registration(
            frozenset(_texts(keywords.get("flags"))),
            tuple(_texts(keywords.get("aliases"))),
            worker,
        )
    return found


def _texts(node: ast.expr | None) -> list[str]:
    items = getattr(node, "elts", [node] if isinstance(node, ast.Constant) else [])
    return [str(i.value).upper() for i in items if isinstance(i, ast.Constant)]


def _aliases(program: Program, names: tuple[str, ...]) -> dict[str, str]:
    """Names that the release's argument handling takes for an algorithm.

    It compares the argument with the alias and, in the same condition or right behind it, names
    the algorithm (0.5.9 server_args.py:2352, 0.5.23 arg_groups/speculative_hook.py:109).
    """
    found: dict[str, str] = {}
    for home in _ALIAS_HOMES:
        for path in program.reads.names(home):
            data = program.modules.data(path) if path.endswith(".py") else None
            for match in _COMPARED.finditer(data or b""):
                alias = match.group(1).decode()
                behind = [text.decode() for text in _TEXT.findall(match.group(2))]
                name = next((text for text in behind if text in names), None)
                if alias not in names and name is not None:
                    found.setdefault(alias, name)
    return found
