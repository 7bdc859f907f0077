# SPDX-License-Identifier: Apache-2.0
"""Find every place in a release that touches the target model, for one speculative algorithm."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._contract.algorithm import (
    find_algorithms,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.program import (
    ContractError,
    Program,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.recorder import Frame, State
from ansible_collections.sm120.sglang.plugins.module_utils._contract.sites import (
    CallSite,
    gather,
)
from ansible_collections.sm120.sglang.plugins.module_utils._contract.values import Obj
from ansible_collections.sm120.sglang.plugins.module_utils._contract.walk import Walk
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef

_HOME = "srt/managers/scheduler.py"
_FIELD = "draft_worker"
_STORED = re.compile(rb"self\.draft_worker\b[^=\n]*=(?!=)")
_STORES = re.compile(rb"self\.(?<!\w.....)(\w+)(?::[^=\n]+)? = ")
_MENTIONS = re.compile(rb"self\.(?<!\w.....)(\w+)")


@dataclass(frozen=True)
class Demands:
    """What a release's code asks of the target model.

    Attributes:
        algorithm: the algorithm, aliases resolved.
        workers: the classes that its dispatch makes for it.
        sites: every place that touches the model.
        doubts: what could not be followed.
    """

    algorithm: str
    workers: tuple[ClassRef, ...]
    sites: tuple[CallSite, ...]
    doubts: tuple[str, ...]


def find_demands(program: Program, algorithm: str) -> Demands:
    """Walk through a release.

    Raises:
        ContractError: it has no such algorithm, or no place that makes its workers.
    """
    table = find_algorithms(program)
    name = table.resolve(algorithm)
    walk = Walk(program, table, name)
    engine = _engine(program)
    walk.home = engine.module
    walk.entries.add(engine.module)
    program.cut(engine)
    root = Obj(engine, "", None, spec=False)
    _give_algorithm(walk, root)
    walk.solve(root, _entries(engine))
    made = walk.fields.get((root, _FIELD), frozenset())
    found = {obj.ref.node: obj.ref for obj in made if isinstance(obj, Obj) and obj.spec}
    workers = tuple(sorted(found.values(), key=lambda ref: ref.at))
    steps = [step for job in walk.reached() for step in job.steps]
    walk.close()
    doubts = sorted({doubt for step in steps for doubt in step.doubts})
    if not workers:
        doubts.insert(0, f"the worker that {name} uses could not be told from {engine.at}")
    return Demands(
        name, workers, gather(touch for step in steps for touch in step.touches), tuple(doubts)
    )


def _engine(program: Program) -> ClassRef:
    """The class that makes the draft worker beside the target's."""
    paths = [path for path in program.reads.names("srt/managers/") if path.endswith(".py")]
    paths.sort(key=lambda path: (path != _HOME, path))
    for path in paths:
        data = program.modules.data(path)
        if data is None or b"target_worker" not in data or not _STORED.search(data):
            continue
        source = program.modules.source(path)
        for node in source.tree.body if source else ():
            if source is None or not isinstance(node, ast.ClassDef):
                continue
            if not _STORED.search(source.lines(node)):
                continue
            ref = ClassRef(program.modules.name_of(path), source, node)
            if any(_FIELD in stored for _, stored, _ in _methods(ref)):
                return ref
    raise ContractError(
        "the place where this release makes its speculative worker is not found (looked for a "
        "class in srt/managers that sets self.draft_worker)",
        "the audit does not know this shape of a release; report it with the release's version",
    )


def _methods(ref: ClassRef) -> list[tuple[str, set[str], set[str]]]:
    """Name of each method, the fields of ``self`` that it assigns, and all that it mentions."""
    found = []
    for node in ref.node.body:
        if isinstance(node, ast.FunctionDef):
            text = ref.source.lines(node)
            stored = {name.decode() for name in _STORES.findall(text)}
            found.append((node.name, stored, {n.decode() for n in _MENTIONS.findall(text)}))
    return found


def _give_algorithm(walk: Walk, root: Obj) -> None:
    """Fill the fields that hold the algorithm, without the engine's whole ``__init__``."""
    frame = Frame(root.ref.module, root.ref.source.path, "", root, root.ref)
    for method in root.ref.node.body:
        if b"algorithm = " not in root.ref.source.lines(method):
            continue
        for node in ast.walk(method):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and "algorithm" in target.attr:
                        values = walk.value(node.value, State({}), frame)
                        walk.put(root, target.attr, values, spec=False)


def _entries(engine: ClassRef) -> list[str]:
    """Methods that make the workers, and those that set what these read."""
    methods = _methods(engine)
    found: dict[str, None] = {}
    todo = [name for name, stored, _ in methods if _FIELD in stored]
    while todo:
        name = todo.pop(0)
        if name in found:
            continue
        found[name] = None
        if name != "__init__":
            read = next(mentioned for other, _, mentioned in methods if other == name)
            workers = {field for field in read if "worker" in field}
            todo += [other for other, stored, _ in methods if stored & workers]
    return [name for name in found if name != "__init__" or len(found) == 1]
