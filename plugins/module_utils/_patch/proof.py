# SPDX-License-Identifier: Apache-2.0
"""Show that an edit does what its patch promises, without a GPU."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.sm120.sglang.plugins.module_utils._patch import (
    probe_delegation,
    probe_symm_mem,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.classes import (
    Classes,
    Member,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import (
    PatchError,
    ProofError,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef, Modules
from ansible_collections.sm120.sglang.plugins.module_utils._patch.objects import (
    given_to_objects,
    inner_of,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import (
    DelegationRule,
    Method,
    Patch,
    SymmMemProof,
)
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import find_class
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import decode

Read = Callable[[str], "bytes | None"]

_STUB_SECONDS = 30.0
_MARKER = "sm120-patch-proof"


@dataclass(frozen=True)
class Prover:
    """How proofs run.

    Attributes:
        root: the package folder.
        python: interpreter that can import the release; empty for none.
        environment: variables for that interpreter, on top of the caller's own.
        seconds: time that the import may take.
    """

    root: Path
    python: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 180.0

    def prove(self, patch: Patch, before: Read, after: Read) -> dict[str, Any]:
        """Prove one patch on planned bytes.

        Args:
            patch: the patch.
            before: the release as it is.
            after: the release with the edits.

        Returns:
            ``kind``, ``ok``, ``summary`` for a person, and details.

        Raises:
            ProofError: the edit does not do what it should.
        """
        if isinstance(patch.rule, DelegationRule):
            proof = self._delegation(patch, patch.rule, before, after)
        elif patch.proof is not None:
            proof = _symm_mem(patch.proof, before, after)
        else:
            proof = {"kind": "syntax", "ok": True, "summary": "the edited file compiles"}
        if not proof["ok"]:
            raise ProofError(
                f"{patch.id}: the edited release does not behave as promised: {proof['summary']}",
                "nothing was changed; report it with the release's version",
            )
        return proof

    def _delegation(
        self, patch: Patch, rule: DelegationRule, before: Read, after: Read
    ) -> dict[str, Any]:
        added = _added(patch.file, rule, before, after)
        failures = _run_methods(rule, added)
        modules = Modules(after)
        inner, names = _inner(rule, patch.file, modules)
        forwarded = ", ".join(statement.name for statement in added)
        proof: dict[str, Any] = {
            "kind": "delegation",
            "ok": not failures,
            "summary": "; ".join(failures) or f"{forwarded} reach self.{rule.target}",
            "inner": inner,
        }
        if self.python and not failures:
            real = self._real_class(patch, rule, after, names)
            proof["real_class"] = real
            proof["ok"] = not (real["ran"] and real["why"])
            shown = real["why"] or f"also on the real {rule.class_name}"
            proof["summary"] += f"; {shown}" if real["ran"] else f"; real class not tried: {shown}"
        return proof

    def _real_class(
        self, patch: Patch, rule: DelegationRule, after: Read, inner: Sequence[str]
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="sm120-patch-") as folder:
            planned = Path(folder) / "planned.py"
            planned.write_bytes(after(patch.file) or b"")
            real = str((self.root / patch.file).resolve())
            job = {
                "overlay": {str(self.root / patch.file): str(planned), real: str(planned)},
                "file": real,
                "site": str(self.root.parent),
                "module": Modules(after).name_of(patch.file),
                "class": rule.class_name,
                "target": rule.target,
                "methods": [_call_shape(method) for method in rule.methods],
                "inner": list(inner),
            }
            command = [self.python, "-B", "-c", inspect.getsource(probe_delegation), _MARKER]
            environment = {**os.environ, **self.environment}
            try:
                return dict(_run(command, job, environment, self.seconds))
            except PatchError as error:
                return {"ran": False, "why": error.cause, "inner": {}}


def _symm_mem(spec: SymmMemProof, before: Read, after: Read) -> dict[str, Any]:
    runs: list[Any] = []
    for read in (before, after):
        sources: dict[str, str] = {}
        for path in (spec.tables, spec.communicator):
            data = read(path)
            if data is None:
                return {
                    "kind": "symm_mem_communicator",
                    "ok": True,
                    "summary": f"not run: this release has no {path}",
                }
            sources[Modules(read).name_of(path)] = decode(path, data)[0]
        job = {
            "sources": sources,
            "communicator": Modules(read).name_of(spec.communicator),
            "capability": spec.capability,
            "world_size": spec.world_size,
        }
        probe = inspect.getsource(probe_symm_mem)
        command = [sys.executable, "-I", "-S", "-B", "-c", probe, _MARKER]
        runs.append(_run(command, job, {}, _STUB_SECONDS))
    was, now = runs
    # A plain card without multicast is what the patch is for; there nothing may be raised.
    strange = [case for case in (*was, *now) if case["error"] not in {"", "KeyError"}]
    summary = f"without the edit: {_tell(was[0])}; with it: {_tell(now[0])}"
    summary += f"; on a system with multicast: {_tell(now[1])}"
    if strange and strange[0] in was:
        summary = f"not run: the stub does not fit this release ({strange[0]['detail']})"
        return {"kind": "symm_mem_communicator", "ok": True, "summary": summary}
    ok = now[0]["result"] != "raises" and not strange
    return {
        "kind": "symm_mem_communicator",
        "ok": ok,
        "summary": summary,
        "before": was,
        "after": now,
    }


def _tell(case: Mapping[str, Any]) -> str:
    if case["result"] == "raises":
        return str(case["detail"])
    if case["result"] == "disabled":
        return f"disabled ({case['detail']})" if case["detail"] else "disabled"
    return str(case["result"])


def _run(
    command: Sequence[str], job: object, environment: Mapping[str, str], seconds: float
) -> Any:
    """Run a probe and read its answer.

    Raises:
        PatchError: it took too long, or ended without an answer.
    """
    try:
        done = subprocess.run(
            command,
            input=json.dumps(job).encode(),
            capture_output=True,
            env=dict(environment),
            cwd="/",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PatchError(f"the proof did not end within {seconds:.0f} s") from error
    except OSError as error:
        raise PatchError(f"{command[0]} cannot be run: {error.strerror}") from error
    _, found, answer = done.stdout.decode("utf-8", "replace").rpartition(f"{_MARKER}\n")
    if not found:
        tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise PatchError(f"the proof ended with {done.returncode}: {' '.join(tail)}")
    return json.loads(answer)


def _added(path: str, rule: DelegationRule, before: Read, after: Read) -> list[ast.FunctionDef]:
    """The methods that the edit brought into the class."""
    bodies: list[dict[str, ast.FunctionDef]] = []
    for read in (before, after):
        tree = ast.parse(decode(path, read(path) or b"")[0])
        definition = find_class(tree, [rule.class_name])[0][0]
        bodies.append({s.name: s for s in definition.body if isinstance(s, ast.FunctionDef)})
    return [statement for name, statement in bodies[1].items() if name not in bodies[0]]


def _run_methods(rule: DelegationRule, added: Sequence[ast.FunctionDef]) -> list[str]:
    """Run the new methods on a bare object; they use nothing of their module."""
    methods = {method.name: method for method in rule.methods}
    failures: list[str] = []
    for statement in added:
        module = ast.fix_missing_locations(ast.Module(body=[statement], type_ignores=[]))
        namespace: dict[str, Any] = {}
        exec(compile(module, rule.class_name, "exec"), namespace)  # noqa: S102 - our own methods
        wrapper = type(rule.class_name, (), {statement.name: namespace[statement.name]})()
        inner = probe_delegation.Inner()
        setattr(wrapper, rule.target, inner)
        shape = _call_shape(methods[statement.name])
        failure = probe_delegation.forwards(wrapper, inner, shape)
        failures += [failure] if failure else []
    return failures


def _call_shape(method: Method) -> dict[str, Any]:
    definition = ast.parse(f"def f({method.parameters}): pass").body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise ProofError(f"{method.name} has no plain signature")
    arguments = definition.args
    return {
        "name": method.name,
        "positional": len(arguments.posonlyargs) + len(arguments.args) + bool(arguments.vararg),
        "keywords": [argument.arg for argument in arguments.kwonlyargs]
        + (["another"] if arguments.kwarg else []),
    }


def _inner(
    rule: DelegationRule, path: str, modules: Modules
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The inner classes as the sources name them, with where each method is defined."""
    classes = Classes(modules)
    start = modules.lookup(modules.name_of(path), (rule.class_name,))
    found: dict[str, dict[str, str]] = {}
    if isinstance(start, ClassRef):
        given = given_to_objects(classes, start, rule.target)
        for inner in (ref for item in given for ref in inner_of(classes, item).classes):
            answers = {m.name: classes.find(inner, m.name) for m in rule.methods}
            found[inner.node.name] = {
                name: answer.at if isinstance(answer, Member) else "not certain"
                for name, answer in answers.items()
            }
    return found, list(found)
