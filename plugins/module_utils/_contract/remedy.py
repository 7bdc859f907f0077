# SPDX-License-Identifier: Apache-2.0
"""What would give a wrapper the members it lacks: a catalogue entry, ready to paste, or why not."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ansible_collections.sm120.sglang.plugins.module_utils._contract.inner import Holder, Inner
from ansible_collections.sm120.sglang.plugins.module_utils._contract.members import Has, Members
from ansible_collections.sm120.sglang.plugins.module_utils._patch.catalogue import parse_entry
from ansible_collections.sm120.sglang.plugins.module_utils._patch.decide import decide
from ansible_collections.sm120.sglang.plugins.module_utils._patch.errors import CatalogueError
from ansible_collections.sm120.sglang.plugins.module_utils._patch.modules import ClassRef
from ansible_collections.sm120.sglang.plugins.module_utils._patch.rules import parse_method

Delegation = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Remedy:
    """Whether forwarding to an inner object supplies a member.

    Attributes:
        delegation: ``yes``, ``no`` or ``unknown``.
        reason: the evidence, for a person.
        holder: the attribute to forward to, "" for none.
        signature: the method as a catalogue entry has it, "" for none.
    """

    delegation: Delegation
    reason: str
    holder: str = ""
    signature: str = ""


class Remedies:
    """Works remedies out."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.inner = Inner(members)

    def for_members(self, ref: ClassRef, names: Sequence[str]) -> dict[str, Remedy]:
        """A remedy for each missing member; one attribute for all of them where there is one."""
        holders = self.inner.holders(ref)
        found: dict[str, Remedy] = {}
        for holder in holders:
            answers = {name: self._through(holder, name) for name in names}
            if all(answer.delegation == "yes" for answer in answers.values()):
                return answers
            for name, answer in answers.items():
                best = found.get(name)
                if best is None or _RANK[answer.delegation] < _RANK[best.delegation]:
                    found[name] = answer
        none = Remedy("no", f"{ref.node.name} holds no object of the release's model classes")
        return {name: found.get(name, none) for name in names}

    def _through(self, holder: Holder, name: str) -> Remedy:
        kinds = [(item, self.members.has(item, name)) for item in holder.classes]
        having = [(item, has) for item, has in kinds if has.present]
        lacking = [item for item, has in kinds if has.present is False]
        place = f"self.{holder.name} ({holder.at})"
        if holder.doubt or (having and lacking):
            shown = [f"{item.node.name} has it" for item, _ in having]
            shown += [f"{item.node.name} lacks it" for item in lacking]
            reason = "; ".join([holder.doubt, *shown] if holder.doubt else shown)
            if holder.doubt and not having:
                return Remedy("unknown", f"{place}: {reason}")
            return Remedy("unknown", f"{place} may be of several classes: {reason}", holder.name)
        if lacking:
            item = lacking[0]
            return Remedy("no", f"{place} is a {item.node.name} ({item.at}), which lacks it too")
        if not having:
            why = next((has.why for _, has in kinds), "its class is not known")
            return Remedy("unknown", f"{place}: {why}")
        item, has = having[0]
        signature = _signature(name, has)
        if not signature:
            return Remedy("no", f"{place} has it as an attribute: a method does not supply that")
        return Remedy(
            "yes",
            f"{place} is a {item.node.name}, which has it ({has.why})",
            holder.name,
            signature,
        )

    def entry(
        self, ref: ClassRef, remedies: dict[str, Remedy], algorithm: str
    ) -> tuple[dict[str, Any] | None, str]:
        """A catalogue entry for what forwarding supplies, and why there is none.

        The entry has been through the patch engine: it fits this release.
        """
        useful = {name: r for name, r in remedies.items() if r.delegation == "yes"}
        if not useful:
            return None, ""
        holder = next(iter(useful.values())).holder
        useful = {name: r for name, r in useful.items() if r.holder == holder}
        short = re.sub(r"For(?:ConditionalGeneration|CausalLM)$", "", ref.node.name)
        entry: dict[str, Any] = {
            "id": f"{_snake(short)}_{algorithm.lower()}_delegation",
            "title": f"{ref.node.name} answers the {algorithm} calls for its self.{holder}",
            "file": ref.source.path,
            "rule": {
                "kind": "ensure_delegating_methods",
                "class": ref.node.name,
                "target": holder,
                "methods": [remedy.signature for remedy in useful.values()],
            },
        }
        try:
            decision = decide(parse_entry(entry, ("entry",)), self.members.program.reads.read)
        except CatalogueError as error:
            return None, str(error)
        if decision.state != "needed":
            return None, f"the patch engine refuses it: {decision.reason}"
        return entry, ""


_RANK: dict[Delegation, int] = {"yes": 0, "unknown": 1, "no": 2}


def _snake(name: str) -> str:
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"\W+", "_", text).strip("_").lower()


def _signature(name: str, has: Has) -> str:
    """The method as a catalogue entry writes it, from the inner class's own definition."""
    node = has.node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ""
    marks = {ast.unparse(item).rsplit(".", 1)[-1] for item in node.decorator_list}
    if marks & {"property", "cached_property", "staticmethod", "classmethod"}:
        return ""
    spec = ast.parse(ast.unparse(ast.Module([node], []))).body[0]
    if not isinstance(spec, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ""
    arguments = spec.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [item for item in (arguments.vararg, arguments.kwarg) if item]
    for item in every:
        item.annotation = None
    (arguments.posonlyargs or arguments.args)[:1] = []
    text = f"{name}({ast.unparse(arguments)})"
    try:
        parse_method(text)
    except ValueError:
        return f"{name}(*args, **kwargs)"
    return text


def as_yaml(entry: dict[str, Any]) -> str:
    """The entry as a catalogue in YAML has it."""
    rule = entry["rule"]
    lines = [
        f"- id: {entry['id']}",
        f"  title: {entry['title']}",
        f"  file: {entry['file']}",
        "  rule:",
        f"    kind: {rule['kind']}",
        f"    class: {rule['class']}",
        f"    target: {rule['target']}",
        "    methods:",
        *(f"      - {_quoted(method)}" for method in rule["methods"]),
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    plain = re.fullmatch(r"[\w(),=* .]+", text) and not re.search(r"[:#]|^[*&!]", text)
    return text if plain else "'" + text.replace("'", "''") + "'"
